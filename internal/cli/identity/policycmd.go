package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/location"
	"ferry/internal/place/queue"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// NewPolicy makes the command `ferry policy`.
func NewPolicy() *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Show, change and test the rules of the network", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newPolicyShow(), newPolicyApply(), newPolicyTest())
	return c
}

// document asks for the rules document and checks it.
func document(q *session.Query, cmd *cobra.Command) (*trust.Document, error) {
	ctx, a, network, done, err := q.AskAuthority(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := a.Rules(ctx)
	if err != nil {
		return nil, err
	}
	return trust.Open(a.Conn.Identity().Trust(), network, data)
}

func newPolicyShow() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "show", Short: "Print the rules of the network, as ferry policy apply takes them",
		Long: `Prints the rules of the network, as ferry policy apply takes them. They name users and paths:
reading them takes the authority audit or admin. ferry policy test shows all users their own rights.`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := document(q, cmd)
			if err != nil {
				return err
			}
			if q.JSON {
				output.JSON(cmd, view.PolicyOf(d))
				return nil
			}
			var b bytes.Buffer
			if err := json.Indent(&b, d.Policy, "", "  "); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), b.String())
			return nil
		}}
	q.Add(c)
	return c
}

func newPolicyApply() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "apply FILE|-", Short: "Replace the rules of the network; agents have the new ones within seconds",
		Long: `Replaces the rules of the network by those in a file, or on standard input. The
authority signs them, and agents that are connected decide by them from then on,
also about transfers that run. docs/security.md has the format.`,
		Example: "  ferry policy show > rules.json\n  ferry policy apply rules.json",
		Args:    usage.OneArg("the file with the rules, or -"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := ReadRules(cmd, args[0])
			if err != nil {
				return err
			}
			ctx, a, _, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			if err := a.SetPolicy(ctx, data); err != nil {
				return err
			}
			if q.JSON {
				output.JSON(cmd, view.Authorised(view.TypePolicy, ""))
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the rules are applied")
			return nil
		}}
	q.Add(c)
	return c
}

// ReadRules reads a policy from a file or from standard input, and checks it.
func ReadRules(cmd *cobra.Command, name string) ([]byte, error) {
	data, err := session.ReadText(cmd, "rules", name, policy.MaxSize)
	if err != nil {
		return nil, err
	}
	if _, err := policy.Parse(data); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "%s: %w", name, err)
	}
	return data, nil
}

