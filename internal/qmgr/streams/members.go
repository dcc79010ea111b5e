package streams

import (
	"context"
	"maps"
	"slices"
	"time"
)

// A Member is a queue manager in the list of `ferry qm`. Of an absent one little more is known than its name.
type Member struct {
	Name        string    `json:"name"`
	Cluster     string    `json:"cluster,omitempty"`
	URL         string    `json:"url,omitempty"`
	Version     string    `json:"version,omitempty"` // of the NATS library
	Up          bool      `json:"up"`
	Linked      bool      `json:"linked,omitempty"` // channels lead there; only its announcement is known
	Started     time.Time `json:"started,omitzero"`
	Leader      bool      `json:"leader,omitempty"` // of the cluster: it decides where queues are
	Connections int       `json:"connections"`
	StoreBytes  uint64    `json:"store_bytes"`
	Lag         uint64    `json:"lag"` // messages that it is behind, over all queues
	Queues      []Replica `json:"queues,omitempty"`
	Degraded    string    `json:"degraded,omitempty"`
}

// A Replica is one queue manager's copy of a queue.
type Replica struct {
	Queue   string `json:"queue"`
	Leader  bool   `json:"leader"`
	Current bool   `json:"current"` // it has all that the leader has
	Lag     uint64 `json:"lag"`
	Bytes   uint64 `json:"bytes,omitempty"`
	Msgs    uint64 `json:"messages,omitempty"`
}

// Leads returns the names of the queues that a member leads: it accepts their messages.
func (m Member) Leads() (all []string) {
	for _, r := range m.Queues {
		if r.Leader {
			all = append(all, r.Queue)
		}
	}
	return all
}

// Members returns the members that the streams report as their replicas. Servers that are not Ferry's report no more.
func (l Library) Members(ctx context.Context) ([]Member, error) {
	all := map[string]*Member{}
	of := func(name, cluster string) *Member {
		if all[name] == nil {
			all[name] = &Member{Name: name, Cluster: cluster}
		}
		return all[name]
	}
	for _, cfg := range All {
		s, err := l.JS().Stream(ctx, cfg.Name)
		if err != nil {
			return nil, err
		}
		info := s.CachedInfo()
		if info.Cluster == nil {
			continue
		}
		if info.Cluster.Leader != "" {
			m := of(info.Cluster.Leader, info.Cluster.Name)
			m.Up = true
			m.StoreBytes += info.State.Bytes
			m.Queues = append(m.Queues, Replica{Queue: cfg.Name, Leader: true, Current: true, Bytes: info.State.Bytes, Msgs: info.State.Msgs})
		}
		for _, p := range info.Cluster.Replicas {
			m := of(p.Name, info.Cluster.Name)
			m.Up = m.Up || !p.Offline
			m.Lag += p.Lag
			m.Queues = append(m.Queues, Replica{Queue: cfg.Name, Current: p.Current && !p.Offline, Lag: p.Lag})
		}
	}
	var out []Member
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out, nil
}
