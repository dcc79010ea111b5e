// Package policy decides who may do what: the rules of a network, which its authority signs and
// every agent keeps. What no rule allows is refused, and a rule's deny wins over what others
// allow. It asks nobody and touches nothing.
//
// The rights are those of IBM MQ Managed File Transfer, by the queues on which it keeps them,
// and Ferry's own:
//
//	source, destination  send files of an agent, have files land there   AUTHTRN1
//	monitor, schedule    one's own monitors and schedules                 AUTHMON1, AUTHSCH1
//	operate              others' transfers, monitors, schedules           AUTHOPS1
//	admin                an agent itself                                  AUTHADM1
//	peer                 an agent with which another one transfers        AUTHAGT1
//	delete-source, overwrite, template, program, audit, enrol
package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// A Right is something that somebody may do.
type Right string

// The rights.
const (
	Source       Right = "source"      // have files sent that match Read
	Destination  Right = "destination" // have files land that match Write
	DeleteSource Right = "delete-source"
	Overwrite    Right = "overwrite"
	Monitor      Right = "monitor"
	Schedule     Right = "schedule"
	Operate      Right = "operate"
	Admin        Right = "admin"
	Peer         Right = "peer"
	Template     Right = "template"
	Program      Right = "program"
	Audit        Right = "audit"
	Enrol        Right = "enrol"
)

// Rights are all of them.
var Rights = []Right{Source, Destination, DeleteSource, Overwrite, Monitor, Schedule, Operate, Admin, Peer, Template, Program, Audit, Enrol}

// Limits of a policy.
const (
	MaxSize  = 512 << 10 // bytes in JSON
	maxRules = 1000
	maxNames = 10_000 // in groups, and in all rules
)

const version = 1

// A Policy is the rules of a network.
type Policy struct {
	V      int                 `json:"v"`
	Groups map[string][]string `json:"groups,omitempty"` // users, by the group's name
	Rules  []Rule              `json:"rules"`
}

// A Rule gives rights to some, at some agents. What is empty of Agents is all of them.
type Rule struct {
	Name   string   `json:"name"`
	Who    []string `json:"who"`              // user:NAME, group:NAME, agent:NAME, role:NAME, or * for everybody
	Agents []string `json:"agents,omitempty"` // names, with * and ?
	May    []Right  `json:"may,omitempty"`
	Read   []string `json:"read,omitempty"` // patterns of paths; see Pattern
	Write  []string `json:"write,omitempty"`
	Deny   []string `json:"deny,omitempty"` // nobody of Who touches these, whatever other rules say
}

// Rules are a policy that decides.
type Rules struct {
	groups map[string][]string
	rules  []rule
}

type rule struct {
	Rule
	agents            []string
	read, write, deny []Pattern
}

// Parse reads a policy in JSON and checks all of it. Its errors are of KindUsage and name the
// rule.
func Parse(data []byte) (*Rules, error) {
	if len(data) > MaxSize {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has %d bytes; the limit is %d", len(data), MaxSize)
	}
	var p Policy
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || d.More() {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy cannot be read: %w", err)
	}
	return p.Compile()
}

// Compile checks a policy.
func (p *Policy) Compile() (*Rules, error) {
	if p.V != version {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has version %d; this is version %d", p.V, version)
	}
	if len(p.Rules) > maxRules {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has %d rules; the limit is %d", len(p.Rules), maxRules)
	}
	names, seen := 0, map[string]bool{}
	for _, members := range p.Groups {
		names += len(members)
	}
	r := &Rules{groups: p.Groups}
	for n, raw := range p.Rules {
		names += len(raw.Who) + len(raw.Agents)
		switch {
		case raw.Name == "":
			return nil, transfer.Errorf(transfer.KindUsage, "rule %d has no name, by which it could be told what decided", n+1)
		case seen[raw.Name]:
			return nil, transfer.Errorf(transfer.KindUsage, "two rules are called %q", raw.Name)
		}
		seen[raw.Name] = true
		c, err := p.compile(raw)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "rule %q: %w", raw.Name, err)
		}
		r.rules = append(r.rules, c)
	}
	if names > maxNames {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy names %d users and agents; the limit is %d", names, maxNames)
	}
	return r, nil
}

