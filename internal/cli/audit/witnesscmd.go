package audit

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/node/member"
	"ferry/internal/transfer"
)

// newAuditAccept makes the command that has witnesses accept another audit log.
func newAuditAccept() *cobra.Command {
	q := &session.Query{}
	var reason string
	c := &cobra.Command{Use: "accept AGENT...", Short: "Have agents that have seen another audit log go on from the present one",
		Long: `Has agents go on as witnesses from the log that coordination has now. An agent that
has seen another log is DEGRADED and keeps its audit records until then. Find
the reason for the other log first: records that only the old log had are lost. The
audit log records the last checkpoint that the agent had seen.

With --reason the agents also accept that the log lacks records of theirs. ferry audit
verify then shows these gaps with the reason, and counts the log as sound.`,
		Example: "  ferry audit verify\n  ferry audit accept ALPHA BETA --reason 'disk of coordination restored from Sunday'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return transfer.Errorf(transfer.KindUsage, "`%s` needs the names of agents", cmd.CommandPath()).WithHint("`ferry agent ls` says which are DEGRADED")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			shown, err := client.Auditor{Client: net}.Log(ctx, 0, "")
			if err != nil {
				return err
			}
			for _, arg := range args {
				name, err := transfer.ParseAgentName(arg)
				if err == nil {
					err = client.Auditor{Client: net}.AcceptLog(ctx, name, shown, reason)
				}
				if err != nil {
					return err
				}
				output.Result(cmd, q.JSON, view.AcceptedOf(name), "%s goes on from the log that coordination has now\n", name)
			}
			return nil
		}}
	q.Add(c)
	c.Flags().StringVar(&reason, "reason", "", "why records are missing: their gaps are accepted")
	return c
}

// showProofs writes the records of a transfer with their proofs, oldest first.
func (q *auditQuery) showProofs(cmd *cobra.Command, suffix string) error {
	if q.dir != "" || q.Network == "" {
		return transfer.Errorf(transfer.KindUsage, "--proof needs --network: witnesses are agents of a network").WithHint("give --network URL or set FERRY_NETWORK")
	}
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	var lines []json.RawMessage
	who := client.Auditor{Client: net}
	if err := who.Proofs(ctx, suffix, func(line json.RawMessage) error {
		lines = append(lines, append(json.RawMessage(nil), line...))
		return nil
	}); err != nil {
		return err
	}
	if len(lines) == 0 {
		return noTransfer(suffix)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", lines[i])
	}
	return nil
}

func noTransfer(suffix string) error {
	return transfer.Errorf(transfer.KindNotFound, "the audit log has no transfer with an ID that ends in %q", suffix).WithHint("`ferry audit ls` lists them")
}

// newAuditCheck checks proofs offline.
func newAuditCheck() *cobra.Command {
	var root, dir string
	var asJSON bool
	c := &cobra.Command{Use: "check FILE", Short: "Check records with their proofs, without a network",
		Long: `Checks the output of ` + "`ferry audit show ID --proof`" + `: each record is signed by its agent,
and is in a log that coordination has signed. It lists the agents that have seen that
log. It needs no network connection. --root or this user's identity names the network.
FILE may be -, standard input.

Result codes: 0 all is proved, 40 something is not.`,
		Example: "  ferry audit show 4f2a11 --proof > record.json\n  ferry audit check record.json",
		Args:    usage.OneArg("a file with proofs"), RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return transfer.Errorf(transfer.KindUnreadable, "the proofs cannot be read: %w", err)
				}
				defer f.Close()
				in = f
			}
			k := &checking{cmd: cmd, root: strings.ToLower(root), dir: dir, json: asJSON}
			return k.all(in)
		}}
	c.Flags().StringVar(&root, "root", "", "hash of the network's root certificate, 64 digits of hexadecimal (default: of this user's identity)")
	c.Flags().StringVar(&dir, "identity", "", "directory of an identity of the network (default: this user's in that network)")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return c
}

// A checking checks proofs, one a line.
type checking struct {
	cmd       *cobra.Command
	root, dir string
	json      bool
	good, bad int
}

// mostProofs is the number of proofs of one file that are checked at most.
const mostProofs = 100_000

func (k *checking) all(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), audit.MaxProof+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if len(strings.TrimSpace(string(line))) == 0 {
			continue
		}
		if n > mostProofs {
			return transfer.Errorf(transfer.KindTooLarge, "the file has more than %d lines", mostProofs)
		}
		done, err := k.one(line)
		if kind := transfer.KindOf(err); err != nil && kind != transfer.KindDigest && kind != transfer.KindMalformed {
			return err
		}
		k.say(n, done, err)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return transfer.Errorf(transfer.KindTooLarge, "a proof has more than %d bytes", audit.MaxProof)
	case err != nil:
		return transfer.Errorf(transfer.KindUnreadable, "the proofs cannot be read: %w", err)
	case k.good+k.bad == 0:
		return transfer.Errorf(transfer.KindUsage, "there is no proof in the file").WithHint("`ferry audit show ID --proof > FILE` writes them")
	case k.bad > 0:
		return output.Exit(transfer.CodeNothing)
	}
	return nil
}

