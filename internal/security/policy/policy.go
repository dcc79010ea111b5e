// Package policy decides the rights of members: by the rules of a network, which its authority signs and every agent
// keeps, and by the sandbox of one agent. Access that no rule allows is refused. A rule's deny overrides other rules,
// except rules with Last before it. The package sends no question and changes nothing.
//
// The rights are the authorities of package transfer. Those for paths (source, delete-source, destination, overwrite)
// apply to the paths that match a rule's read or write patterns.
package policy

import (
	_ "embed"
	"encoding/json"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// The roles of users.
const (
	RoleAdmin    = "admin"
	RoleOperator = "operator"
	RoleAuditor  = "auditor"
	RoleSender   = "sender"
	RoleMember   = "member"  // is in the network, with only the rights that rules give it by name
	RoleRevoked  = "revoked" // has no right by any rule
	RoleUnknown  = "unknown" // not listed in the rules; has no right by any rule
)

// Default is the policy that a network begins with, in JSON.
//
//go:embed default.json
var Default []byte

// Limits of a policy.
const (
	MaxSize     = 256 << 10 // bytes in JSON
	maxRules    = 1000
	maxNames    = 10_000 // in groups, and in all rules
	maxPatterns = 4000   // a deny pattern counts twice
	maxUsers    = 500    // expressions for names of users
	maxUsersLen = 256    // bytes of one expression
	maxUsersRun = 2000   // instructions of one expression; counted repetitions make many
)

// Version is the version of a policy.
const Version = 1

// ParseAuthority reads the name of an authority. The error, of KindUsage, lists the names.
func ParseAuthority(name string) (transfer.Authority, error) {
	all := transfer.Authorities()
	if a := transfer.Authority(name); slices.Contains(all, a) {
		return a, nil
	}
	words := make([]string, len(all))
	for n, a := range all {
		words[n] = string(a)
	}
	return "", transfer.Errorf(transfer.KindUsage, "there is no authority %q; they are %s", name, strings.Join(words, ", "))
}

// A Policy is the rules of a network.
type Policy struct {
	V      int                 `json:"v"`
	Groups map[string][]string `json:"groups,omitempty"` // users, by the group's name
	Rules  []Rule              `json:"rules"`
	// DirectPlain allows agents with a direct lane without TLS, for a guarded network.
	DirectPlain bool `json:"direct_plain,omitempty"`
}

// A Rule gives rights to some principals at some agents. An empty Agents stands for all agents.
type Rule struct {
	Name   string               `json:"name"`
	Who    []string             `json:"who"`              // user:NAME, users:EXPRESSION, group:NAME, role:NAME, agent:NAME with * and ?, or * for all
	Agents []string             `json:"agents,omitempty"` // names, with * and ?
	May    []transfer.Authority `json:"may,omitempty"`
	Read   []string             `json:"read,omitempty"` // patterns of paths; see Pattern
	Write  []string             `json:"write,omitempty"`
	Except []string             `json:"except,omitempty"` // excluded from Read and Write of this rule; other rules may give them
	For    []string             `json:"for,omitempty"`    // of the authority delegate: users, in the form of Who
	Deny   []string             `json:"deny,omitempty"`   // paths without any right for the principals of the rule, and those beneath, in letters of either case
	// Last ends the decision for the principals of the rule: for them later rules neither give nor deny anything.
	Last bool `json:"last,omitempty"`
}

// people is a parsed list of principals.
type people struct {
	list  []string
	users []*regexp.Regexp
}

// Rules are a compiled policy.
type Rules struct {
	groups map[string][]string
	rules  []rule
	plain  bool
}

// Plain reports whether the direct lane may run without TLS.
func (r *Rules) Plain() bool { return r.plain }

type rule struct {
	Rule
	agents                    []string
	who, principals           people // the two lists of principals
	read, write, except, deny []Pattern
}

// Parse reads a policy in JSON and checks all of it. Its errors are of KindUsage and name the rule.
func Parse(data []byte) (*Rules, error) {
	if len(data) > MaxSize {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has %d bytes; the limit is %d", len(data), MaxSize)
	}
	var p Policy
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy cannot be read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy cannot be read: there is more behind its end")
	}
	if name, err := repeated(json.NewDecoder(strings.NewReader(string(data)))); err != nil || name != "" {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has %q twice in one object, and the first would not count", name)
	}
	return p.Compile()
}

// repeated returns a name that occurs twice in an object of a JSON value. It ignores the case of letters, as the
// decoder does.
func repeated(d *json.Decoder) (string, error) {
	t, err := d.Token()
	if err != nil {
		return "", err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return "", nil
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return "", err
			}
			name := strings.ToLower(key.(string))
			if seen[name] {
				return name, nil
			}
			seen[name] = true
		}
		if name, err := repeated(d); name != "" || err != nil {
			return name, err
		}
	}
	_, err = d.Token()
	return "", err
}

