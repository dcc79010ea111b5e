// Package access decides the rights of a principal at an agent. It applies the policy in the network's trust document
// and the agent's own sandbox, which narrows the policy. A principal is the token that a connection vouches for. The
// document has its name and its role.
package access

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// Fold says that the file systems of a host take letters of either case for one another.
type Fold bool

// A Judge decides for one agent, or for coordination. It is safe for concurrent use. The zero Judge and a nil one are
// those of a network without identities: they allow everything that no sandbox refuses.
type Judge struct {
	network string // empty: without identities
	sandbox *policy.Rules
	fold    Fold
	rules   atomic.Pointer[rules]
	newer   func(user string) bool // Newer; nil: there is no authority to ask
}

// rules are a document that was taken apart.
type rules struct {
	*policy.Rules
	users map[string]string // roles by name
	keys  map[string]string // present keys by name, of names that had others
}

// NewJudge makes the Judge of a network; an empty one has no identities. sandbox may be nil.
func NewJudge(network string, sandbox *policy.Rules, fold Fold) *Judge {
	return &Judge{network: network, sandbox: sandbox, fold: fold}
}

// Newer has the Judge call may before it refuses a user that its document does not list. Where a newer document may list
// the user, the answer is an error that waits. Newer is called before the Judge is used.
func (j *Judge) Newer(may func(user string) bool) { j.newer = may }

// Take has the Judge decide by a document. A document with a policy that cannot be read is an error, and the rules
// taken before hold: the authority has a newer version, or is broken. A document without rules allows nothing.
func (j *Judge) Take(d *trust.Document) error {
	if d.Form() == trust.Keys {
		j.rules.Store(&rules{Rules: &policy.Rules{}})
		return nil
	}
	p, err := policy.Parse(d.Policy)
	if err != nil {
		if old := j.rules.Load(); old != nil {
			j.rules.Store(&rules{Rules: old.Rules, users: d.Users, keys: d.Keys}) // revocations and new roles hold with the old rules, too
		}
		return transfer.Errorf(transfer.KindMalformed, "the policy in trust document %d cannot be used: %w", d.Number, err)
	}
	j.rules.Store(&rules{Rules: p, users: d.Users, keys: d.Keys})
	return nil
}

// Ready is nil where the Judge can decide; otherwise the error is a wait.
func (j *Judge) Ready() error {
	if j == nil || j.network == "" || j.rules.Load() != nil {
		return nil
	}
	return j.notYet()
}

func (j *Judge) notYet() error {
	return transfer.Errorf(transfer.KindBusy, "the policy of the network %s has not arrived yet", j.network).
		WithHint("start the network's authority: `ferry up`, or `ferry authority run`")
}

// Plain reports whether the direct lane may go without TLS.
func (j *Judge) Plain() bool {
	if j == nil || j.network == "" {
		return true
	}
	r := j.rules.Load()
	return r != nil && r.Plain()
}

// A Question is whether a principal may do something at an agent.
type Question struct {
	Principal string // a token
	Right     transfer.Authority
	Agent     transfer.AgentName
	Path      string // of rights to paths; with / at its end: whether he has it for any path beneath; empty: for any path
}

// Ask returns the rule that allows a question, or an error of KindDenied that names principal, authority, agent, path
// and rule. The error is of KindBusy where the rules are not known yet.
func (j *Judge) Ask(q Question) (rule string, err error) {
	if j == nil || q.Right == transfer.AuthNone {
		return "", nil
	}
	who, err := j.who(q.Principal)
	if err != nil {
		return "", err
	}
	return j.decide(who, q)
}

// AskRules is Ask by the network's rules alone, without the sandbox.
func (j *Judge) AskRules(q Question) error {
	if j == nil || q.Right == transfer.AuthNone {
		return nil
	}
	who, err := j.who(q.Principal)
	if err != nil || who.of == nil {
		return err
	}
	if d := who.of.Decide(j.question(who.Principal, q)); !d.Allowed {
		return refusal(who.Principal, q, d, "")
	}
	return nil
}

// Delegates returns nil where the rules let a user speak for another one at an agent. It ignores sandboxes.
func (j *Judge) Delegates(by, principal string, at transfer.AgentName) error {
	q := Question{Principal: by, Right: transfer.AuthDelegate, Agent: at}
	who, err := j.who(by)
	if err != nil {
		return err
	}
	if who.of == nil {
		return nil
	}
	of, err := who.of.principal(j.network, principal)
	if err != nil {
		return err
	}
	ask := j.question(who.Principal, q)
	ask.For = of
	if d := who.of.Decide(ask); !d.Allowed {
		if who.of.Ever(who.Principal, q.Right) && j.mayList(of) {
			return notListed(of)
		}
		return transfer.Errorf(transfer.KindDenied, "%s %s does not have the authority %s for %s %s at agent %s: no rule gives it", who.Kind, who.Name, q.Right, of.Kind, of.Name, at)
	}
	return nil
}