func (p *Policy) compile(raw Rule) (c rule, err error) {
	c.Rule = raw
	if len(raw.Who) == 0 {
		return c, transfer.Errorf(transfer.KindUsage, "it is for nobody; who is user:NAME, group:NAME, agent:NAME, role:NAME or *")
	}
	for _, w := range raw.Who {
		kind, name, ok := strings.Cut(w, ":")
		switch {
		case w == "*":
		case !ok || name == "" || !slices.Contains([]string{"user", "group", "agent", "role"}, kind):
			return c, transfer.Errorf(transfer.KindUsage, "who %q is none of user:NAME, group:NAME, agent:NAME, role:NAME and *", w)
		case kind == "group" && p.Groups[name] == nil:
			return c, transfer.Errorf(transfer.KindUsage, "there is no group %q", name)
		}
	}
	for _, m := range raw.May {
		if !slices.Contains(Rights, m) {
			return c, transfer.Errorf(transfer.KindUsage, "there is no right %q", m)
		}
	}
	for _, a := range raw.Agents {
		c.agents = append(c.agents, strings.ToUpper(a))
	}
	for _, l := range []struct {
		to   *[]Pattern
		from []string
	}{{&c.read, raw.Read}, {&c.write, raw.Write}, {&c.deny, raw.Deny}} {
		for _, text := range l.from {
			pattern, err := ParsePattern(text)
			if err != nil {
				return c, err
			}
			*l.to = append(*l.to, pattern)
		}
	}
	return c, nil
}

// A Principal is who wants something, as his connection vouches for it.
type Principal struct {
	Kind string // user or agent
	Name string
	Role string // of a user: operator, auditor or user
}

// A Question is whether somebody may do something at an agent.
type Question struct {
	Who   Principal
	Right Right
	Agent transfer.AgentName // where
	Path  string             // of Source, DeleteSource, Destination and Overwrite: absolute, clean, / between levels
	Fold  bool               // letters of paths are the same in both cases there
}

// A Decision is the answer, and the rule that it is of; "" where none speaks of it.
type Decision struct {
	Allowed bool
	Rule    string
	Denied  string // the pattern that denies
}

// Decide answers a question.
func (r *Rules) Decide(q Question) (d Decision) {
	for n := range r.rules {
		c := &r.rules[n]
		if !r.concerns(c, q) {
			continue
		}
		if q.Path != "" {
			for _, p := range c.deny {
				if p.Match(q.Path, q.Fold) {
					return Decision{Rule: c.Name, Denied: p.String()}
				}
			}
		}
		if !d.Allowed && slices.Contains(c.May, q.Right) && c.reaches(q) {
			d = Decision{Allowed: true, Rule: c.Name}
		}
	}
	return d
}

// reaches reports whether a rule's patterns have the path, where the right is one to paths.
func (c *rule) reaches(q Question) bool {
	var all []Pattern
	switch q.Right {
	case Source, DeleteSource:
		all = c.read
	case Destination, Overwrite:
		all = c.write
	default:
		return true
	}
	return slices.ContainsFunc(all, func(p Pattern) bool { return p.Match(q.Path, q.Fold) })
}

// concerns reports whether a rule is for whoever asks, at that agent.
func (r *Rules) concerns(c *rule, q Question) bool {
	if len(c.agents) > 0 && !slices.ContainsFunc(c.agents, func(a string) bool { return matchLevel(a, string(q.Agent), false) }) {
		return false
	}
	return slices.ContainsFunc(c.Who, func(w string) bool {
		kind, name, _ := strings.Cut(w, ":")
		switch {
		case w == "*":
			return true
		case kind == "group":
			return q.Who.Kind == "user" && slices.Contains(r.groups[name], q.Who.Name)
		case kind == "role":
			return q.Who.Kind == "user" && q.Who.Role == name
		}
		return kind == q.Who.Kind && name == q.Who.Name
	})
}
