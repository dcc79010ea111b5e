package qmgr

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A listed is a place in the list of all places.
type listed struct {
	key  string // places of queue managers come first
	said json.RawMessage
}

// after returns places that count, in the order of their keys, behind a key, and the key of the last one; "" after all. The first
// part makes the list. Later places are published to the asker.
func (p *places) after(key string, most int) (all []json.RawMessage, last string) {
	p.mu.Lock()
	list := p.list
	p.mu.Unlock()
	if key == "" || list == nil {
		list = p.makeList()
	}
	at, known := slices.BinarySearchFunc(list, key, func(x listed, key string) int { return strings.Compare(x.key, key) })
	if known {
		at++
	}
	for n, x := range list[at:] {
		if most -= len(x.said); n == placesAtATime || most < 0 && n > 0 {
			return all, last
		}
		all, last = append(all, x.said), x.key
	}
	return all, ""
}

// makeList makes the list of all places that count.
func (p *places) makeList() (list []listed) {
	add := func(kind, token string, at map[string]placed) {
		for manager, pl := range at {
			if pl.said != nil && !pl.ended {
				list = append(list, listed{kind + " " + token + " " + manager, pl.said})
			}
		}
	}
	p.mu.Lock()
	now := time.Now()
	for token, m := range p.managers {
		add("0", token, m.at)
	}
	for token, w := range p.all {
		add("1", token, w.at)
	}
	p.mu.Unlock()
	slices.SortFunc(list, func(a, b listed) int { return strings.Compare(a.key, b.key) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.listMade) {
		p.list, p.listMade = list, now
	}
	return list
}
