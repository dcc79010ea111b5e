package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cliaudit "ferry/internal/cli/audit"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// each calls one for transfers one after another until ctx ends, and explains errors. Its error is the result code of the
// first that was not successful.
func each(ctx context.Context, ids []string, one func(id string) error, explain func(error)) error {
	var first output.Exit
	for _, id := range ids {
		err := one(id)
		if err == nil {
			continue
		}
		var code output.Exit
		if !errors.As(err, &code) {
			explain(err)
			code = output.Exit(transfer.KindOf(err).Code())
		}
		if first == 0 {
			first = code
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first != 0 {
		return first
	}
	return nil
}

// A choice names the transfers of a command: by IDs, or with --failed and filters.
type choice struct {
	verb   string // of the command
	failed bool
	which  cliaudit.FilterFlags
}

// check checks the arguments and flags of the command.
func (s *choice) check(cmd *cobra.Command, args []string) error {
	chosen := s.which.Chosen(cmd)
	switch {
	case len(args) > 0 && chosen != "":
		return transfer.Errorf(transfer.KindUsage, "`ferry transfer %s` takes IDs or --%s, not both", s.verb, chosen)
	case len(args) > 0 && cmd.Flags().Changed("limit"):
		return transfer.Errorf(transfer.KindUsage, "`ferry transfer %s` takes IDs or --limit, not both", s.verb).
			WithHint("--limit bounds the number of transfers that --since and other filters select")
	case len(args) > 0:
		return usage.IDs("transfer")(cmd, args)
	case chosen != "" && !s.failed:
		return transfer.Errorf(transfer.KindUsage, "--%s selects transfers that have failed, and needs --failed", chosen)
	case chosen != "":
		return nil
	case s.failed:
		return transfer.Errorf(transfer.KindUsage, "`ferry transfer %s --failed` needs IDs, or --since or another filter", s.verb).WithHint("`ferry transfer ls --failed` lists the transfers")
	}
	return transfer.Errorf(transfer.KindUsage, "`ferry transfer %s` needs IDs, or --failed with --since or another filter", s.verb).WithHint("`ferry transfer ls --failed` lists the transfers")
}

// failures calls fn for the failed and partial transfers that the filters select and that are open, the newest first. It
// says if there are more. It leaves out those of other users, and returns their number. With --user, and in a network
// without identities, it takes those of all.
func (s *choice) failures(ctx context.Context, cmd *cobra.Command, net *client.Client, filter *wire.Filter, fn func(*transfer.Progress)) (others int64, err error) {
	filter.States, filter.Open = []transfer.State{transfer.Failed, transfer.Partial}, true
	self := ""
	if filter.User == "" && net.Conn.Identity() != nil {
		self = net.Conn.Self()
	}
	list := func(filter *wire.Filter, limit int, fn func(*transfer.Progress) error) (client.Listing, error) {
		return client.EachTransfer(ctx, net, filter, limit, fn)
	}
	end, others, err := listOwn(list, self, filter, s.which.Limit, fn)
	if err == nil {
		leftOut(cmd.ErrOrStderr(), &end, filter.Since)
	}
	return others, err
}

// A lister lists transfers that pass a filter.
type lister func(filter *wire.Filter, limit int, fn func(*transfer.Progress) error) (client.Listing, error)

// listOwn calls fn for up to limit transfers of a principal that pass a filter, and counts those of others. Without a
// principal it calls fn for those of all.
func listOwn(list lister, self string, filter *wire.Filter, limit int, fn func(*transfer.Progress)) (end client.Listing, others int64, err error) {
	own := *filter
	if self != "" {
		name := self
		if p, err := transfer.ParsePath(self); err == nil {
			name = string(p)
		}
		own.User = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name) // a pattern of itself alone
	}
	end, err = list(&own, limit, func(p *transfer.Progress) error {
		if self != "" && p.Principal != self { // its principal is not known
			others++
			return nil
		}
		fn(p)
		return nil
	})
	if err != nil || self == "" {
		return end, 0, err
	}
	all, err := list(filter, 1, func(*transfer.Progress) error { return nil })
	return end, others + max(all.Sums.Transfers-end.Sums.Transfers, 0), err
}

// leftOut says which transfers a selection lacks.
func leftOut(out io.Writer, end *client.Listing, since time.Time) {
	if end.Left > 0 {
		fmt.Fprintf(out, "ferry: left out %s beyond --limit, the oldest; --limit takes more\n", output.Plural(int64(end.Left), "transfer"))
	}
	if end.Complete.After(since) {
		fmt.Fprintf(out, "ferry: transfers that ended before %s may be missing, as coordination has forgotten some; `ferry audit ls` has all\n", output.Stamp(end.Complete))
	}
}

func newTransferRetry() *cobra.Command {
	q := &session.Query{}
	f := &request.Flags{}
	s := &choice{verb: "retry"}
	c := &cobra.Command{Use: "retry ID... | --failed --since TIME [--job PATTERN]", Short: "Repeat transfers that are over, or only their failed items; the result code is the new transfer's",
		Long: `Makes a new transfer of one that is over: the same sources, destination and
settings, as the audit log has them. The new one names the old one as its parent, and ferry
transfer show names the new one with the old one.
With --failed only the failed items are sent, without those that another retry has brought.
--if-exists decides about files that have arrived already, as with ferry send. A transfer
that appends to files, or puts messages into a queue, is not repeated as a whole unless it
was successful.
Several transfers are repeated one after another. The result code is then that of the first
new transfer that was not successful; a transfer that cannot be repeated does not keep the
others.
Without an ID, --failed repeats the failed and partial transfers that --since and the other
filters select, the oldest first. It leaves out those that were repeated before or meanwhile,
those that were acknowledged with ferry transfer ack, and those that the rules refused.
Transfers of another user are repeated only with --user.
A new transfer has your name and your rights, also where the old one was another user's.`,
		Example: "  ferry transfer retry 8057a4 --failed\n  ferry transfer retry 8057a4 --if-exists skip\n  ferry transfer retry 8057a4 91c0e2 --failed\n  ferry transfer retry --failed --since yesterday --job 'nightly*'",
		Args:    s.check,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := s.which.Filter(time.Now())
			if err != nil {
				return err
			}
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			f.JSON = q.JSON
			r := &repeater{cmd: cmd, net: net, f: f}
			if len(args) > 0 {
				return all(ctx, cmd, args, func(ctx context.Context, id string) error { return r.named(ctx, id, s.failed) })
			}
			var ids []string
			whole := map[string]bool{}
			denied := int64(0)
			others, err := s.failures(ctx, cmd, net, filter, func(p *transfer.Progress) {
				if p.Code == transfer.KindDenied.Code() {
					denied++
					return
				}
				ids = append(ids, p.ID.String())
				whole[p.ID.String()] = p.Files == 0 && p.FilesFailed == 0 // it ended before any of its items was decided
			})
			if err != nil {
				return err
			}
			if denied > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: left out %s that the rules refused; ferry transfer retry ID repeats one in your name\n", output.Plural(denied, "transfer"))
			}
			if others > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: left out %s of other users; --user NAME repeats those of one in your name, with your rights\n", output.Plural(others, "transfer"))
			}
			if len(ids) == 0 {
				if err := s.which.CheckAgents(ctx, net); err != nil {
					return err
				}
				session.None(cmd, "such open failure", net.Conn.Identity() != nil)
				return nil
			}
			slices.Reverse(ids)
			return all(ctx, cmd, ids, func(ctx context.Context, id string) error { return r.open(ctx, id, !whole[id]) })
		}}
	q.Add(c)
	fl := c.Flags()
	fl.BoolVar(&s.failed, "failed", false, "send only the items that failed")
	s.which.AddChoice(c)
	fl.StringVar(&f.IfExists, "if-exists", "", "action if the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.DryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress and no notices")
	return c
}

