package qmgr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

const (
	memberFile = "cluster.json" // beside the library's own store
	aloneDir   = "alone"        // the store of a queue manager from before it became a member

	memberLook = 500 * time.Millisecond // between two looks at the others
	raiseEvery = 2 * time.Second        // between two attempts to raise the number of replicas
)

// A memberNote is a member's memory of its cluster, in a file. It names the cluster and the member of the directory,
// and the other members. So the member can name absent ones after a restart.
type memberNote struct {
	V       int      `json:"v"`
	Cluster string   `json:"cluster"`
	Name    string   `json:"name"`
	Account string   `json:"account"`           // that has the queues
	Members []string `json:"members"`           // all that were ever seen, this one among them
	Removed []string `json:"removed,omitempty"` // former members, which may never join again
}

// A member is a queue manager's part in a cluster.
type member struct {
	s    *Server
	note memberNote
	now  atomic.Pointer[present]

	mu     sync.Mutex
	others map[string]hello // the last hellos of the others, by their names
	told   time.Time        // time of the last claims for the others

	removed []string // members reported as removed, until the note has them
}

// mates returns the names of the other members.
func (m *member) mates() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.note.Members), func(name string) bool { return name == m.s.cfg.Name })
}

// routes returns the connected members by their names, each with the number of its newest connection.
func (m *member) routes() map[string]uint64 {
	all := map[string]uint64{}
	if r, err := m.s.ns.Routez(nil); err == nil {
		for _, route := range r.Routes {
			if route.RemoteName != "" {
				all[route.RemoteName] = max(all[route.RemoteName], route.Rid)
			}
		}
	}
	return all
}

// A present is the state of a cluster, as one of its members sees it.
type present struct {
	leader     string   // of the cluster; "" for none
	here       []string // the others that are connected, by their names
	away       []string // and those that are not, and were once
	unseen     int      // how many are expected beside them
	quorum     bool
	alone      time.Time // since when less than most of the members are connected; zero: they are
	leaderless []string  // queues without a leader at present
	remarks    []string
}

func notePath(s *Server) string { return filepath.Join(s.cfg.Dir, memberFile) }

// readNote reads the memberNote of a queue manager's directory. It is zero for a queue manager without a cluster.
func readNote(s *Server) (n memberNote, err error) {
	data, err := os.ReadFile(notePath(s))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err == nil && n.V != 1 {
		err = fmt.Errorf("it is of version %d", n.V)
	}
	if err != nil {
		return n, transfer.Errorf(transfer.KindNoManager, "%s, the record of the cluster of queue manager %s, cannot be read: %w", notePath(s), s.cfg.Name, err)
	}
	return n, nil
}

// writeNote replaces the file, synced.
func writeNote(s *Server, n memberNote) error {
	n.V = 1
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return keyfile.Replace(notePath(s), data)
}

// alone refuses to start a member of a cluster as a queue manager of its own. Its store has a part of the cluster's
// common state. Alone it would change that part, and could not come back.
func alone(s *Server) error {
	n, err := readNote(s)
	if err != nil || n.Cluster == "" {
		return err
	}
	return transfer.Errorf(transfer.KindUsage, "queue manager %s in %s is a member of cluster %s, and cannot be started alone", n.Name, s.cfg.Dir, n.Cluster).
		WithHint("give --cluster " + n.Cluster + " and a --route to each other member; to begin anew move " + s.cfg.Dir + " aside")
}

