package cluster

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

	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

const (
	memberFile    = "cluster.json" // beside the library's own store
	standaloneDir = "alone"        // the store of a queue manager from before it became a member

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

// A Member is a queue manager's part in a cluster.
type Member struct {
	Config
	own  *own.Conn // once the queue manager runs
	Note memberNote
	Now  atomic.Pointer[present]

	mu     sync.Mutex
	others map[string]hello // the last hellos of the others, by their names
	told   time.Time        // time of the last claims for the others

	removed []string // members reported as removed, until the note has them
}

// A Config describes a queue manager that is a member of a cluster.
type Config struct {
	Store   *storage.Store
	Cluster *Cluster
	URL     func() string // of its listener for clients
	Host    func() string // its address for other hosts
	// Number returns the number of the claims that it has taken, and claims these claims; 0: the network has none.
	Number func() uint64
	Claims func() roles.Claims
	// Admit takes newer claims.
	Admit func(roles.Claims) error
	// Ensure has the missing queues made.
	Ensure func(context.Context) error
}

// OtherMembers returns the names of the other members.
func (m *Member) OtherMembers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.Note.Members), func(name string) bool { return name == m.Store.Cfg.Name })
}

// Routes returns the connected members by their names, each with the number of its newest connection.
func (m *Member) Routes() map[string]uint64 {
	all := map[string]uint64{}
	if r, err := m.Store.NS.Routez(nil); err == nil {
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
	Here       []string // the others that are connected, by their names
	away       []string // and those that are not, and were once
	unseen     int      // how many are expected beside them
	Quorum     bool
	Alone      time.Time // since when less than most of the members are connected; zero: they are
	leaderless []string  // queues without a leader at present
	remarks    []string
}

func notePath(s *storage.Store) string { return filepath.Join(s.Cfg.Dir, memberFile) }

// readNote reads the memberNote of a queue manager's directory. It is zero for a queue manager without a cluster.
func readNote(s *storage.Store) (n memberNote, err error) {
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
		return n, transfer.Errorf(transfer.KindNoManager, "%s, the record of the cluster of queue manager %s, cannot be read: %w", notePath(s), s.Cfg.Name, err)
	}
	return n, nil
}

// writeNote replaces the file, synced.
func writeNote(s *storage.Store, n memberNote) error {
	n.V = 1
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return keyfile.Replace(notePath(s), data)
}

// CheckNotMember refuses to start a member of a cluster as a queue manager of its own. Its store has a part of the
// cluster's common state. Alone the queue manager would change that part, and could not come back.
func CheckNotMember(s *storage.Store) error {
	n, err := readNote(s)
	if err != nil || n.Cluster == "" {
		return err
	}
	return transfer.Errorf(transfer.KindUsage, "queue manager %s in %s is a member of cluster %s, and cannot be started alone", n.Name, s.Cfg.Dir, n.Cluster).
		WithHint("give --cluster " + n.Cluster + " and a --route to each other member; to begin anew move " + s.Cfg.Dir + " aside")
}

// Join makes the directory that of a member. It puts aside the messages that the queue manager has stored before. They
// are handed over when there is a cluster to take them (handOver): the library removes from a member's store all
// messages that the cluster has not agreed on.
//
// A member's store is not inspected before it starts, as that of a queue manager alone is (inspect). Only the library
// can open it, and would change it when it opens it alone. The library gets missing or damaged messages from the other
// members.
func Join(cfg Config) (*Member, error) {
	s, c := cfg.Store, cfg.Cluster
	n, err := readNote(s)
	if err != nil {
		return nil, err
	}
	refuse := func(what, was, is string) (*Member, error) {
		return nil, transfer.Errorf(transfer.KindUsage, "%s has the part of %s %s in a cluster, and not that of %s", s.Cfg.Dir, what, was, is).
			WithHint("start it with its former part, or move that directory aside: a member without a store gets it from the others")
	}
	switch {
	case n.Cluster == "":
		n = memberNote{Cluster: c.Name, Name: s.Cfg.Name, Account: s.AccountName, Members: []string{s.Cfg.Name}}
		if err := moveStandaloneStore(s); err != nil {
			return nil, err
		}
		if err := writeNote(s, n); err != nil {
			return nil, err
		}
	case n.Cluster != c.Name:
		return refuse("cluster", n.Cluster, c.Name)
	case n.Name != s.Cfg.Name:
		return refuse("queue manager", n.Name, s.Cfg.Name)
	case n.Account != s.AccountName:
		return refuse("the network with the account", n.Account, s.AccountName)
	}
	m := &Member{Config: cfg, Note: n, others: map[string]hello{}}
	m.Now.Store(&present{Alone: time.Now(), unseen: len(c.Routes)})
	return m, nil
}

