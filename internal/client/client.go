// Package client is the interface of people and programs to a network of agents. It submits transfers and waits for
// their end, cancels and resumes them, lists them, asks for the outcome of files, repeats failed items, and inspects
// and changes agents.
//
// A request is handed to the source agent's COMMAND queue, and handed over again until the agent has confirmed that its
// ledger has it.
package client

import (
	"context"
	"errors"
	"os"
	"os/user"
	"slices"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of questions.
const (
	askTimeout  = 2 * time.Second
	pictureTime = 6 * time.Second // time for the picture of a transfer over a slow link
	askedMost   = time.Minute     // between two questions about a transfer
	// askShare is the pause before the next question, as a multiple of the time of an answer. On 64 kbit/s a question
	// and its answer take 600 bytes of the source's link with their headers. 25 followers that waited 32 times took 38
	// KB in 80 s.
	askShare = 64
)

// A Client speaks over one connection.
type Client struct {
	Conn    *qmgr.Conn
	Clock   clock.Clock
	Who     transfer.Originator
	Timeout time.Duration // of an answer; default 5 s
	Network string        // where Conn leads to, for people
	For     string        // the user that the client speaks for at agents; empty: its own

	took time.Duration // from the last time that the request was stored or asked for, until its receipt
}

// Me returns the originator: the user of this process and this host.
func Me() transfer.Originator {
	o := transfer.Originator{User: "unknown", Host: "unknown"}
	if u, err := user.Current(); err == nil && u.Username != "" {
		o.User = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		o.Host = h
	}
	return o
}

// Check refuses a request that must not be sent: malformed, over a limit, or for an agent that coordination is certain
// not to know (R4).
func (c *Client) Check(ctx context.Context, q *transfer.Request) error {
	if err := q.Check(); err != nil {
		return err
	}
	if err := c.CheckSize(q); err != nil {
		return err
	}
	for _, a := range []transfer.AgentName{q.Source, q.Destination} {
		if a.Stream() {
			continue // the registry has no pipes
		}
		if err := c.asker().known(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// CheckSize refuses a request that is larger than MaxRequest. It also refuses one that has more data beside its items
// than a message has room for.
func (c *Client) CheckSize(q *transfer.Request) error {
	head, _, err := q.Split()
	if err != nil {
		return err
	}
	if n := len(message(head, "", transfer.DefaultRecovery)); n > wire.MaxControl {
		return transfer.Errorf(transfer.KindTooLarge, "the request has %d bytes beside its items; the limit is %d", n, wire.MaxControl).
			WithHint("use patterns or directories, or several transfers")
	}
	return nil
}

// Status asks the source agent for a transfer. An answer that is not about it
// is an error of KindUnreachable.
func (c *Client) Status(ctx context.Context, t Transfer) (*transfer.Progress, error) {
	subject := wire.AskAgent(t.Source, c.Conn.Self())
	data, err := c.Conn.Request(ctx, subject, c.asker().signedAsk(subject, wire.Ask{V: wire.Version, Kind: wire.AskStatus, ID: t.ID}), pictureTime)
	if err != nil {
		return nil, err
	}

	ans, ok, err := answer(data, t.ID)
	if err != nil {
		return nil, err
	}

	if !ok || !t.is(ans.Progress) {
		return nil, transfer.Errorf(transfer.KindUnreachable, "the answer for agent %s is not about transfer %s", t.Source, t.ID)
	}
	return ans.Progress, nil
}

// previewTime is an agent's time for a preview.
const previewTime = 10 * time.Second

// Preview asks the source agent for the files that a request would send, and the destination agent for the result
// there. It asks part by part about a large request. The error is the reason for sending nothing.
func (c *Client) Preview(ctx context.Context, q *transfer.Request) (*wire.Preview, error) {
	head, parts, err := q.Split()
	if err != nil {
		return nil, err
	}

	head.Rest = nil
	all, err := c.asker().preview(ctx, head)
	for n := 0; n < len(parts) && err == nil; n++ {
		part := *head
		if part.Items, err = parts[n].Read(); err != nil {
			return nil, err
		}
		var p *wire.Preview
		if p, err = c.asker().preview(ctx, &part); err == nil {
			all.Items, all.Files, all.Bytes, all.LeftOut, all.More = all.Items+p.Items, all.Files+p.Files, all.Bytes+p.Bytes, all.LeftOut+p.LeftOut, all.More || p.More
			if int64(len(all.List)) == all.Items-p.Items { // otherwise some before these are left out
				all.List = append(all.List, p.List...)
			}
		}
	}
	if err == nil && q.Together && all.Items > transfer.MaxSet {
		return nil, transfer.Errorf(transfer.KindTooLarge, "there are more than %d files and directories, the most that --together takes; nothing would be sent", transfer.MaxSet)
	}
	if err == nil && (q.MaxFiles > 0 && all.Files > q.MaxFiles || q.MaxBytes > 0 && all.Bytes > q.MaxBytes) {
		return nil, transfer.Errorf(transfer.KindTooLarge, "there are more files, or more bytes in them, than --max-files and --max-size allow; nothing would be sent")
	}
	return all, err
}

func (l asker) preview(ctx context.Context, q *transfer.Request) (*wire.Preview, error) {
	ans, err := l.ask(ctx, wire.AskAgent(q.Source, l.conn.Self()), wire.Ask{Kind: wire.AskPreview, Request: q}, previewTime)
	if err != nil {
		return nil, err
	}

	if ans.Preview == nil {
		return nil, transfer.Errorf(transfer.KindVersion, "agent %s has answered without a preview", q.Source)
	}

	p, there := ans.Preview, *q
	there.Items = []transfer.RequestItem{{Source: transfer.File("-"), Dest: transfer.File("-")}} // the destination is not asked about the sources
	if q.Base != "" {
		there.Base, there.Items[0].Dest = "-", transfer.Location{}
	}

	if q.Retry != nil {
		there.Retry = &transfer.Retry{Of: q.Retry.Of, Resolved: q.Retry.Resolved}
	}

	ask := wire.Ask{Kind: wire.AskLook, Request: &there, Preview: &wire.Preview{Dest: p.Dest, Several: p.Several, List: p.List, Targets: p.Targets}}
	if ans, err = l.ask(ctx, wire.AskAgent(q.Destination, l.conn.Self()), ask, previewTime); err != nil {
		return nil, err
	}

	if ans.Preview == nil || len(ans.Preview.List) > len(p.List) {
		return nil, otherItems(q.Destination)
	}

	for n, it := range ans.Preview.List {
		if it.Name != p.List[n].Name || it.Source != p.List[n].Source {
			return nil, otherItems(q.Destination)
		}
	}

	p.List, p.Exits = ans.Preview.List, slices.DeleteFunc(append(p.Exits, ans.Preview.Exits...), func(at transfer.CallPoint) bool { return !slices.Contains(transfer.ExitPoints(), at) })
	return p, nil
}

func otherItems(by transfer.AgentName) error {
	return transfer.Errorf(transfer.KindVersion, "agent %s has answered for other items than it was asked about", by)
}

// askAgain is the least time between two questions to the source that a report of the end causes.
const askAgain = 20 * time.Millisecond

// Watch follows a transfer until it has ended or is parked, through restarts of agents and queue managers, and returns
// the last picture. The last picture is the source's answer to a question of the client. Published pictures are only
// shown, and only the submitter of the transfer hears them: other clients hear answers alone. show gets every picture;
// notice is called when the agent cannot be reached.
func (c *Client) Watch(ctx context.Context, of Transfer, show func(*transfer.Progress), notice func(error)) (*transfer.Progress, error) {
	reports := make(chan *transfer.Progress, 64)
	stop, err := c.Conn.Subscribe(wire.ProgressSubject(of.Source, c.Conn.Self()), func(m qmgr.Message) {
		r, err := wire.DecodeReport(m.Data)
		if err != nil || !of.is(r.Progress) {
			return
		}
		select {
		case reports <- r.Progress:
		default: // asked for below
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()

	var caused time.Time // time of the next or the last question that a report has caused
	pause := time.Duration(0)
	// Ask once at the start: it may be over already. On a slow link the receipt has only just arrived.
	t := c.Clock.NewTimer(slow(c.took))
	defer t.Stop()
	for {
		var p *transfer.Progress
		select {
		case p = <-reports:
			if over(p) {
				if now := c.Clock.Now(); !now.Before(caused) { // else it is about to be asked
					caused = now.Add(max(askAgain-now.Sub(caused), 0))
					t.Reset(caused.Sub(now))
				}
				continue
			}
		case <-t.C():
			asked := c.Clock.Now()
			p, err = c.Status(ctx, of)
			// A slow answer means that the link is full, and questions take their part of it.
			took := c.Clock.Now().Sub(asked)
			most := max(repeatMost, min(2*askShare*took, askedMost))
			switch {
			case transfer.KindOf(err) == transfer.KindTimeout: // the link is full, or the agent hangs
				most = askedMost / 4
			case err != nil: // the question was not on the link
				took, most = 0, repeatMost
			}
			pause = min(max(2*pause, repeatFirst, askShare*took), most)
			t.Reset(pause)
			if err != nil {
				if !waits(err) && ctx.Err() == nil {
					return nil, err
				}
				if notice != nil && ctx.Err() == nil {
					notice(away(of.Source))
				}
				continue
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if show != nil {
			show(p)
		}
		if over(p) {
			return p, nil
		}
	}
}

// slow returns the pause before the first question to the source, after a receipt that took so long to come.
func slow(receipt time.Duration) time.Duration {
	if receipt < repeatFirst/2 {
		return 0
	}
	return min(4*receipt, askedMost/4)
}

// over reports whether the wait is over.
func over(p *transfer.Progress) bool { return p.State.Final() || p.State == transfer.Parked }

// Control sends a cancel or another command to an agent and waits for its
// answer; the command is durable and repeated under the same ID meanwhile.
func (c *Client) Control(ctx context.Context, agent transfer.AgentName, kind wire.Kind, id transfer.ID) (*transfer.Progress, error) {
	return c.control(ctx, Transfer{Source: agent, ID: id}, kind)
}

func (c *Client) control(ctx context.Context, of Transfer, kind wire.Kind) (*transfer.Progress, error) {
	ans, err := AtAgent{Client: c, Agent: of.Source}.Command(ctx, kind, wire.OfTransfer{Transfer: of.ID})
	if err != nil {
		return nil, err
	}
	return ans.Progress, nil
}

// endsSoon is the time for which Cancel waits for the end that most cancelled transfers have at once.
const endsSoon = 2 * time.Second

// Cancel cancels a transfer. It returns the end if that comes soon, else the present picture. A request that is a dead
// letter is withdrawn, and needs no agent. The cancel is stored for the agent nevertheless: the submitter may have stored
// the request again.
func (c *Client) Cancel(ctx context.Context, of Transfer) (*transfer.Progress, error) {
	withdrawn := dropLetters(ctx, c, of)
	p, err := controlOr(ctx, c, of, withdrawn)
	if err != nil {
		return nil, err
	}

	if p == nil {
		p = &transfer.Progress{ID: of.ID, State: transfer.Cancelled, Source: of.Source}
	}

	if p.State.Final() {
		return p, nil
	}

	ctx, cancel := context.WithTimeout(ctx, endsSoon)
	defer cancel()
	if last, err := c.Watch(ctx, of, nil, nil); err == nil {
		return last, nil
	}
	return p, nil
}

// controlOr sends the cancel of a transfer. The letters of a withdrawn one are gone, but a copy of its request may be left.
// Its agent gets the stored cancel before that, so no answer is awaited for long.
func controlOr(ctx context.Context, c *Client, of Transfer, withdrawn bool) (*transfer.Progress, error) {
	if !withdrawn {
		return c.control(ctx, of, wire.ControlCancel)
	}
	ctx, cancel := context.WithTimeout(ctx, endsSoon)
	defer cancel()
	p, err := c.control(ctx, of, wire.ControlCancel)
	var h *HandoverError
	if errors.As(err, &h) && h.At == Stored || transfer.KindOf(err) == transfer.KindUnknownAgent {
		return &transfer.Progress{ID: of.ID, State: transfer.Withdrawn, Source: of.Source}, nil
	}
	return p, err
}

// Run submits a request in time and follows the transfer to its end. See SubmitInTime and
// Watch.
func (c *Client) Run(ctx context.Context, q *transfer.Request, show func(*transfer.Progress), notice func(error)) (*transfer.Progress, error) {
	p, err := c.SubmitInTime(ctx, q, notice)
	if err == nil && (p == nil || !p.State.Final()) {
		p, err = c.Watch(ctx, Of(q), show, notice)
	}
	return p, err
}
