package attacks

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/client"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A witnessed is a network with agents that watch coordination's log. Coordination can be stopped, and restarted on a
// changed directory.
type witnessed struct {
	*network
	dir     string
	self    *identity.Identity
	service *coordination.Service
	conn    *qmgr.Conn
	user    *qmgr.Conn
	client  *client.Client
	agents  map[transfer.AgentName]*agent.Agent
}

func newWitnessed(t *testing.T, names ...transfer.AgentName) *witnessed {
	t.Helper()
	w := &witnessed{network: newNetwork(t), dir: t.TempDir(), agents: map[transfer.AgentName]*agent.Agent{}}
	w.self = w.identity(identity.Coordination, "", roles.Coordination)
	var err error
	w.user, err = w.connect(w.identity(identity.User, "ann", roles.Admin))
	must(t, err)
	w.attend(func() {})
	w.client = &client.Client{Conn: w.user, Clock: clock.System, Who: client.Me()}
	w.start()
	t.Cleanup(func() { w.stop() })
	for _, name := range names {
		conn, err := w.connect(w.identity(identity.Agent, string(name), roles.Agent))
		must(t, err)
		a, err := agent.Start(w.ctx, agent.Config{Name: name, Dir: t.TempDir(), Roots: []string{t.TempDir()}, Log: slog.New(slog.DiscardHandler)}, conn)
		must(t, err)
		t.Cleanup(a.Stop)
		w.agents[name] = a
	}
	return w
}

func (w *witnessed) start() {
	w.t.Helper()
	var err error
	w.conn, err = w.connect(w.self)
	must(w.t, err)
	w.service, err = coordination.Start(w.ctx, coordination.Config{Dir: w.dir, Log: slog.New(slog.DiscardHandler)}, w.conn)
	must(w.t, err)
}

func (w *witnessed) stop() {
	if w.service != nil {
		w.service.Stop()
		w.conn.Close()
		w.service = nil
	}
}

// copyTo copies the audit log's files.
func (w *witnessed) copyTo(dir string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(dir, 0o700))
	must(w.t, os.CopyFS(dir, os.DirFS(filepath.Join(w.dir, "audit"))))
}

// put replaces the audit log by a copy, or removes it if dir is empty.
func (w *witnessed) put(dir string) {
	w.t.Helper()
	must(w.t, os.RemoveAll(filepath.Join(w.dir, "audit")))
	if dir != "" {
		must(w.t, os.CopyFS(filepath.Join(w.dir, "audit"), os.DirFS(dir)))
	}
}

func (w *witnessed) ask(to transfer.AgentName, kind wire.Kind, body any) *wire.Answer {
	w.t.Helper()
	statement := word.Statement{Kind: word.Ask, To: identity.Name{Network: w.Network(), Role: identity.Agent, Name: string(to)}, ID: transfer.NewID(time.Now())}
	question := word.Sign(w.user.Identity(), statement, wire.Marshal(wire.Ask{V: wire.Version, Kind: kind, Body: wire.Marshal(body)}), time.Now())
	data, err := w.user.Request(w.ctx, wire.AskAgent(to, w.user.Self()), question, 90*time.Second)
	must(w.t, err)
	ans, err := wire.DecodeAnswer(data)
	must(w.t, err)
	return ans
}

// acts makes an agent write some audit records.
func (w *witnessed) acts(name transfer.AgentName, times int) {
	w.t.Helper()
	for range times {
		w.ask(name, wire.AskSet, wire.SetRates{Rates: map[transfer.AgentName]string{"": "1M"}})
	}
}

// until waits for a condition.
func (w *witnessed) until(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.t.Fatalf("%s: never", what)
		}
	}
}

// seen waits until an agent has a proof of all of its records, and returns its statement.
func (w *witnessed) seen(name transfer.AgentName) *witness.Statement {
	w.t.Helper()
	w.until(string(name)+"'s records are proved", func() bool { return w.agents[name].OutboxLeft() == 0 })
	s, err := witness.DecodeStatement(w.ask(name, wire.AskWitness, nil).Witness)
	must(w.t, err)
	return s
}