func newPolicyTest() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "test NAME send AGENT:PATH AGENT:PATH | NAME AUTHORITY [AGENT[:PATH]]", Short: "Show the decision of the rules about a user or agent, and the rule that decides",
		Long: `Decides as agents would, and names the rule: whether a user may send from one path
to another, or has an authority (source, destination, delete-source, overwrite,
operate, admin, audit, enrol, …) at an agent. Paths are as in ferry send: a relative one
is beneath the first root of the agent. Links in a path are not followed.

The authority answers by the rules, and an agent that is up by its own sandbox, too. Rules
may name users and agents that do not exist yet. Notices name the unknown ones, agents that
are away, and paths beneath no root of their agent, if coordination, the authority and the
agent tell you.

Questions about another name take the authority audit or admin. Exits 53 where anything
is refused.`,
		Example: "  ferry policy test bob send ALPHA:/srv/out/a BETA:/srv/in/a\n  ferry policy test bob operate ALPHA",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || args[1] == "send" && len(args) != 4 || args[1] != "send" && len(args) > 3 {
				return transfer.Errorf(transfer.KindUsage, "`ferry policy test` takes NAME send AGENT:PATH AGENT:PATH, or NAME AUTHORITY and AGENT:PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, a, network, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			net := session.NewClient(a.Conn, q.Network, q.Timeout)
			all, err := questions(network, args, func(agent transfer.AgentName) (roots []string, err error) {
				at, err := net.Agent(ctx, agent)
				if err != nil {
					return nil, err
				}
				return at.Roots, nil
			})
			if err != nil {
				return err
			}
			decisions, err := a.Test(ctx, all)
			if err != nil {
				return err
			}
			lines := notices(ctx, a, net, all, decisions)
			err = printDecisions(q, cmd, all, decisions)
			for _, line := range lines {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", output.Printable(line))
			}
			return err
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

// questions are the questions of `ferry policy test`. rootsOf returns the roots of an agent; a relative path is beneath
// the first one.
func questions(network string, args []string, rootsOf func(transfer.AgentName) ([]string, error)) (all []enrol.Question, err error) {
	who, err := namedIdentity(network, args[0])
	if err != nil {
		return nil, err
	}
	ask := func(right transfer.Authority, at string) (transfer.AgentName, error) {
		name, p, _ := strings.Cut(at, ":")
		agent, err := transfer.ParseAgentName(name)
		if err != nil {
			return "", err
		}
		if right.OfPaths() && p == "" {
			return "", transfer.Errorf(transfer.KindUsage, "%s is about a path, and %q has none", right, at).WithHint("give AGENT:PATH")
		}
		if p != "" {
			p, err = ruledPath(right, p, func(p string) (string, error) { return beneathRoot(agent, p, rootsOf) })
		}
		if err != nil {
			return "", err
		}
		all = append(all, enrol.Question{Principal: who.Token(), Right: right, Agent: agent, Path: transfer.Path(p)})
		return agent, nil
	}

	if args[1] != "send" {
		right := transfer.Authority(args[1])
		if _, err := policy.ParseAuthority(args[1]); err != nil {
			return nil, err
		}
		if len(args) == 2 {
			return []enrol.Question{{Principal: who.Token(), Right: right}}, nil
		}
		_, err := ask(right, args[2])
		return all, err
	}
	from, err := ask(transfer.AuthSource, args[2])
	if err != nil {
		return nil, err
	}
	to, err := ask(transfer.AuthDest, args[3])
	if err == nil && from != to {
		peer := identity.Name{Network: network, Role: identity.Agent, Name: string(from)}
		all = append(all, enrol.Question{Principal: peer.Token(), Right: transfer.AuthPeer, Agent: to})
	}
	return all, err
}

// ruledPath returns the path of rules for a location in the form that ferry send takes: of a queue, /queue:NAME. beneath
// returns a relative path beneath a root.
func ruledPath(right transfer.Authority, text string, beneath func(string) (string, error)) (string, error) {
	read := location.Dest
	if right == transfer.AuthSource || right == transfer.AuthDeleteSource {
		read = location.Source
	}
	l, err := read(text)
	if err != nil {
		return "", err
	}
	p := string(l.Literal())
	switch {
	case l.Place == transfer.Queues:
		a, err := queue.Of(l)
		return ruledQueues + string(a.Queue), err
	case l.Place == transfer.Datasets:
		return "", transfer.Errorf(transfer.KindUsage, "rules have the path of a data set beneath the agent's record root, and not its name %s", l).
			WithHint("give that path")
	case right.OfPaths() && !path.IsAbs(p) && !drive.MatchString(p):
		if p, err = beneath(p); err != nil {
			return "", err
		}
	}
	return path.Clean(p), nil
}

// ruledQueues begins the paths of queues in rules.
const ruledQueues = "/" + queue.Prefix

// drive matches the beginning of an absolute path of Windows.
var drive = regexp.MustCompile(`^[A-Za-z]:/`)

// beneathRoot returns a relative path beneath the first root of an agent.
func beneathRoot(agent transfer.AgentName, p string, rootsOf func(transfer.AgentName) ([]string, error)) (string, error) {
	roots, err := rootsOf(agent)
	if err == nil && len(roots) == 0 {
		err = transfer.Errorf(transfer.KindNotFound, "coordination does not tell the roots of agent %s", agent)
	}
	if err != nil {
		return "", transfer.Errorf(transfer.KindOf(err), "the relative path %s is beneath a root that is not known: %w", transfer.Path(p), err).
			WithHint("give the absolute path: " + string(agent) + ":/PATH")
	}
	return path.Join(disk.ParseRoot(roots[0]).Dir, p), nil
}

// notices describe the parts of questions that rules do not know: users and agents that do not exist, and paths beneath no
// root. There is none about a fact that this user may not ask for. A decision that an agent's sandbox refuses becomes
// the agent's.
func notices(ctx context.Context, a enrol.Client, net *client.Client, all []enrol.Question, decisions []enrol.Decision) (lines []string) {
	add := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if issued, err := a.Identities(ctx); err == nil {
		for _, q := range all {
			if !slices.ContainsFunc(issued, func(i authority.Issued) bool { return i.Name.Token() == q.Principal && !i.Revoked }) {
				add("%s is unknown: the network has issued no identity of that name, or has revoked it", view.DecisionOf(&q, &enrol.Decision{}).Principal)
			}
		}
	}
	for n := range all {
		q := &all[n]
		if q.Agent == "" {
			continue
		}
		at, err := net.Agent(ctx, q.Agent)
		switch {
		case transfer.KindOf(err) == transfer.KindNotFound:
			add("agent %s is unknown: it has never registered with this network", q.Agent)
			continue
		case err != nil:
			add("coordination does not tell whether agent %s exists: %v", q.Agent, err)
			continue
		}
		roots := at.Roots
		if at.Status == wire.AgentStopped || at.Status == wire.AgentUnreachable {
			add("agent %s is away, and its sandbox and its present roots are not known", q.Agent)
		} else if may, err := net.May(ctx, q.Agent, wire.MayAsked{Principal: q.Principal, Right: q.Right, Path: q.Path}); err != nil {
			add("agent %s does not tell its sandbox: %v", q.Agent, err)
		} else {
			if len(may.Roots) > 0 {
				roots = may.Roots
			}
			if decisions[n].Error == nil && may.Error != nil {
				decisions[n] = enrol.Decision{Error: may.Error}
			}
		}
		ruled := q.Path != "" && !strings.HasPrefix(string(q.Path), ruledQueues) // roots do not apply to queues
		if word := outside(string(q.Path), q.Right, roots); ruled && word != "" {
			add("%s lies beneath %s of agent %s: %s", q.Path, word, q.Agent, strings.Join(roots, " "))
		}
	}
	return lines
}

// outside describes that a path lies beneath none of an agent's roots, or beneath none for an authority; "": it does not, or
// the roots are not known.
func outside(p string, right transfer.Authority, roots []string) string {
	word := ""
	for _, r := range roots {
		root := disk.ParseRoot(r)
		dir := path.Clean(root.Dir)
		if dir != "/" && p != dir && !strings.HasPrefix(p, dir+"/") && path.IsAbs(dir) {
			continue
		}
		switch {
		case root.WriteOnly && right == transfer.AuthSource:
			word = "none of the roots to read"
		case root.ReadOnly && right != transfer.AuthSource:
			word = "none of the roots to write"
		default:
			return ""
		}
	}
	if word == "" && len(roots) > 0 {
		return "none of the roots"
	}
	return word
}

// printDecisions prints decisions; the error is of KindDenied where one of them is a refusal.
func printDecisions(q *session.Query, cmd *cobra.Command, all []enrol.Question, decisions []enrol.Decision) error {
	code := 0
	err := output.List(cmd, q.JSON, []string{"", "PRINCIPAL", "AUTHORITY", "AGENT", "PATH", "RULE"}, func(row output.Row) error {
		for n := range all {
			line := view.DecisionOf(&all[n], &decisions[n])
			word, rule := "allowed", line.Rule
			if !line.Allowed {
				word, rule, code = "refused", line.Reason, transfer.CodeDenied
			}
			row(line, word, line.Principal, string(line.Right), string(line.Agent), output.Printable(line.Path), output.Printable(rule))
		}
		return nil
	})
	if err == nil && code != 0 {
		return output.Exit(code)
	}
	return err
}