// A repeater repeats transfers.
type repeater struct {
	cmd *cobra.Command
	net *client.Client
	f   *request.Flags
}

// all calls one for transfers, one after another.
func all(ctx context.Context, cmd *cobra.Command, ids []string, one func(ctx context.Context, id string) error) error {
	if len(ids) == 1 {
		return one(ctx, ids[0])
	}
	return each(ctx, ids, func(id string) error { return one(ctx, id) }, func(err error) { output.Explain(cmd.ErrOrStderr(), err) })
}

// named repeats a transfer, or its failed items alone.
func (r *repeater) named(ctx context.Context, id string, failed bool) error {
	p, err := r.net.Transfer(ctx, id)
	if err != nil {
		return err
	}
	return r.again(ctx, p, failed)
}

// open repeats a transfer that was open when the selection was made, if it still is. Another operator may have repeated it
// meanwhile.
func (r *repeater) open(ctx context.Context, id string, failed bool) error {
	p, err := r.net.Transfer(ctx, id)
	if err != nil {
		return err
	}
	if over := closed(p); over != "" {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "ferry: left out transfer %s: %s\n", p.ID, over)
		return nil
	}
	return r.again(ctx, p, failed)
}

// closed says why a failure is not open any more, or returns "".
func closed(p *transfer.Progress) string {
	switch {
	case p.Retried:
		return fmt.Sprintf("it was already retried as %s", p.RetriedAs)
	case p.Acknowledged != nil:
		return "it was acknowledged " + acknowledgedText(p.Acknowledged)
	}
	return ""
}

func (r *repeater) again(ctx context.Context, p *transfer.Progress, failed bool) error {
	req, err := r.net.RetryOf(ctx, p, failed, r.f.IfExists)
	if err == nil {
		err = req.Check()
	}
	if err != nil {
		return err
	}
	if !r.f.Quiet && !p.RetriedAs.IsZero() {
		r.tellBrought(ctx, p, req, failed)
	}
	return follow.Submit(ctx, r.cmd, r.net, req, r.f, follow.NewView(r.cmd, r.f.JSON, r.f.Quiet))
}

// tellBrought says whether a request sends files again that another repetition of the transfer has brought.
func (r *repeater) tellBrought(ctx context.Context, p *transfer.Progress, req *transfer.Request, failed bool) {
	out := r.cmd.ErrOrStderr()
	if failed {
		if n := p.FilesFailed - int64(len(req.Retry.Only)); n > 0 {
			fmt.Fprintf(out, "ferry: %s: %d of the %d failed items have arrived with a retry, the last one %s, and are not sent again\n", p.ID, n, p.FilesFailed, p.RetriedAs)
		}
		return
	}
	if r.f.IfExists != "" {
		return
	}
	if by, err := r.net.Transfer(ctx, p.RetriedAs.String()); err == nil && by.Files > 0 {
		fmt.Fprintf(out, "ferry: %s: %s of it arrived with the retry %s, and all of it is sent again; --if-exists skip leaves files that are there\n", p.ID, output.Plural(by.Files, "file"), p.RetriedAs)
	}
}
