package policy

import (
	"slices"

	"ferry/internal/transfer"
)

// Beyond returns an authority that a rule gives to taker and that giver does not have in full, with the name of the
// rule. Both are empty if giver has all of them. Rules that also apply to but do not count. Beyond compares patterns as
// texts, and ** includes all paths. If the comparison does not show that giver has a path, giver lacks it.
func (r *Rules) Beyond(giver, taker, but Principal) (right transfer.Authority, rule string) {
	for n := range r.rules {
		c := &r.rules[n]
		if !r.have(c.who, taker) || r.have(c.who, but) {
			continue
		}
		for _, right := range c.May {
			if !r.hasAll(giver, taker, c, right) {
				return right, c.Name
			}
		}
	}
	return "", ""
}

// hasAll reports whether giver has an authority at all agents and for all paths of a rule. Only administrators can give
// the authority delegate.
func (r *Rules) hasAll(giver, taker Principal, c *rule, right transfer.Authority) bool {
	if right == transfer.AuthDelegate {
		return false
	}
	paths := []string{""} // of an authority without paths
	if all, forPaths := c.patterns(right); forPaths {
		paths = nil
		for _, p := range all {
			paths = append(paths, p.String())
		}
		if len(all) > 0 && slices.ContainsFunc(r.rules, func(d rule) bool { return len(d.deny) > 0 && r.have(d.who, giver) && !r.have(d.who, taker) }) {
			return false
		}
	}
	agents := c.agents
	if len(agents) == 0 {
		agents = []string{""} // all
	}
	for _, agent := range agents {
		for _, path := range paths {
			if !r.has(giver, c, right, agent, path) {
				return false
			}
		}
	}
	return true
}

// has reports whether a rule gives giver an authority at all agents of a pattern, and for all paths of one, less those
// that c excludes.
func (r *Rules) has(giver Principal, c *rule, right transfer.Authority, agent, path string) bool {
	for n := range r.rules {
		g := &r.rules[n]
		if !r.have(g.who, giver) {
			continue
		}
		all, _ := g.patterns(right)
		if slices.Contains(g.May, right) && (len(g.agents) == 0 || slices.Contains(g.agents, "*") || slices.Contains(g.agents, agent)) &&
			(path == "" || among(all, "**") || among(all, path)) &&
			!slices.ContainsFunc(g.except, func(p Pattern) bool { return !among(c.except, p.String()) }) {
			return true
		}
		if g.Last {
			return false
		}
	}
	return false
}

// among reports whether a list has a pattern with this text.
func among(all []Pattern, text string) bool {
	return slices.ContainsFunc(all, func(p Pattern) bool { return p.String() == text })
}

// patterns returns the patterns of an authority. paths reports whether the authority is one for paths.
func (c *rule) patterns(right transfer.Authority) (all []Pattern, paths bool) {
	switch right {
	case transfer.AuthSource, transfer.AuthDeleteSource:
		return c.read, true
	case transfer.AuthDest, transfer.AuthOverwrite:
		return c.write, true
	}
	return nil, false
}