// join makes the directory that of a member. It puts aside the messages that the queue manager has stored before. They
// are handed over when there is a cluster to take them (handOver): the library removes from a member's store all
// messages that the cluster has not agreed on.
//
// A member's store is not inspected before it starts, as that of a queue manager alone is (inspect). Only the library
// can open it, and would change it when it opens it alone. The library gets missing or damaged messages from the other
// members.
func join(s *Server) error {
	c, n := s.cfg.Cluster, memberNote{}
	n, err := readNote(s)
	if err != nil {
		return err
	}
	refuse := func(what, was, is string) error {
		return transfer.Errorf(transfer.KindUsage, "%s has the part of %s %s in a cluster, and not that of %s", s.cfg.Dir, what, was, is).
			WithHint("start it with its former part, or move that directory aside: a member without a store gets it from the others")
	}
	switch {
	case n.Cluster == "":
		n = memberNote{Cluster: c.Name, Name: s.cfg.Name, Account: s.accountName, Members: []string{s.cfg.Name}}
		if err := putAlone(s); err != nil {
			return err
		}
		err = writeNote(s, n)
	case n.Cluster != c.Name:
		return refuse("cluster", n.Cluster, c.Name)
	case n.Name != s.cfg.Name:
		return refuse("queue manager", n.Name, s.cfg.Name)
	case n.Account != s.accountName:
		return refuse("the network with the account", n.Account, s.accountName)
	}
	s.member = &member{s: s, note: n, others: map[string]hello{}}
	s.member.now.Store(&present{alone: time.Now(), unseen: len(c.Routes)})
	return err
}