// Compile checks a policy.
func (p *Policy) Compile() (*Rules, error) {
	if p.V != Version {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has version %d; this is version %d", p.V, Version)
	}
	if len(p.Rules) > maxRules {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy has %d rules; the limit is %d", len(p.Rules), maxRules)
	}
	names, patterns, users, seen := 0, 0, 0, map[string]bool{}
	for group, members := range p.Groups {
		names += len(members)
		for _, m := range members {
			if err := checkUser(m); err != nil {
				return nil, transfer.Errorf(transfer.KindUsage, "group %q: %w", group, err)
			}
		}
	}
	r := &Rules{groups: p.Groups, plain: p.DirectPlain}
	for n, raw := range p.Rules {
		names += len(raw.Who) + len(raw.For) + len(raw.Agents)
		switch {
		case raw.Name == "":
			return nil, transfer.Errorf(transfer.KindUsage, "rule %d has no name; decisions refer to rules by their names", n+1)
		case seen[raw.Name]:
			return nil, transfer.Errorf(transfer.KindUsage, "two rules are called %q", raw.Name)
		}
		seen[raw.Name] = true
		c, err := p.compile(raw)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "rule %q: %w", raw.Name, err)
		}
		r.rules = append(r.rules, c)
		if patterns += len(c.read) + len(c.write) + len(c.except) + len(c.deny); patterns > maxPatterns {
			return nil, transfer.Errorf(transfer.KindUsage, "the policy has more than %d patterns, the limit", maxPatterns)
		}
		if users += len(c.who.users) + len(c.principals.users); users > maxUsers {
			return nil, transfer.Errorf(transfer.KindUsage, "the policy has more than %d expressions for users", maxUsers)
		}
	}
	if names > maxNames {
		return nil, transfer.Errorf(transfer.KindUsage, "the policy names %d users and agents; the limit is %d", names, maxNames)
	}
	return r, nil
}

var agentPattern = regexp.MustCompile(`^[A-Za-z0-9_.%*?-]{1,28}$`)

// checkUser refuses an invalid name of a user: names are in small letters, without wildcards.
func checkUser(name string) error {
	if name == "" || len(name) > 64 || strings.ToLower(name) != name || strings.ContainsAny(name, "*?:") ||
		strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return transfer.Errorf(transfer.KindUsage, "%q is no name of a user: that is in small letters, and has no wildcards", name)
	}
	return nil
}

// parseUsers parses an expression for names of users, in Go's syntax. It matches a name as a whole.
func parseUsers(text string) (*regexp.Regexp, error) {
	if len(text) > maxUsersLen {
		return nil, transfer.Errorf(transfer.KindUsage, "the expression %.40q… for users has %d bytes; the limit is %d", text, len(text), maxUsersLen)
	}
	// The expression alone first: in a group "a)(b" would be valid, too.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "users:%s is no regular expression: %w", text, err)
	}
	if run, err := syntax.Compile(tree.Simplify()); err != nil || len(run.Inst) > maxUsersRun {
		return nil, transfer.Errorf(transfer.KindUsage, "the expression %q for users repeats too much", text)
	}
	return regexp.Compile(`^(?:` + text + `)$`)
}

// people parses a list of principals.
func (p *Policy) people(list []string) (all people, err error) {
	all.list = list
	for _, w := range list {
		kind, name, ok := strings.Cut(w, ":")
		switch {
		case w == "*":
		case kind == "role" && !slices.Contains([]string{RoleAdmin, RoleOperator, RoleAuditor, RoleSender, RoleMember}, name):
			return all, transfer.Errorf(transfer.KindUsage, "there is no role %q", name)
		case !ok || name == "" || !slices.Contains([]string{"user", "users", "group", "agent", "role"}, kind):
			return all, transfer.Errorf(transfer.KindUsage, "%q is none of user:NAME, users:EXPRESSION, group:NAME, agent:NAME, role:NAME and *", w)
		case kind == "group" && p.Groups[name] == nil:
			return all, transfer.Errorf(transfer.KindUsage, "there is no group %q", name)
		case kind == "user":
			if err := checkUser(name); err != nil {
				return all, err
			}
		case kind == "users":
			e, err := parseUsers(name)
			if err != nil {
				return all, err
			}
			all.users = append(all.users, e)
		}
	}
	return all, nil
}

