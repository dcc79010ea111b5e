package qmgr

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/transfer"
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

const figuresWait = time.Second // for the other members' answers

// A figure is a member's answer about itself, and about the queues that it leads: the lag of each other replica.
type figure struct {
	Member
	Lags map[string]map[string]lag `json:"lags,omitempty"`
}

// A lag is the distance of one member's replica behind the leader of a queue.
type lag struct {
	Lag     uint64 `json:"lag"`
	Current bool   `json:"current"`
}

// all returns the members of the cluster. own are the figures of this one.
func (m *member) all(ctx context.Context) ([]Member, error) {
	own := figuresOf(m.s, m.hostURL(), m)
	all := []figure{own}
	nc := m.own.conn()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishMsg(&nats.Msg{Subject: figureSubject, Reply: inbox, Data: []byte(m.cluster.Name)}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, figuresWait)
	defer cancel()
	here := m.now.Load().here
	for missing := len(here); missing > 0; {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break // a member without an answer is shown as away
		}
		var f figure
		if json.Unmarshal(msg.Data, &f) == nil && f.Name != own.Name && f.Cluster == own.Cluster {
			all = append(all, f)
			missing--
		}
	}
	m.mu.Lock()
	names, said := slices.Clone(m.note.Members), maps.Clone(m.others)
	m.mu.Unlock()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(f figure) bool { return f.Name == name }) {
			h := said[name]
			all = append(all, figure{Member: Member{Name: name, Cluster: m.cluster.Name, URL: h.URL, Version: h.Version}})
		}
	}
	return merged(all), nil
}

// merged combines the figures of members. The leaders' figures supply the lag of the other replicas.
func merged(all []figure) (out []Member) {
	for _, f := range all {
		m := f.Member
		for n, q := range m.Queues {
			if q.Leader {
				continue
			}
			for _, of := range all {
				if l, ok := of.Lags[q.Queue][m.Name]; ok {
					m.Queues[n].Lag, m.Queues[n].Current = l.Lag, l.Current
					m.Lag += l.Lag
				}
			}
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hostURL returns the URL at which others reach the member. If it listens on every address of its host, that is the
// host's name.
func (m *member) hostURL() string {
	at, err := url.Parse(m.url())
	if err != nil || m.host() != "" {
		return m.url()
	}
	if name, err := os.Hostname(); err == nil {
		at.Host = net.JoinHostPort(name, at.Port())
	}
	return at.String()
}

// figuresOf returns the figures of a queue manager; m is its part in a cluster, nil: it is in none.
func figuresOf(s *disk, url string, m *member) figure {
	f := figure{Member: Member{Name: s.cfg.name, URL: url, Version: server.VERSION, Up: true, Degraded: standingOf(s)}, Lags: map[string]map[string]lag{}}
	if v, err := s.ns.Varz(nil); err == nil {
		f.Started, f.Connections = v.Start, v.Connections
	}
	if m != nil {
		f.Cluster = m.cluster.Name
		f.Leader = m.now.Load().leader == s.cfg.name
	}
	j, err := storeOf(s, s.ns)
	if err != nil {
		return f
	}
	f.StoreBytes = j.Store
	for _, a := range j.AccountDetails {
		if a.Id != s.accountName {
			continue
		}
		for _, st := range a.Streams {
			r := Replica{Queue: st.Name, Leader: true, Current: true, Bytes: st.State.Bytes, Msgs: st.State.Msgs}
			if m != nil && st.Cluster != nil {
				r.Leader = st.Cluster.Leader == s.cfg.name
				r.Current = r.Leader
				if r.Leader {
					f.Lags[st.Name] = map[string]lag{}
					for _, p := range st.Cluster.Replicas {
						f.Lags[st.Name][p.Name] = lag{p.Lag, p.Current && !p.Offline}
					}
				}
			}
			f.Queues = append(f.Queues, r)
		}
	}
	slices.SortFunc(f.Queues, func(a, b Replica) int { return cmp.Compare(a.Queue, b.Queue) })
	return f
}

// members returns the members that the streams report as their replicas. Servers that are not Ferry's report no more.
func (l library) members(ctx context.Context) ([]Member, error) {
	all := map[string]*Member{}
	of := func(name, cluster string) *Member {
		if all[name] == nil {
			all[name] = &Member{Name: name, Cluster: cluster}
		}
		return all[name]
	}
	for _, cfg := range streams {
		s, err := l.js().Stream(ctx, cfg.Name)
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

// Members returns the queue managers of the cluster that the Conn is connected to, or a single queue manager, as the
// connected one sees them.
func Members(ctx context.Context, c *Conn) ([]Member, error) {
	res, err := asker{c}.ask(ctx, errand{Op: opMembers})
	l, does := c.keeper.(library)
	if transfer.KindOf(err) == transfer.KindUnreachable && does { // a server that is not Ferry's
		all, err := l.members(ctx)
		for n := range all { // a server alone does not say its name in its streams
			all[n].Name = cmp.Or(all[n].Name, c.Facts().ServerName)
		}
		return all, c.explain(err, "the streams", 0)
	}
	if err != nil {
		return nil, err
	}
	return res.Members, nil
}
