package cluster

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

	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
)

const figuresWait = time.Second // for the other members' answers

// A figure is a member's answer about itself, and about the queues that it leads: the lag of each other replica.
type figure struct {
	streams.Member
	Lags map[string]map[string]lag `json:"lags,omitempty"`
}

// A lag is the distance of one member's replica behind the leader of a queue.
type lag struct {
	Lag     uint64 `json:"lag"`
	Current bool   `json:"current"`
}

// All returns the members of the cluster. own are the figures of this one.
func (m *Member) All(ctx context.Context) ([]streams.Member, error) {
	own := FiguresOf(m.Store, m.hostURL(), m)
	all := []figure{own}
	nc := m.own.NATS()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishMsg(&nats.Msg{Subject: figureSubject, Reply: inbox, Data: []byte(m.Cluster.Name)}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, figuresWait)
	defer cancel()
	here := m.Now.Load().Here
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
	names, said := slices.Clone(m.Note.Members), maps.Clone(m.others)
	m.mu.Unlock()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(f figure) bool { return f.Name == name }) {
			h := said[name]
			all = append(all, figure{Member: streams.Member{Name: name, Cluster: m.Cluster.Name, URL: h.URL, Version: h.Version}})
		}
	}
	return merged(all), nil
}

// merged combines the figures of members. The leaders' figures supply the lag of the other replicas.
func merged(all []figure) (out []streams.Member) {
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
	slices.SortFunc(out, func(a, b streams.Member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hostURL returns the URL of the member for other hosts. If it listens on every address of its host, that is the
// host's name.
func (m *Member) hostURL() string {
	at, err := url.Parse(m.URL())
	if err != nil || m.Host() != "" {
		return m.URL()
	}
	if name, err := os.Hostname(); err == nil {
		at.Host = net.JoinHostPort(name, at.Port())
	}
	return at.String()
}

// FiguresOf returns the figures of a queue manager; m is its part in a cluster, nil: it is in none.
func FiguresOf(s *storage.Store, url string, m *Member) figure {
	f := figure{Member: streams.Member{Name: s.Cfg.Name, URL: url, Version: server.VERSION, Up: true, Degraded: storage.FaultsOf(s)}, Lags: map[string]map[string]lag{}}
	if v, err := s.NS.Varz(nil); err == nil {
		f.Started, f.Connections = v.Start, v.Connections
	}
	if m != nil {
		f.Cluster = m.Cluster.Name
		f.Leader = m.Now.Load().leader == s.Cfg.Name
	}
	j, err := storage.StoreOf(s, s.NS)
	if err != nil {
		return f
	}
	f.StoreBytes = j.Store
	for _, a := range j.AccountDetails {
		if a.Id != s.AccountName {
			continue
		}
		for _, st := range a.Streams {
			r := streams.Replica{Queue: st.Name, Leader: true, Current: true, Bytes: st.State.Bytes, Msgs: st.State.Msgs}
			if m != nil && st.Cluster != nil {
				r.Leader = st.Cluster.Leader == s.Cfg.Name
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
	slices.SortFunc(f.Queues, func(a, b streams.Replica) int { return cmp.Compare(a.Queue, b.Queue) })
	return f
}