func (p *Policy) compile(raw Rule) (c rule, err error) {
	c.Rule = raw
	if len(raw.Who) == 0 {
		return c, transfer.Errorf(transfer.KindUsage, "it names no principal: user:NAME, users:EXPRESSION, group:NAME, agent:NAME, role:NAME or *")
	}
	if (len(raw.For) > 0) != slices.Contains(raw.May, transfer.AuthDelegate) {
		return c, transfer.Errorf(transfer.KindUsage, "it has the authority %s or the list \"for\", and takes both", transfer.AuthDelegate)
	}
	if c.who, err = p.people(raw.Who); err != nil {
		return c, err
	}
	if c.principals, err = p.people(raw.For); err != nil {
		return c, err
	}
	for _, m := range raw.May {
		if _, err := ParseAuthority(string(m)); err != nil {
			return c, err
		}
	}
	for _, a := range raw.Agents {
		if !agentPattern.MatchString(a) {
			return c, transfer.Errorf(transfer.KindUsage, "%q is no name of an agent, with * and ?", a)
		}
		c.agents = append(c.agents, strings.ToUpper(a))
	}
	for _, l := range []struct {
		to   *[]Pattern
		from []string
	}{{&c.read, raw.Read}, {&c.write, raw.Write}, {&c.except, raw.Except}, {&c.deny, raw.Deny}} {
		for _, text := range l.from {
			pattern, err := ParsePattern(text)
			if err != nil {
				return c, err
			}
			*l.to = append(*l.to, pattern)
		}
	}
	for _, p := range c.deny { // and everything beneath
		if last := p.levels[len(p.levels)-1]; last != "**" {
			below, err := ParsePattern(p.text + "/**")
			if err != nil {
				return c, err
			}
			below.text = p.text
			c.deny = append(c.deny, below)
		}
	}
	return c, nil
}

// A Principal is the member that asks, as its connection vouches for it.
type Principal struct {
	Kind string // user or agent
	Name string
	Role string // of a user: one of the roles
}

// A Question asks whether a principal has a right at an agent.
type Question struct {
	Who   Principal
	Right transfer.Authority
	For   Principal          // of the authority delegate: the user that a delegate speaks for
	Agent transfer.AgentName // the agent of the access
	// Path is for rights to paths: absolute, clean, / between levels. With a / at its end, the question is whether any
	// path beneath it is allowed. If it is empty, the question is whether any path is.
	Path string
	Fold bool // the agent's file system ignores the case of letters
}

// A Decision is the answer, and the name of the deciding rule, or "" if no rule applies.
type Decision struct {
	Allowed bool
	Rule    string
	Denied  string // the pattern that denies
}

// Decide answers a question.
func (r *Rules) Decide(q Question) (d Decision) {
	if q.Who.Role == RoleRevoked || q.Who.Role == RoleUnknown {
		return Decision{Rule: "(" + q.Who.Role + ")", Denied: "everything"}
	}
	for n := range r.rules {
		c := &r.rules[n]
		if !r.concerns(c, q) {
			continue
		}
		if q.Path != "" {
			for _, p := range c.deny { // including the pattern for everything beneath each
				if p.Match(strings.TrimSuffix(q.Path, "/"), true) {
					return Decision{Rule: c.Name, Denied: p.String()}
				}
			}
		}
		if !d.Allowed && slices.Contains(c.May, q.Right) && r.reaches(c, q) {
			d = Decision{Allowed: true, Rule: c.Name}
		}
		if c.Last {
			break
		}
	}
	return d
}

// reaches reports whether a rule's patterns match the path, if the right is one for paths. For the authority delegate
// it reports whether the rule names the user.
func (r *Rules) reaches(c *rule, q Question) bool {
	if q.Right == transfer.AuthDelegate {
		return r.have(c.principals, q.For)
	}
	all, paths := c.patterns(q.Right)
	if !paths {
		return true
	}
	if q.Path == "" {
		return len(all) > 0
	}
	if dir, beneath := strings.CutSuffix(q.Path, "/"); beneath {
		return slices.ContainsFunc(all, func(p Pattern) bool { return p.Reaches(dir, q.Fold) }) &&
			!slices.ContainsFunc(c.except, func(p Pattern) bool { return p.covers(dir, q.Fold) })
	}
	matches := func(p Pattern) bool { return p.Match(q.Path, q.Fold) }
	return slices.ContainsFunc(all, matches) && !slices.ContainsFunc(c.except, matches)
}

// Ever reports whether a rule gives a principal an authority at any agent, or in the network.
func (r *Rules) Ever(who Principal, right transfer.Authority) bool {
	return slices.ContainsFunc(r.rules, func(c rule) bool { return slices.Contains(c.May, right) && r.have(c.who, who) })
}

// concerns reports whether a rule applies to the asking principal at the agent.
func (r *Rules) concerns(c *rule, q Question) bool {
	if len(c.agents) > 0 && !slices.ContainsFunc(c.agents, func(a string) bool { return matchLevel(a, string(q.Agent), false) }) {
		return false
	}
	return r.have(c.who, q.Who)
}

// have reports whether a list names a principal.
func (r *Rules) have(all people, who Principal) bool {
	if who.Kind == "user" && slices.ContainsFunc(all.users, func(e *regexp.Regexp) bool { return e.MatchString(who.Name) }) {
		return true
	}
	return slices.ContainsFunc(all.list, func(w string) bool {
		kind, name, _ := strings.Cut(w, ":")
		switch {
		case w == "*":
			return true
		case kind == "group":
			return who.Kind == "user" && slices.Contains(r.groups[name], who.Name)
		case kind == "role":
			return who.Kind == "user" && who.Role == name
		}
		return kind == who.Kind && (name == who.Name || kind == "agent" && matchLevel(strings.ToUpper(name), who.Name, false))
	})
}
