package registrations

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A listed is a registration in the list of all registrations.
type listed struct {
	key  string // registrations of queue managers come first
	said json.RawMessage
}

// After returns registrations that count, in the order of their keys, behind a key, and the key of the last one; "" after all. The first
// part makes the list. Later registrations are published to the asker.
func (p *Registry) After(key string, most int) (all []json.RawMessage, last string) {
	p.Mu.Lock()
	list := p.list
	p.Mu.Unlock()
	if key == "" || list == nil {
		list = p.makeList()
	}
	at, known := slices.BinarySearchFunc(list, key, func(x listed, key string) int { return strings.Compare(x.key, key) })
	if known {
		at++
	}
	for n, x := range list[at:] {
		if most -= len(x.said); n == maxInAnswer || most < 0 && n > 0 {
			return all, last
		}
		all, last = append(all, x.said), x.key
	}
	return all, ""
}

// makeList makes the list of all registrations that count.
func (p *Registry) makeList() (list []listed) {
	add := func(kind, token string, at map[string]Registration) {
		for manager, pl := range at {
			if pl.said != nil && !pl.Ended {
				list = append(list, listed{kind + " " + token + " " + manager, pl.said})
			}
		}
	}
	p.Mu.Lock()
	now := time.Now()
	for token, m := range p.Managers {
		add("0", token, m.At)
	}
	for token, w := range p.All {
		add("1", token, w.At)
	}
	p.Mu.Unlock()
	slices.SortFunc(list, func(a, b listed) int { return strings.Compare(a.key, b.key) })
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if !now.Before(p.listMade) {
		p.list, p.listMade = list, now
	}
	return list
}
