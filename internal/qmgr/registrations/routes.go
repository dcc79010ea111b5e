package registrations

import (
	"maps"
	"slices"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// walk finds the peers that lead to each queue manager, and the cluster of each queue manager. p.Mu is held.
func (p *Registry) walk() {
	if p.routes != nil {
		return
	}
	p.routes, p.domains, p.rolesBehind = map[string]map[string]bool{}, map[string]string{}, nil
	for peer := range p.links {
		p.routes[peer] = map[string]bool{peer: true}
	}
	for token := range p.Managers {
		if p.routes[token] == nil && !p.here(token) {
			p.routes[token] = p.lead(token)
		}
	}
	// The first queue manager that names a cluster is a member of it. Another one is a member if it and the first name each other.
	order := slices.SortedFunc(maps.Keys(p.Managers), func(a, b string) int { return int(p.Managers[a].number) - int(p.Managers[b].number) })
	of := map[string]string{} // by cluster, the first
	for _, token := range order {
		m := p.Managers[token]
		d := transfer.Token(m.cluster)
		if m.cluster == "" || p.here(token) || p.Managers[d] != nil || p.links[d] != nil || d == p.Self || d == p.domain {
			continue
		}
		first, taken := of[d]
		if !taken {
			of[d] = token
		} else if !p.sameCluster(first, token) || !p.sameCluster(token, first) {
			continue
		}
		p.domains[token] = d
	}
}

// sameCluster reports whether a queue manager has signed that another one is a member of its cluster. p.Mu is held.
func (p *Registry) sameCluster(token, other string) bool {
	m := p.Managers[token]
	return m != nil && m.At[other].member && !m.At[other].Ended
}

// lead finds the peers that are nearest to a queue manager, by the registrations of queue managers on the way. p.Mu is held.
func (p *Registry) lead(token string) map[string]bool {
	peers, seen, level := map[string]bool{}, map[string]bool{token: true}, []string{token}
	for step := 0; step < maxHops && len(level) > 0 && len(peers) == 0; step++ {
		var next []string
		for _, t := range level {
			m := p.Managers[t]
			if m == nil {
				continue
			}
			for at, x := range m.At {
				switch {
				case x.Ended:
				case p.here(at): // no channel leads through this queue manager
				case p.links[at] != nil:
					peers[at] = true
				case !seen[at]:
					seen[at] = true
					next = append(next, at)
				}
			}
		}
		level = next
	}
	return peers
}

// Behind reports whether an identity is behind the channel to a peer.
func (p *Registry) Behind(peer, token string) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.walk()
	return p.isBehind(peer, p.find(token))
}

func (p *Registry) isBehind(peer string, w *identityRegistrations) bool {
	if w == nil {
		return false
	}
	for at, x := range w.At {
		if !x.Ended && p.routes[at][peer] {
			return true
		}
	}
	return false
}

// anyBehind reports whether an identity of one of some roles is behind the channel to a peer.
func (p *Registry) anyBehind(peer string, of ...roles.Role) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.walk()
	if p.rolesBehind == nil {
		p.rolesBehind = map[string]map[roles.Role]bool{}
		for _, w := range p.All {
			for at, x := range w.At {
				if x.Ended {
					continue
				}
				for peer := range p.routes[at] {
					p.joins(peer, w.role)
				}
			}
		}
	}
	return slices.ContainsFunc(of, func(r roles.Role) bool { return p.rolesBehind[peer][r] })
}

// joins notes that an identity of a role is behind the channel to a peer. p.Mu is held.
func (p *Registry) joins(peer string, role roles.Role) {
	if p.rolesBehind[peer] == nil {
		p.rolesBehind[peer] = map[roles.Role]bool{}
	}
	p.rolesBehind[peer][role] = true
}

// loops reports whether channels lead from a peer back to this queue manager, past the channel to the peer. Both queue managers at
// the ends of each channel on the way have signed that they are there.
func (p *Registry) loops(peer string) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	seen, next := map[string]bool{peer: true}, []string{peer}
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		if from != peer && p.links[from] != nil {
			return true
		}
		m := p.Managers[from]
		if m == nil {
			continue
		}
		for at, x := range m.At {
			other := p.Managers[at]
			if x.Ended || seen[at] || at == p.Self || other == nil || other.At[from].made == 0 || other.At[from].Ended {
				continue
			}
			if p.here(at) {
				return true
			}
			seen[at] = true
			next = append(next, at)
		}
	}
	return false
}

// leadsTo reports whether the channel to a peer leads to a queue manager, by its token.
func (p *Registry) leadsTo(peer, manager string) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.walk()
	return p.routes[manager][peer]
}

// stores reports whether the channel to a peer leads to the queue manager of a token, or to all members of the cluster of a token.
func (p *Registry) stores(peer, domain string) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.walk()
	if p.here(domain) || domain == p.domain {
		return false
	}
	if p.routes[domain] != nil {
		return p.routes[domain][peer]
	}
	some := false
	for manager, d := range p.domains {
		if d != domain {
			continue
		}
		if !p.routes[manager][peer] {
			return false
		}
		some = true
	}
	return some
}
