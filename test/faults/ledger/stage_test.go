//go:build linux

package ledger_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	source      transfer.AgentName = "SRC"
	destination transfer.AgentName = "DST"
)

var me = transfer.Originator{User: "user", Host: "host"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A stage is two whole agents and a queue manager in this process, with a sender of commands.
type stage struct {
	t      *testing.T
	r      *rand.Rand
	ctx    context.Context
	dir    string
	clock  *faulty.Clock
	inbox  string // subject of answers, before the number that reply adds
	server *server.Server
	conn   *qmgr.Conn
	agents []*agent.Agent
	conns  []*qmgr.Conn
	all    []*command
	aged   bool // the ledger has forgotten ended transfers
	taken  map[string]bool

	mu      sync.Mutex
	waiting int // answers that are due
	quiet   chan struct{}
}

func newStage(t *testing.T, r *rand.Rand) *stage {
	dir, err := os.MkdirTemp(swift(), "ferry-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &stage{t: t, r: r, ctx: ctx, dir: dir, clock: faulty.NewClock(), taken: map[string]bool{}}
	for _, name := range []transfer.AgentName{source, destination} {
		must(t, os.MkdirAll(s.path(name, ""), 0o755))
	}
	s.server, err = server.Start(ctx, server.Config{Name: "STAGE", Dir: filepath.Join(dir, "qm"), Log: silent})
	must(t, err)
	t.Cleanup(s.server.Shutdown)
	s.conn = s.connect("commander")
	t.Cleanup(s.conn.Close)
	one := s.conn.NewInbox(source.Token())
	s.inbox = one[:strings.LastIndexByte(one, '.')+1]
	stop, err := s.conn.Subscribe(s.inbox+"*", s.heard)
	must(t, err)
	t.Cleanup(stop)
	t.Cleanup(s.lower)
	return s
}

var silent = slog.New(slog.DiscardHandler)

// swift returns a directory with files in memory, or "" if there is none.
func swift() string {
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func (s *stage) path(of transfer.AgentName, name string) string {
	return filepath.Join(s.dir, "files", string(of), name)
}

func (s *stage) state(of transfer.AgentName) string { return filepath.Join(s.dir, "state", string(of)) }

func (s *stage) connect(name string) *qmgr.Conn {
	c, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Server: s.server, Name: name, Log: silent})
	must(s.t, err)
	return c
}

// raise starts the agents, lower stops them.
func (s *stage) raise() {
	for _, name := range []transfer.AgentName{destination, source} {
		conn := s.connect(string(name))
		s.conns = append(s.conns, conn)
		a, err := agent.Start(s.ctx, agent.Config{Name: name, Dir: s.state(name), Roots: []string{s.path(name, "")}, Clock: s.clock,
			Alone: true, OutboxLimit: 1 << 40, Log: silent}, conn)
		must(s.t, err)
		s.agents = append(s.agents, a)
	}
}

func (s *stage) lower() {
	for _, a := range s.agents {
		a.Stop()
	}
	for _, c := range s.conns {
		c.Close()
	}
	s.agents, s.conns = nil, nil
}

// give sends commands a number of times, in their order or in random order, and waits for all the answers.
func (s *stage) give(commands []*command, times int) {
	var order []*command
	for range times {
		order = append(order, commands...)
	}
	if s.r.IntN(2) == 0 {
		s.r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	quiet := make(chan struct{})
	s.mu.Lock()
	s.waiting, s.quiet = len(order)+1, quiet
	s.mu.Unlock()
	type message struct {
		subject string
		data    []byte
	}
	feed := make(chan message)
	var givers sync.WaitGroup
	for range 1 + 3*s.r.IntN(2) { // several at once change the order
		givers.Go(func() {
			for m := range feed {
				if err := s.conn.Enqueue(s.ctx, m.subject, "", m.data); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	known := map[*command]bool{}
	for _, c := range order {
		if c.other != nil && (known[c] || c.answered > 0) && s.r.IntN(8) == 0 {
			feed <- message{c.subject, c.other(s.reply(c.n, true))}
			continue
		}
		known[c] = true
		feed <- message{c.subject, c.message(s.reply(c.n, false))}
	}
	close(feed)
	givers.Wait()
	s.count()
	select {
	case <-quiet:
	case <-s.ctx.Done():
		s.t.Fatalf("%d answers have not come", s.waiting)
	}
}

// reply returns the subject for the answer to a command, or to another one under its ID.
func (s *stage) reply(n int, other bool) string {
	n *= 2
	if other {
		n++
	}
	return s.inbox + strconv.Itoa(replies+n)
}

// replies is beyond the inbox numbers of the same connection's questions.
const replies = 1 << 30

func (s *stage) heard(m qmgr.Message) {
	n, err := strconv.Atoi(strings.TrimPrefix(m.Subject, s.inbox))
	if n < replies && err == nil {
		return // to a question
	}
	if n -= replies; err != nil || n/2 >= len(s.all) {
		s.t.Errorf("an answer on %s", m.Subject)
		return
	}
	s.answered(s.all[n/2], n%2 > 0, m.Data)
	s.count()
}

// count counts an answer, or the end of the sending.
func (s *stage) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting == 0 {
		close(s.quiet)
	}
}

// settle waits for the end of the transfers that may run.
func (s *stage) settle(commands []*command) {
	for _, c := range commands {
		for c.mayRun {
			data, err := s.conn.Request(s.ctx, wire.AskAgent(source, s.conn.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskStatus, ID: c.request.ID}), 90*time.Second)
			must(s.t, err)
			a, err := wire.DecodeAnswer(data)
			must(s.t, err)
			if !a.Progress.State.Final() {
				continue
			}
			if a.Progress.State != transfer.Successful {
				s.t.Errorf("request %d has ended %s: %v", c.n, a.Progress.State, a.Progress.Reason)
			}
			break
		}
	}
}

// consume removes arrived files. None of them may arrive again.
func (s *stage) consume() {
	for _, c := range s.all {
		if c.mayRun && s.r.IntN(2) == 0 {
			name := filepath.Base(string(c.request.Items[0].Source.Path))
			must(s.t, os.Remove(s.path(destination, name)))
			s.taken[name] = true
		}
	}
}

// age lets the ledgers forget ended transfers. The clock then stays where it is, or is set back.
func (s *stage) age() {
	s.clock.Jump(agent.Retention + 24*time.Hour)
	for _, name := range []transfer.AgentName{source, destination} {
		l, err := ledger.Open(s.state(name), ledger.Options{Reserve: -1, Clock: s.clock})
		must(s.t, err)
		must(s.t, l.AddRunning(agent.Retention+time.Second))
		must(s.t, l.Forget(agent.Retention))
		must(s.t, l.Close())
	}
	s.clock.Jump(-[]time.Duration{0, 10 * 24 * time.Hour, agent.Retention + 23*time.Hour, 400 * 24 * time.Hour}[s.r.IntN(4)])
	s.aged = true
}

// judge reads the number of each event from the ledgers' audit records.
func (s *stage) judge() {
	accepted, committed, ended, resumed := map[transfer.ID]int{}, map[transfer.ID]int{}, map[transfer.ID]int{}, 0
	for _, name := range []transfer.AgentName{source, destination} {
		l, err := ledger.Open(s.state(name), ledger.Options{Reserve: -1, Clock: s.clock})
		must(s.t, err)
		_, recs, _, err := l.OutboxFrom(1, 1<<30, 1<<40)
		must(s.t, err)
		for _, b := range recs {
			var rec audit.Record
			must(s.t, json.Unmarshal(b, &rec))
			switch {
			case rec.Event == audit.Accepted:
				accepted[rec.Transfer]++
			case rec.Event == audit.Items && rec.Role == audit.RoleDestination:
				committed[rec.Transfer] += len(rec.Items)
			case rec.Event == audit.Completed && rec.Role == audit.RoleSource:
				ended[rec.Transfer]++
			case rec.Event == audit.Resumed:
				resumed++
			}
		}
		must(s.t, l.Close())
	}
	for _, c := range s.all {
		if c.request == nil {
			continue
		}
		id := c.request.ID
		want := 0
		if c.mayRun {
			want = 1
		}
		if !c.ahead && (accepted[id] != want || committed[id] != want || ended[id] != want) || accepted[id] > 1 || committed[id] > 1 {
			s.t.Errorf("request %d, which may run %d times, was accepted %d times, committed %d times, completed %d times", c.n, want, accepted[id], committed[id], ended[id])
		}
		if name := filepath.Base(string(c.request.Items[0].Source.Path)); s.taken[name] {
			if _, err := os.Lstat(s.path(destination, name)); err == nil {
				s.t.Errorf("%s was taken away and has come again", name)
			}
		}
	}
	if resumed > 0 {
		s.t.Errorf("%d transfers were resumed by commands that were refused once", resumed)
	}
}
