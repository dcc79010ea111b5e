package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

func newPolicy() *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Show, change and test the rules of the network", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newPolicyShow(), newPolicyApply(), newPolicyTest())
	return c
}

// document asks for the rules document and checks it.
func (q *query) document(cmd *cobra.Command) (*trust.Document, error) {
	ctx, a, network, done, err := q.askAuthority(cmd)
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

// policyLine is the output of `ferry policy show --json`.
type policyLine struct {
	Number uint64            `json:"number"`
	Issued time.Time         `json:"issued"`
	Policy json.RawMessage   `json:"policy"`
	Roles  map[string]string `json:"roles"` // of all users
}

func newPolicyShow() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "show", Short: "Print the rules of the network, as ferry policy apply takes them",
		Long: `Prints the rules of the network, as ferry policy apply takes them. They name users and paths:
reading them takes the authority audit or admin. ferry policy test shows all users their own rights.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := q.document(cmd)
			if err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, policyLine{d.Number, d.Issued, d.Policy, d.Users})
				return nil
			}
			var b bytes.Buffer
			if err := json.Indent(&b, d.Policy, "", "  "); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), b.String())
			return nil
		}}
	q.add(c)
	return c
}

func newPolicyApply() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "apply FILE|-", Short: "Replace the rules of the network; agents have the new ones within seconds",
		Long: `Replaces the rules of the network by those in a file, or on standard input. The
authority signs them, and agents that are connected decide by them from then on,
also about transfers that run. docs/security.md has the format.`,
		Example: "  ferry policy show > rules.json\n  ferry policy apply rules.json",
		Args:    oneArg("the file with the rules, or -"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readRules(cmd, args[0])
			if err != nil {
				return err
			}
			ctx, a, _, done, err := q.askAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			if err := a.SetPolicy(ctx, data); err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, tokenLine{MessageType: "policy"})
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the rules are applied")
			return nil
		}}
	q.add(c)
	return c
}

// readRules reads a policy from a file or from standard input, and checks it.
func readRules(cmd *cobra.Command, name string) ([]byte, error) {
	data, err := readText(cmd, "rules", name, policy.MaxSize)
	if err != nil {
		return nil, err
	}
	if _, err := policy.Parse(data); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "%s: %w", name, err)
	}
	return data, nil
}

// A sandboxFlag is the rules of an agent's own: of a file, or where none is named those of its properties.
type sandboxFlag struct {
	file  string
	rules *policy.Rules
}

// read returns the rules; nil where there are none.
func (f *sandboxFlag) read(cmd *cobra.Command) (*policy.Rules, error) {
	if f.file == "" {
		return f.rules, nil
	}
	data, err := readRules(cmd, f.file)
	if err != nil {
		return nil, err
	}
	return policy.Parse(data)
}

// decisionLine is one decision in the output of `ferry policy test --json`.
type decisionLine struct {
	Principal string             `json:"principal"`
	Right     transfer.Authority `json:"authority"`
	Agent     transfer.AgentName `json:"agent,omitempty"`
	Path      string             `json:"path,omitempty"`
	Allowed   bool               `json:"allowed"`
	Rule      string             `json:"rule,omitempty"`
	Reason    string             `json:"reason,omitempty"` // why not
}

func newPolicyTest() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "test NAME send AGENT:PATH AGENT:PATH | NAME AUTHORITY [AGENT[:PATH]]", Short: "Show the decision of the rules about a user or agent, and the rule that decides",
		Long: `Decides as agents would, and names the rule: whether a user may send from one path
to another, or has an authority (source, destination, delete-source, overwrite,
operate, admin, audit, enrol, …) at an agent. Paths are absolute, as they really
are on the agent's host; an agent's own sandbox is not known here. The authority answers.
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
			ctx, a, network, done, err := q.askAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			all, err := asked(network, args)
			if err != nil {
				return err
			}
			decisions, err := a.Test(ctx, all)
			if err != nil {
				return err
			}
			return q.decided(cmd, all, decisions)
		}}
	q.add(c)
	return c
}

// asked are the questions of `ferry policy test`.
func asked(network string, args []string) (all []enrol.Question, err error) {
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
		if right.OfPaths() && (p == "" || !path.IsAbs(p) && !strings.Contains(p, ":/")) {
			return "", transfer.Errorf(transfer.KindUsage, "%s is about a path, and %q has no absolute one: AGENT:/PATH", right, at)
		}
		if p != "" {
			p = path.Clean(p)
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

// decided prints decisions; the error is of KindDenied where one of them is a refusal.
func (q *query) decided(cmd *cobra.Command, all []enrol.Question, decisions []enrol.Decision) error {
	code := 0
	rows := [][]string{{"", "PRINCIPAL", "AUTHORITY", "AGENT", "PATH", "RULE"}}
	for n, question := range all {
		rule, refused := decisions[n].Rule, decisions[n].Error
		line := decisionLine{question.Principal, question.Right, question.Agent, string(question.Path), refused == nil, rule, ""}
		word := "allowed"
		if refused != nil {
			word, line.Reason, code = "refused", refused.Text, transfer.CodeDenied
			rule = line.Reason
		}
		if q.json {
			printJSON(cmd, line)
		}
		rows = append(rows, []string{word, question.Principal, string(question.Right), string(question.Agent), printable(string(question.Path)), printable(rule)})
	}
	if !q.json {
		table(cmd.OutOrStdout(), rows)
	}
	if code != 0 {
		return exit(code)
	}
	return nil
}