// Key is the begin of the fingerprint of the key that a user has now, where its name had other keys before. It is empty for other principals.
func (j *Judge) Key(principal string) string {
	if j == nil || j.network == "" {
		return ""
	}
	r := j.rules.Load()
	if r == nil || len(r.keys) == 0 {
		return ""
	}
	name, err := identity.OfToken(j.network, principal)
	if err != nil || name.Role != identity.User {
		return ""
	}
	return r.keys[name.Name]
}

// For is Ask for one principal at one agent: the principal is looked up once for each document.
// It is nil where nothing is ever refused, so that the caller need not find out where a file lies.
func (j *Judge) For(principal string, agent transfer.AgentName) func(right transfer.Authority, path string) error {
	if j == nil || j.network == "" && j.sandbox == nil {
		return nil
	}
	var last atomic.Pointer[known]
	return func(right transfer.Authority, path string) (err error) {
		who := last.Load()
		if who == nil || who.of != j.rules.Load() {
			if who, err = j.who(principal); err != nil {
				return err
			}
			last.Store(who)
		}
		_, err = j.decide(who, Question{Principal: principal, Right: right, Agent: agent, Path: path})
		return err
	}
}

// known is a principal with its kind, name and role by some rules; without identities the rules are nil.
type known struct {
	policy.Principal
	of *rules
}

// who returns the principal of a token by the present rules. It returns an error where there are none yet, or newer
// ones may list the user.
func (j *Judge) who(token string) (*known, error) {
	if j.network == "" {
		return &known{Principal: principalOf(token)}, nil
	}
	r := j.rules.Load()
	if r == nil {
		return nil, j.notYet()
	}
	p, err := r.principal(j.network, token)
	if err == nil && j.mayList(p) {
		return nil, notListed(p)
	}
	return &known{p, r}, err
}

// mayList reports whether newer rules may list a user that the present rules do not list.
func (j *Judge) mayList(p policy.Principal) bool {
	return p.Role == policy.RoleUnknown && j.newer != nil && j.newer(p.Name)
}

func notListed(p policy.Principal) error {
	return transfer.Errorf(transfer.KindBusy, "the rules that are known here do not list user %s yet", p.Name).
		WithHint("the network's authority is asked for newer ones")
}

// decide answers a question about a known principal.
func (j *Judge) decide(k *known, q Question) (rule string, err error) {
	who := k.Principal
	if k.of != nil {
		d := k.of.Decide(j.question(who, q))
		if !d.Allowed {
			return "", refusal(who, q, d, "")
		}
		rule = d.Rule
	}
	if j.sandbox != nil {
		d := j.sandbox.Decide(j.question(who, q))
		if !d.Allowed {
			return "", refusal(who, q, d, fmt.Sprintf(" in the sandbox of %s", q.Agent))
		}
		rule = strings.TrimPrefix(rule+"; sandbox: "+d.Rule, "; ")
	}
	return rule, nil
}

// principalOf returns the principal of a token in a network without identities: an agent's token begins with a capital or a
// digit.
func principalOf(token string) policy.Principal {
	p := policy.Principal{Kind: "user", Name: token}
	if token != "" && ('A' <= token[0] && token[0] <= 'Z' || '0' <= token[0] && token[0] <= '9') {
		p.Kind = "agent"
	}
	if name, err := url.PathUnescape(token); err == nil {
		p.Name = name
	}
	return p
}

func (j *Judge) question(who policy.Principal, q Question) policy.Question {
	return policy.Question{Who: who, Right: q.Right, Agent: q.Agent, Path: q.Path, Fold: bool(j.fold)}
}

// principal returns the principal of a token, with its role.
func (r *rules) principal(network, token string) (p policy.Principal, err error) {
	if token == string(identity.Coordination) || token == string(identity.Authority) || token == "qmgr" {
		return policy.Principal{Kind: token, Name: token}, nil // no rule applies to it
	}
	n, err := identity.OfToken(network, token)
	if err != nil {
		return p, transfer.Errorf(transfer.KindDenied, "%.100q is no principal of the network", token)
	}
	if n.Role == identity.Agent && transfer.AgentName(n.Name).Stream() {
		return p, transfer.Errorf(transfer.KindDenied, "%s is a pipe: only its user has authorities", n.Name)
	}
	p = policy.Principal{Kind: string(n.Role), Name: n.Name}
	if n.Role == identity.User {
		if p.Role = r.users[n.Name]; p.Role == "" {
			p.Role = policy.RoleUnknown
		}
	}
	return p, nil
}

// refusal returns the error of a refused question, with the rule that refuses it.
func refusal(who policy.Principal, q Question, d policy.Decision, where string) error {
	at := " in the network"
	if q.Agent != "" {
		at = " at agent " + string(q.Agent)
	}
	if q.Path != "" {
		at += " for " + transfer.Path(q.Path).String()
	}
	why := "no rule" + where + " gives it"
	if who.Role == policy.RoleUnknown {
		why = "the network's authority lists no such user"
	} else if d.Rule != "" {
		why = fmt.Sprintf("rule %q%s denies %s", d.Rule, where, d.Denied)
	}
	return transfer.Errorf(transfer.KindDenied, "%s %s does not have the authority %s%s: %s", who.Kind, who.Name, q.Right, at, why).
		WithHint("`ferry policy test` shows the rights that the rules give")
}