// putAlone puts aside the store from before there was a cluster. It is the last step but one of becoming a member, and
// may be interrupted.
func putAlone(s *Server) error {
	if err := s.takeOver(); err != nil {
		return err
	}
	store, aside := filepath.Join(s.cfg.Dir, server.JetStreamStoreDir), filepath.Join(s.cfg.Dir, aloneDir)
	if _, err := os.Lstat(store); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	if err := os.Rename(store, filepath.Join(aside, server.JetStreamStoreDir)); err != nil {
		return err
	}
	err := os.Rename(s.marksPath(), filepath.Join(aside, marksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// handOver stores the commands from before there was a cluster in the cluster's queue. It may be interrupted, and then
// stores some of them again: agents know a command by its ID. Senders send other stored messages again, and owners
// claim their names again.
func (m *member) handOver(ctx context.Context, opts *server.Options) error {
	s := m.s
	dir := filepath.Join(s.cfg.Dir, aloneDir)
	if _, err := os.Lstat(filepath.Join(dir, server.JetStreamStoreDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	x, err := s.examine(opts, dir)
	if err != nil {
		return err
	}
	defer x.close()
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	n := 0
	for _, stream := range commandStreams {
		from, err := x.js.Stream(ctx, string(stream))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		err = each(ctx, from, func(msg *jetstream.RawStreamMsg) error {
			n++
			out := &nats.Msg{Subject: msg.Subject, Header: nats.Header{}, Data: msg.Data}
			maps.Copy(out.Header, msg.Header)
			if out.Header.Get(nats.MsgIdHdr) == "" { // its ID is known if it is tried again within two minutes
				out.Header.Set(nats.MsgIdHdr, fmt.Sprintf("alone-%s-%d", s.cfg.Name, msg.Sequence))
			}
			_, err := s.about.js().PublishMsg(ctx, out)
			return err
		})
		if err != nil {
			return err
		}
	}
	x.close()
	done := dir + ".handed-over"
	if err := os.RemoveAll(done); err != nil {
		return err
	}
	s.cfg.Log.Info("the messages stored before the cluster was made have been handed over to it", "commands", n)
	return os.Rename(dir, done)
}

// watch looks at the other members and publishes this one's hello, until the server ends.
func (m *member) watch() {
	t := time.NewTicker(memberLook)
	defer t.Stop()
	m.look()
	var said time.Time
	for {
		select {
		case <-t.C:
		case <-m.s.ending:
			return
		}
		before := m.now.Load()
		now := m.look()
		if routes := !slices.Equal(before.here, now.here); routes || time.Since(said) > helloEvery {
			said = time.Now()
			m.hello()
		}
	}
}

// tend makes the missing queues and keeps their number of replicas at the number of members, until the server ends. It
// also hands over the messages that were stored before there was a cluster.
func (m *member) tend(opts *server.Options) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() { <-m.s.ending; end() }()
	t := time.NewTicker(raiseEvery)
	defer t.Stop()
	o := orphans{limit: cmp.Or(m.s.cfg.Cluster.leaderless, leaderlessFor), since: map[string]time.Time{}}
	for handed := false; ; {
		m.removeOrphans(ctx, &o)
		if m.now.Load().quorum {
			try, cancel := context.WithTimeout(ctx, apiTimeout)
			_, err := m.s.about.registrar.keeper.ensure(try)
			if err == nil {
				library{js: m.s.about.js}.raiseStore(try)
			}
			cancel()
			if err != nil {
				m.s.cfg.Log.Debug("the queues of the cluster cannot be looked at", slog.Any("error", err))
			} else if !handed {
				if err = m.handOver(ctx, opts); err != nil && ctx.Err() == nil {
					m.s.cfg.Log.Warn("the messages stored before the cluster was made are not handed over yet", slog.Any("error", err))
				}
				handed = err == nil
			}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// look determines the present members, and logs a change.
func (m *member) look() *present {
	before := m.now.Load()
	now := m.see()
	if !before.alone.IsZero() && !now.alone.IsZero() {
		now.alone = before.alone
	}
	m.now.Store(now)
	if b, n := before.text(m), now.text(m); b != n {
		if n == "" {
			m.s.cfg.Log.Info("the cluster is whole", "cluster", m.s.cfg.Cluster.Name, "members", strings.Join(m.note.Members, " "))
		} else {
			m.s.cfg.Log.Warn("the cluster is degraded", slog.String("error", n))
		}
	}
	return now
}

// see asks the library.
func (m *member) see() *present {
	s := m.s
	p := &present{}
	p.here = slices.Sorted(maps.Keys(m.routes()))
	m.meet(p.here)
	for _, name := range m.note.Members {
		if name != s.cfg.Name && !slices.Contains(p.here, name) {
			p.away = append(p.away, name)
		}
	}
	p.unseen = max(0, len(s.cfg.Cluster.Routes)+1-len(m.note.Members))

	size := len(m.note.Members) + p.unseen
	if j, err := storeOf(s, s.ns); err == nil && j.Meta != nil {
		p.leader = j.Meta.Leader
		size = max(size, j.Meta.Size)
		for _, a := range j.AccountDetails {
			for _, st := range a.Streams {
				if a.Id == s.accountName && st.Cluster != nil && st.Cluster.Leader == "" {
					p.leaderless = append(p.leaderless, st.Name)
				}
			}
		}
	}
	slices.Sort(p.leaderless)
	if len(p.here)+1 <= size/2 {
		p.alone = time.Now()
	}
	p.quorum = p.leader != "" && p.alone.IsZero()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range p.here {
		if h, ok := m.others[name]; ok && h.MaxPayload != serverMaxPayload {
			p.remarks = append(p.remarks, fmt.Sprintf("queue manager %s of cluster %s takes messages of %s, and %s of %s: make them the same",
				name, m.s.cfg.Cluster.Name, transfer.FormatBytes(h.MaxPayload), s.cfg.Name, transfer.FormatBytes(serverMaxPayload)))
		}
	}
	return p
}

// admits refuses routes of queue managers that are no members. Each member that joins raises the number that makes a
// majority. So a few that join and leave again could stop the cluster. A new name is admitted only while fewer members
// are known than this one has routes for.
func (m *member) admits(name string) error {
	m.mu.Lock()
	known, removed := m.note.Members, m.note.Removed
	m.mu.Unlock()
	if slices.Contains(removed, name) {
		return fmt.Errorf("queue manager %s was removed from cluster %s; it can be a member under another name, with an empty directory", name, m.s.cfg.Cluster.Name)
	}
	if slices.Contains(known, name) || len(known) < len(m.s.cfg.Cluster.Routes)+1 {
		return nil
	}
	return fmt.Errorf("queue manager %s is no member of cluster %s, which are %s", name, m.s.cfg.Cluster.Name, strings.Join(known, " "))
}

// meet remembers members that are seen for the first time.
func (m *member) meet(names []string) {
	n, changed := m.forget(m.note)
	for _, name := range names {
		if !slices.Contains(n.Members, name) && !slices.Contains(n.Removed, name) {
			n.Members = append(slices.Clone(n.Members), name)
			changed = true
		}
	}
	if !changed {
		return
	}
	slices.Sort(n.Members)
	m.mu.Lock()
	m.note = n
	m.mu.Unlock()
	if err := writeNote(m.s, n); err != nil {
		m.s.cfg.Log.Warn("the list of members of the cluster cannot be written", slog.Any("error", err))
	}
}

// text describes the faults of a cluster; "" if there are none.
func (p *present) text(m *member) string {
	var all []string
	switch {
	case !p.alone.IsZero():
		all = append(all, "waiting for the other queue managers of cluster "+m.s.cfg.Cluster.Name)
	case !p.quorum:
		all = append(all, "waiting for the queue managers of cluster "+m.s.cfg.Cluster.Name+" to agree on one that leads")
	}
	for _, name := range p.away {
		all = append(all, "queue manager "+name+" of cluster "+m.s.cfg.Cluster.Name+" is away")
	}
	if p.unseen > 0 {
		all = append(all, fmt.Sprintf("%d of the queue managers of cluster %s %s not been there yet", p.unseen, m.s.cfg.Cluster.Name, map[bool]string{true: "has", false: "have"}[p.unseen == 1]))
	}
	if p.quorum && len(p.leaderless) > 0 {
		all = append(all, "no leader for "+strings.Join(p.leaderless, ", "))
	}
	return strings.Join(append(all, p.remarks...), "; ")
}

// Passing describes the present faults of the queue manager's cluster. It returns "" if there are none, and for a queue
// manager without a cluster.
func (s *Server) Passing() string {
	if s.member == nil {
		return ""
	}
	return s.member.now.Load().text(s.member)
}

// noQuorum returns an error if a member of a cluster can neither accept nor deliver stored messages.
func noQuorum(s *Server) error {
	if s.member == nil || s.member.now.Load().quorum {
		return nil
	}
	return transfer.Errorf(transfer.KindNoManager, "queue manager %s: %s", s.cfg.Name, s.Passing())
}

// leaderless returns the reason why messages of a stream, or of any, can neither be accepted nor delivered at present;
// nil if they can.
func leaderless(s *Server, of Stream) error {
	if s.member == nil {
		return nil
	}
	if err := noQuorum(s); err != nil {
		return err
	}
	for _, name := range s.member.now.Load().leaderless {
		if of == "" || string(of) == name {
			return transfer.Errorf(transfer.KindNoManager, "queue manager %s: no leader for %s at present", s.cfg.Name, name)
		}
	}
	return nil
}

// WaitQuorum returns when most members of the cluster are there and have agreed on its leader and on each queue's. It
// returns at once without a cluster. Meanwhile it passes the missing conditions to say, whenever they change.
func (s *Server) WaitQuorum(ctx context.Context, say func(string)) error {
	t := time.NewTicker(memberLook)
	defer t.Stop()
	for said := ""; s.member != nil && !s.member.now.Load().leads(); {
		if now := s.Passing(); now != said {
			said = now
			say(now)
		}
		select {
		case <-t.C:
		case <-s.ending:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Patience returns the Timeout of connections to the queue manager from its own process. It is unlimited for a member
// of a cluster: its queues may have no leader for a while.
func (s *Server) Patience() time.Duration {
	if s.member != nil {
		return -1
	}
	return defaultConnectTimeout
}

// leads reports whether each queue that there is has a leader.
func (p *present) leads() bool { return p.quorum && len(p.leaderless) == 0 }