func (k *checking) one(line []byte) (*audit.Proved, error) {
	p, err := audit.DecodeProof(line)
	if err != nil {
		return nil, err
	}
	roots, err := k.rootsOf(p)
	if err != nil {
		return nil, err
	}
	return p.Check(roots...)
}

// rootsOf are the hashes of the root certificates against which a proof is held.
func (k *checking) rootsOf(p *audit.Proof) ([]string, error) {
	if k.root != "" {
		if b, err := hex.DecodeString(k.root); err != nil || len(b) != 32 {
			return nil, transfer.Errorf(transfer.KindUsage, "--root %.80q is not 64 digits of hexadecimal", k.root)
		}
		return []string{k.root}, nil
	}
	if k.dir != "" {
		i, err := member.LoadIdentity(k.dir)
		if err != nil {
			return nil, err
		}
		return i.Roots().Ever().Hashes(), nil
	}
	store, err := member.Identities()
	if err != nil {
		return nil, err
	}
	network := p.Signer.Identity.Network
	i, err := store.Load(network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindUsage, "the proof is of the network %s, and this user has no identity in it", network).
			WithHint("name the network's root with --root; `ferry identity show --json` says it where there is an identity")
	}
	if err != nil {
		return nil, err
	}
	return i.Roots().Ever().Hashes(), nil
}

// say prints the proved entry, or the reason why nothing is proved.
func (k *checking) say(line int, p *audit.Proved, err error) {
	c := view.CheckedOf(line, p, err)
	if err != nil {
		k.bad++
	} else {
		k.good++
	}
	out := k.cmd.OutOrStdout()
	switch {
	case k.json:
		output.JSON(k.cmd, c)
	case err != nil:
		fmt.Fprintf(out, "line %d: %s\n", line, output.Printable(c.Problem))
	default:
		ShowRecord(k.cmd, &p.Record)
		fmt.Fprintf(out, "  %s; in the log of %s of the network %s, root %s\n", signedBy(p), output.Plural(p.Size, "record"), p.Network, c.Root)
		fmt.Fprintf(out, "  %s\n", seenBy(p.Witnesses))
	}
}

func signedBy(p *audit.Proved) string {
	switch {
	case p.Signed:
		return fmt.Sprintf("signed by %s as its record %d", p.Record.Agent, p.Record.N)
	case p.Record.Agent == audit.Coordination:
		return "coordination's own, and signed by it with the log"
	}
	return fmt.Sprintf("not signed by %s, as coordination has it", p.Record.Agent)
}

func seenBy(all []audit.Seen) string {
	if len(all) == 0 {
		return "no agent has cosigned that yet"
	}
	words := make([]string, len(all))
	for n, w := range all {
		words[n] = fmt.Sprintf("%s at %s", w.Agent, output.Stamp(w.Time))
	}
	return "seen by " + strings.Join(words, ", ")
}

// signatures is the part of the output of `ferry audit verify` about signatures and the agents that it has asked;
// empty: it has examined neither.
func signatures(r *audit.Report) string {
	if r.Signed+r.Unsigned+r.Witnesses == 0 && len(r.Silent) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d signed by their agents", r.Signed)
	if r.Unsigned > 0 {
		text += fmt.Sprintf(", %d not", r.Unsigned)
	}
	text += fmt.Sprintf("; compared with the checkpoints that %s seen", agentsHave(r.Witnesses))
	if len(r.Silent) > 0 {
		text += "; not heard: " + strings.Join(names(r.Silent), ", ")
	}
	return text
}

// verifyFiles verifies a log in a directory against the checkpoints that the agents of a network have seen.
func (q *auditQuery) verifyFiles(cmd *cobra.Command, log *audit.Log) (*audit.Report, error) {
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	if net.Conn.Identity() == nil {
		r, err := log.Verify(ctx, nil)
		return &r, err
	}
	heard, err := client.Auditor{Client: net}.Witnesses(ctx)
	if err != nil {
		return nil, err
	}
	var found audit.Report
	kept := heard.Compare(&found)
	heard.CheckSameLog(log, &found)
	r, err := log.VerifySigned(ctx, heard.Roots, kept...)
	if err != nil {
		return nil, err
	}
	r.Join(&found)
	return &r, nil
}

func agentsHave(n int64) string {
	if n == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", n)
}

func names(agents []transfer.AgentName) []string {
	all := make([]string, len(agents))
	for n, a := range agents {
		all[n] = string(a)
	}
	return all
}