func (w *witnessed) says(name transfer.AgentName, status, words string) {
	w.t.Helper()
	w.until(string(name)+" is "+status+" "+words, func() bool {
		b := w.ask(name, wire.AskPing, nil).Beat
		return b.Status == status && strings.Contains(b.Reason, words)
	})
}

// TestRecordsAreProved checks that an agent's records are signed, proved and cosigned. Only then its outbox is empty.
func TestRecordsAreProved(t *testing.T) {
	w := newWitnessed(t, "ALPHA", "BETA")
	began := time.Now()
	w.acts("ALPHA", 20)
	s := w.seen("ALPHA")
	w.until("all of its records are in what it has seen", func() bool { // they are counted a moment after they are written
		s = w.seen("ALPHA")
		_, at, _, err := s.Check(w.self.Roots())
		return err == nil && at.Size >= 20
	})
	t.Logf("proved %v after the first record", time.Since(began))
	roots := w.self.Roots()
	p, at, ok, err := s.Check(roots)
	if err != nil || !ok || at.Size < 20 || p.Name.Name != "ALPHA" || len(s.Forks) > 0 {
		t.Fatalf("%+v %v %v %v", p, at, ok, err)
	}
	log, err := audit.OpenLogReadOnly(filepath.Join(w.dir, "audit"))
	must(t, err)
	defer log.Close()
	report, err := log.VerifySigned(t.Context(), roots)
	if err != nil || report.Found > 0 || report.Signed < 20 || report.Unsigned > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestAnotherLogIsSeen replaces the log by an older copy, by a new one, or by a fork. Every witness notices and reports
// it until an operator accepts the log, and no record is dropped because of it.
func TestAnotherLogIsSeen(t *testing.T) {
	w := newWitnessed(t, "ALPHA", "BETA")
	w.acts("ALPHA", 5)
	w.seen("ALPHA")
	early := filepath.Join(t.TempDir(), "early")
	w.copyTo(early)
	w.acts("ALPHA", 5)
	w.acts("BETA", 5)
	w.seen("ALPHA")
	w.seen("BETA")

	w.stop()
	late := filepath.Join(t.TempDir(), "late")
	w.copyTo(late)
	for name, try := range map[string]struct{ dir, words string }{
		"put back":   {early, "the audit log"},
		"begun anew": {"", "another audit log"},
	} {
		t.Run(name, func(t *testing.T) {
			w.put(try.dir)
			w.start()
			w.acts("ALPHA", 1)
			w.acts("BETA", 1)
			w.says("ALPHA", wire.AgentDegraded, try.words)
			w.says("BETA", wire.AgentDegraded, try.words)
			if left := w.agents["ALPHA"].OutboxLeft(); left == 0 {
				t.Error("records were dropped for a log that is another")
			}
			s, err := witness.DecodeStatement(w.ask("ALPHA", wire.AskWitness, nil).Witness)
			must(t, err)
			if len(s.Forks) == 0 || string(s.Forks[0].Held.Note) == string(s.Forks[0].Shown.Note) {
				t.Errorf("both notes are not kept: %+v", s.Forks)
			}
			w.stop()
			w.put(late)
			w.start()
			// The right one is back: records move, and the agents still report the other one.
			w.until("ALPHA's records are proved", func() bool { return w.agents["ALPHA"].OutboxLeft() == 0 })
			w.says("ALPHA", wire.AgentDegraded, try.words)
			shown := w.shown()
			for a := range w.agents {
				w.ask(a, wire.AskAccept, wire.AcceptLog{Note: shown.Note, Binding: shown.Binding.Encode()})
				w.says(a, wire.AgentReady, "")
			}
			w.stop()
			must(t, os.RemoveAll(late))
			w.copyTo(late)
		})
	}
}

// shown returns the log as coordination shows it.
func (w *witnessed) shown() *witness.Shown {
	w.t.Helper()
	data, err := w.user.Request(w.ctx, wire.AskSubject(wire.Coordination, w.user.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskLog, Body: json.RawMessage(`{}`)}), 90*time.Second)
	must(w.t, err)
	ans, err := wire.DecodeAnswer(data)
	must(w.t, err)
	s, err := witness.DecodeShown(ans.Witness)
	must(w.t, err)
	return s
}