// moveStandaloneStore puts aside the store from before there was a cluster. It is the last step but one of becoming a
// member, and may be interrupted.
func moveStandaloneStore(s *storage.Store) error {
	if err := s.TakeOver(); err != nil {
		return err
	}
	store, aside := filepath.Join(s.Cfg.Dir, server.JetStreamStoreDir), filepath.Join(s.Cfg.Dir, standaloneDir)
	if _, err := os.Lstat(store); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	if err := os.Rename(store, filepath.Join(aside, server.JetStreamStoreDir)); err != nil {
		return err
	}
	err := os.Rename(s.MarksPath(), filepath.Join(aside, storage.MarksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// handOver stores the commands from before there was a cluster in the cluster's queue. It may be interrupted, and then
// stores some of them again: agents know a command by its ID. Senders send other stored messages again, and owners
// claim their names again.
func (m *Member) handOver(ctx context.Context, opts *server.Options) error {
	s := m.Store
	dir := filepath.Join(s.Cfg.Dir, standaloneDir)
	if _, err := os.Lstat(filepath.Join(dir, server.JetStreamStoreDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	x, err := s.Examine(opts, dir)
	if err != nil {
		return err
	}
	defer x.Close()
	ctx, cancel := context.WithTimeout(ctx, storage.InspectTimeout)
	defer cancel()
	n := 0
	for _, stream := range streams.CommandStreams {
		from, err := x.JS.Stream(ctx, string(stream))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		err = storage.Each(ctx, from, func(msg *jetstream.RawStreamMsg) error {
			n++
			out := &nats.Msg{Subject: msg.Subject, Header: nats.Header{}, Data: msg.Data}
			maps.Copy(out.Header, msg.Header)
			if out.Header.Get(nats.MsgIdHdr) == "" { // its ID is known if it is tried again within two minutes
				out.Header.Set(nats.MsgIdHdr, fmt.Sprintf("alone-%s-%d", s.Cfg.Name, msg.Sequence))
			}
			_, err := m.own.JS().PublishMsg(ctx, out)
			return err
		})
		if err != nil {
			return err
		}
	}
	x.Close()
	done := dir + ".handed-over"
	if err := os.RemoveAll(done); err != nil {
		return err
	}
	s.Cfg.Log.Info("the messages stored before the cluster was made have been handed over to it", "commands", n)
	return os.Rename(dir, done)
}

// Watch looks at the other members and publishes this one's hello, until the server ends.
func (m *Member) Watch() {
	t := time.NewTicker(memberLook)
	defer t.Stop()
	m.look()
	var said time.Time
	for {
		select {
		case <-t.C:
		case <-m.Store.Ending:
			return
		}
		before := m.Now.Load()
		now := m.look()
		if routes := !slices.Equal(before.Here, now.Here); routes || time.Since(said) > helloEvery {
			said = time.Now()
			m.hello()
		}
	}
}

// MaintainQueues makes the missing queues and keeps their number of replicas at the number of members, until the server
// ends. It also hands over the messages that were stored before there was a cluster.
func (m *Member) MaintainQueues(opts *server.Options) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() { <-m.Store.Ending; end() }()
	t := time.NewTicker(raiseEvery)
	defer t.Stop()
	o := orphans{limit: cmp.Or(m.Cluster.Leaderless, leaderlessFor), since: map[string]time.Time{}}
	for handed := false; ; {
		m.removeOrphans(ctx, &o)
		if m.Now.Load().Quorum {
			try, cancel := context.WithTimeout(ctx, streams.APITimeout)
			err := m.Ensure(try)
			if err == nil {
				streams.Library{JS: m.own.JS}.RaiseStore(try)
			}
			cancel()
			if err != nil {
				m.Store.Cfg.Log.Debug("the queues of the cluster cannot be looked at", slog.Any("error", err))
			} else if !handed {
				if err = m.handOver(ctx, opts); err != nil && ctx.Err() == nil {
					m.Store.Cfg.Log.Warn("the messages stored before the cluster was made are not handed over yet", slog.Any("error", err))
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
func (m *Member) look() *present {
	before := m.Now.Load()
	now := m.see()
	if !before.Alone.IsZero() && !now.Alone.IsZero() {
		now.Alone = before.Alone
	}
	m.Now.Store(now)
	if b, n := before.Text(m), now.Text(m); b != n {
		if n == "" {
			m.Store.Cfg.Log.Info("the cluster is whole", "cluster", m.Cluster.Name, "members", strings.Join(m.Note.Members, " "))
		} else {
			m.Store.Cfg.Log.Warn("the cluster is degraded", slog.String("error", n))
		}
	}
	return now
}

// see asks the library.
func (m *Member) see() *present {
	s := m.Store
	p := &present{}
	p.Here = slices.Sorted(maps.Keys(m.Routes()))
	m.rememberNames(p.Here)
	for _, name := range m.Note.Members {
		if name != s.Cfg.Name && !slices.Contains(p.Here, name) {
			p.away = append(p.away, name)
		}
	}
	p.unseen = max(0, len(m.Cluster.Routes)+1-len(m.Note.Members))

	size := len(m.Note.Members) + p.unseen
	if j, err := storage.StoreOf(s, s.NS); err == nil && j.Meta != nil {
		p.leader = j.Meta.Leader
		size = max(size, j.Meta.Size)
		for _, a := range j.AccountDetails {
			for _, st := range a.Streams {
				if a.Id == s.AccountName && st.Cluster != nil && st.Cluster.Leader == "" {
					p.leaderless = append(p.leaderless, st.Name)
				}
			}
		}
	}
	slices.Sort(p.leaderless)
	if len(p.Here)+1 <= size/2 {
		p.Alone = time.Now()
	}
	p.Quorum = p.leader != "" && p.Alone.IsZero()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range p.Here {
		if h, ok := m.others[name]; ok && h.MaxPayload != streams.MaxPayload {
			p.remarks = append(p.remarks, fmt.Sprintf("queue manager %s of cluster %s takes messages of %s, and %s of %s: make them the same",
				name, m.Cluster.Name, transfer.FormatBytes(h.MaxPayload), s.Cfg.Name, transfer.FormatBytes(streams.MaxPayload)))
		}
	}
	return p
}

// Admits refuses routes of queue managers that are no members. Each member that joins raises the number that makes a
// majority. So a few that join and leave again could stop the cluster. A new name is admitted only while fewer members
// are known than this one has routes for.
func (m *Member) Admits(name string) error {
	m.mu.Lock()
	known, removed := m.Note.Members, m.Note.Removed
	m.mu.Unlock()
	if slices.Contains(removed, name) {
		return fmt.Errorf("queue manager %s was removed from cluster %s; it can be a member under another name, with an empty directory", name, m.Cluster.Name)
	}
	if slices.Contains(known, name) || len(known) < len(m.Cluster.Routes)+1 {
		return nil
	}
	return fmt.Errorf("queue manager %s is no member of cluster %s, which are %s", name, m.Cluster.Name, strings.Join(known, " "))
}

// rememberNames remembers members that are seen for the first time.
func (m *Member) rememberNames(names []string) {
	n, changed := m.forget(m.Note)
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
	m.Note = n
	m.mu.Unlock()
	if err := writeNote(m.Store, n); err != nil {
		m.Store.Cfg.Log.Warn("the list of members of the cluster cannot be written", slog.Any("error", err))
	}
}

// Text describes the faults of a cluster; "" if there are none.
func (p *present) Text(m *Member) string {
	var all []string
	switch {
	case !p.Alone.IsZero():
		all = append(all, "waiting for the other queue managers of cluster "+m.Cluster.Name)
	case !p.Quorum:
		all = append(all, "waiting for the queue managers of cluster "+m.Cluster.Name+" to agree on one that leads")
	}
	for _, name := range p.away {
		all = append(all, "queue manager "+name+" of cluster "+m.Cluster.Name+" is away")
	}
	if p.unseen > 0 {
		all = append(all, fmt.Sprintf("%d of the queue managers of cluster %s %s not been there yet", p.unseen, m.Cluster.Name, map[bool]string{true: "has", false: "have"}[p.unseen == 1]))
	}
	if p.Quorum && len(p.leaderless) > 0 {
		all = append(all, "no leader for "+strings.Join(p.leaderless, ", "))
	}
	return strings.Join(append(all, p.remarks...), "; ")
}

// Passing describes the present faults of the cluster; "" for none.
func (m *Member) Passing() string { return m.Now.Load().Text(m) }

// Quorum returns an error if the member can neither accept nor deliver stored messages.
func (m *Member) Quorum() error {
	if m.Now.Load().Quorum {
		return nil
	}
	return transfer.Errorf(transfer.KindNoManager, "queue manager %s: %s", m.Store.Cfg.Name, m.Passing())
}

// Leads returns the reason why messages of a stream, or of any, can neither be accepted nor delivered at present;
// nil if they can.
func (m *Member) Leads(of streams.Stream) error {
	if err := m.Quorum(); err != nil {
		return err
	}
	for _, name := range m.Now.Load().leaderless {
		if of == "" || string(of) == name {
			return transfer.Errorf(transfer.KindNoManager, "queue manager %s: no leader for %s at present", m.Store.Cfg.Name, name)
		}
	}
	return nil
}

// errEnded is the error of a wait for a queue manager that has ended.
var errEnded = transfer.Errorf(transfer.KindNoManager, "the connection to the queue manager has been closed")

// Wait returns when most members of the cluster are there and have agreed on its leader and on each queue's. Meanwhile
// it passes the missing conditions to say, whenever they change.
func (m *Member) Wait(ctx context.Context, say func(string)) error {
	t := time.NewTicker(memberLook)
	defer t.Stop()
	for said := ""; !m.Now.Load().leads(); {
		if now := m.Passing(); now != said {
			said = now
			say(now)
		}
		select {
		case <-t.C:
		case <-m.Store.Ending:
			return errEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// leads reports whether each queue that there is has a leader.
func (p *present) leads() bool { return p.Quorum && len(p.leaderless) == 0 }
