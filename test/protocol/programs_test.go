package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/automation/exit"
	"ferry/internal/automation/program"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// A stage defines the programs of a test by their call points.
type stage struct {
	takes  map[string]time.Duration // duration of the program
	codes  map[string]int
	denied transfer.AgentName // agent that denies all programs

	mu    sync.Mutex
	begun []string // in their order
	ended []string
}

func (s *stage) note(list *[]string, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, name)
}

func (s *stage) count(list *[]string, name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range *list {
		if it == name {
			n++
		}
	}
	return n
}

// A testPrograms runs the programs of one process.
type testPrograms struct{ *run }

func (t testPrograms) Executable(string) error { return nil }

func (t testPrograms) Find(name string) (string, error) { return name, nil }

func (t testPrograms) Run(ctx context.Context, c program.Call) (program.Result, error) {
	s := t.node.w.set.stage
	if t.crashable.crashed() {
		return program.Result{Code: -1}, errDead
	}
	s.note(&s.begun, c.Name)
	select {
	case <-time.After(s.takes[c.Name]):
		s.note(&s.ended, c.Name)
		return program.Result{Code: s.codes[c.Name], Output: c.Name}, nil
	case <-ctx.Done():
		return program.Result{Code: -1}, context.Cause(ctx)
	}
}

// calls returns the Executor of a process's programs, configured as in the agent.
func (r *run) calls(log *slog.Logger) *exit.Executor {
	cfg := call.Config{Agent: r.node.name, Ledger: r.ledger, Note: r.note, AtOnce: 4, Clock: r.node.clockOf(), Log: log}
	if s := r.node.w.set.stage; s != nil {
		cfg.Runner = testPrograms{r}
		cfg.May = func(string) error {
			if s.denied == r.node.name {
				return transfer.Errorf(transfer.KindDenied, "user does not have the authority program at %s", r.node.name)
			}
			return nil
		}
	}
	all, err := exit.New(exit.Config{Agent: r.node.name, Ledger: r.ledger, Programs: call.New(cfg), Note: r.note, AtOnce: 4, Clock: r.node.clockOf(), Log: log})
	if err != nil {
		panic(err) // it refuses exits, and there are none
	}
	return all
}

// programsAt returns programs at call points, each named after its call point.
func programsAt(points ...transfer.CallPoint) *transfer.Programs {
	p := &transfer.Programs{}
	for _, at := range points {
		p.Set(at, &transfer.Program{Name: string(at)})
	}
	return p
}

func minutes(n int) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, at := range transfer.CallPoints() {
		all[string(at)] = time.Duration(n) * time.Minute
	}
	return all
}

// TestProgramsAreAroundATransfer checks the order of programs. No file arrives before the programs that precede the
// transfer have ended. The recovery time-out does not count while a program runs, and a destination that runs one
// reports it.
func TestProgramsAreAroundATransfer(t *testing.T) {
	s := &stage{takes: minutes(5)}
	bubble(t, setup{stage: s}, func(w *world) {
		files := map[string][]byte{"a": content(1, 30<<10)}
		w.write(files)
		s.takes[string(transfer.PreSource)] = 7 * time.Minute
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Recovery: transfer.Duration(time.Second), Programs: programsAt(transfer.CallPoints()...)})
		w.want(id, transfer.Successful, "out", files)
		w.until(time.Minute, "the first does not begin", func() bool { return s.count(&s.begun, "pre-source") == 1 })
		pass(5 * time.Minute)
		if n := w.net.Count(wire.KindOpen); n > 0 {
			t.Errorf("%d OPENs were sent while the program before them ran", n)
		}
		w.until(5*time.Minute, "the destination does not say that it runs a program", func() bool {
			rec := w.source(id)
			return rec.State == transfer.Waiting && strings.Contains(rec.Progress.Reason.Text, "runs the pre-destination program")
		})
		if _, err := os.Stat(w.dst.files("out")); err == nil || w.incoming(id) != nil {
			t.Error("something of the transfer is at the destination before the program before it has ended")
		}
		w.until(6*time.Minute, "the program after it does not begin", func() bool { return s.count(&s.begun, "post-destination") == 1 })
		if got, err := os.ReadFile(w.dst.files("out/a")); err != nil || string(got) != string(files["a"]) {
			t.Errorf("the file is not there before the program after it: %v", err)
		}
		took := w.finish(time.Hour)
		if took > 11*time.Minute {
			t.Errorf("the rest took %v", took)
		}
		if want := []string{"pre-source", "pre-destination", "post-destination", "post-source"}; !slices.Equal(s.begun, want) || !slices.Equal(s.ended, want) {
			t.Errorf("began %v, ended %v", s.begun, s.ended)
		}
	})
}

// TestProgramsFail lets each program fail. If one before the transfer fails, no file is sent. If one after it fails,
// the files stay, and the transfer is partial.
func TestProgramsFail(t *testing.T) {
	for _, at := range transfer.CallPoints() {
		s := &stage{codes: map[string]int{string(at): 3}}
		bubble(t, setup{stage: s}, func(w *world) {
			files := map[string][]byte{"a": content(1, 30<<10)}
			w.write(files)
			w.fates = loseOnce()
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Programs: programsAt(transfer.CallPoints()...)})
			w.until(5*time.Minute, "it does not end", func() bool { return w.over(id) })
			rec := w.source(id)
			_, err := os.Stat(w.dst.files("out/a"))
			state, code := transfer.Failed, transfer.CodeNothing
			if at.Post() {
				state, code = transfer.Partial, transfer.CodePartial
			}
			if p := &rec.Progress; rec.State != state || p.Code != code || p.Reason == nil || p.Reason.Kind != transfer.KindProgram || !strings.Contains(p.Reason.Text, string(at)) {
				t.Errorf("%s: %s, %d, %v", at, rec.State, p.Code, p.Reason)
			}
			if at.Post() != (err == nil) {
				t.Errorf("%s: the file at the destination: %v", at, err)
			}
			if n := s.count(&s.begun, string(at)); n != 1 {
				t.Errorf("%s was run %d times", at, n)
			}
			w.forgotten()
		})
	}
}

// loseOnce loses the first message of each kind except chunks.
func loseOnce() func(p *faulty.Parcel) faulty.Handling {
	lost := map[wire.Kind]bool{}
	var mu sync.Mutex
	return func(p *faulty.Parcel) (h faulty.Handling) {
		mu.Lock()
		defer mu.Unlock()
		h.Drop = p.Kind != faulty.Chunk && !lost[p.Kind]
		lost[p.Kind] = true
		return h
	}
}

// forgotten checks that no ledger keeps programs of ended transfers.
func (w *world) forgotten() {
	w.t.Helper()
	for _, n := range []*node{w.src, w.dst} {
		w.until(time.Hour, string(n.name)+" keeps programs of a transfer that is over", func() (none bool) {
			r := n.living()
			return r != nil && r.ledger.View(func(t *ledger.Tx) error {
				for key := range ledger.NamespaceOf(t, "programs").All("", "") {
					if strings.HasSuffix(key, "/pre-destination") && w.dst.living() == r && w.src.living() != nil {
						continue // a refused transfer leaves no record that could end
					}
					return errors.New(key)
				}
				return nil
			}) == nil
		})
	}
}

// TestProgramsOutliveACrash crashes an agent while a program runs, or in the transaction that records its end. The
// agent then runs the program once more. A program with a recorded end is not run again.
func TestProgramsOutliveACrash(t *testing.T) {
	for _, at := range transfer.CallPoints() {
		for _, when := range []string{"while it runs", "when it is put on record", "after that"} {
			s := &stage{takes: minutes(1)}
			bubble(t, setup{stage: s}, func(w *world) {
				files := map[string][]byte{"a": content(1, 30<<10), "b": content(2, 10)}
				w.write(files)
				n, name := w.src, string(at)
				if at.AtDest() {
					n = w.dst
				}
				died := false
				if when == "when it is put on record" {
					w.noted = func(r *run, rec *audit.Record) bool {
						die := !died && rec.Event == audit.Ran && rec.Program.At == at
						died = died || die
						return die
					}
				}
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b"), Dest: transfer.File("out/"), Recovery: transfer.Duration(time.Minute), Programs: programsAt(transfer.CallPoints()...)})
				w.want(id, transfer.Successful, "out", files)
				switch when {
				case "while it runs":
					w.until(time.Hour, "it does not begin", func() bool { return s.count(&s.begun, name) == 1 })
					pass(20 * time.Second)
					n.kill()
				case "after that":
					w.until(time.Hour, "it does not end", func() bool { return s.count(&s.ended, name) == 1 })
					pass(100 * time.Millisecond)
					n.kill()
				}
				w.finish(time.Hour)
				want := 2
				if when == "after that" {
					want = 1
				}
				if n := s.count(&s.begun, name); n != want {
					t.Errorf("%s, dead %s: it was run %d times, not %d", at, when, n, want)
				}
				for _, other := range transfer.CallPoints() {
					n, next := s.count(&s.begun, string(other)), when == "after that" && at == transfer.PreDest && other == transfer.PostDest // which may have begun
					if other != at && n != 1 && !(next && n == 2) {
						t.Errorf("%s, dead %s: %s was run %d times", at, when, other, n)
					}
				}
				w.forgotten()
			})
		}
	}
}

// TestTriggers evaluates a trigger once: later changes by a program or a crash do not matter.
func TestTriggers(t *testing.T) {
	exist := []transfer.Trigger{{When: transfer.TriggerExist, Files: []transfer.Path{"none", "ready"}}}
	s := &stage{takes: minutes(1)}
	bubble(t, setup{stage: s}, func(w *world) {
		files := map[string][]byte{"a": content(1, 100)}
		w.write(files)
		w.write(map[string][]byte{"ready": nil})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Triggers: exist, Programs: programsAt(transfer.PreSource)})
		w.want(id, transfer.Successful, "out", files)
		w.until(time.Minute, "the program does not begin", func() bool { return s.count(&s.begun, "pre-source") == 1 })
		must(t, os.Remove(w.src.files("ready")))
		w.src.kill()
		w.finish(time.Hour)
	})
	bubble(t, setup{stage: s}, func(w *world) {
		w.write(map[string][]byte{"a": content(1, 100)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Triggers: exist, Programs: programsAt(transfer.PostSource)})
		w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
		if p := w.source(id).Progress; p.State != transfer.Failed || p.Code != transfer.CodeTrigger || p.Reason.Kind != transfer.KindTrigger {
			t.Errorf("%s, %d, %v", p.State, p.Code, p.Reason)
		}
		if w.net.Count(wire.KindOpen) > 0 || s.count(&s.begun, "post-source") > 0 {
			t.Error("something was sent, or a program run")
		}
	})
}

// TestCancelWhileAProgramRuns cancels during a program, at either side. The program and the transfer end.
func TestCancelWhileAProgramRuns(t *testing.T) {
	for _, at := range []transfer.CallPoint{transfer.PreSource, transfer.PreDest, transfer.PostDest} {
		s := &stage{takes: minutes(60)}
		bubble(t, setup{stage: s}, func(w *world) {
			files := map[string][]byte{"a": content(1, 100)}
			w.write(files)
			q := transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Programs: &transfer.Programs{}}
			q.Programs.Set(at, &transfer.Program{Name: string(at), Timeout: transfer.Duration(time.Hour)})
			id := w.submit(q)
			w.until(time.Minute, "it does not begin", func() bool { return s.count(&s.begun, string(at)) == 1 })
			pass(time.Minute)
			must(t, w.cancel(id))
			w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
			if rec := w.source(id); rec.State != transfer.Cancelled {
				t.Errorf("%s: the transfer ended %s: %v", at, rec.State, rec.Progress.Reason)
			}
			where := w.src
			if at.AtDest() {
				where = w.dst
			}
			w.until(time.Minute, "the program is not killed", func() bool {
				return slices.ContainsFunc(records(w, where), func(r audit.Record) bool {
					return r.Event == audit.Ran && r.Error != nil && r.Error.Kind == transfer.KindCancelled
				})
			})
			if n := s.count(&s.ended, string(at)); n > 0 {
				t.Errorf("%s has ended by itself", at)
			}
			if _, err := os.Stat(w.dst.files("out/a")); (err == nil) != at.Post() {
				t.Errorf("%s: the file at the destination: %v", at, err)
			}
		})
	}
}

// TestHostileProgramsInOpen sends an OPEN with programs that the user may not run at the destination, or with invalid
// ones. The destination refuses it before any effect, and no content of an OPEN ends the destination.
func TestHostileProgramsInOpen(t *testing.T) {
	for name, c := range map[string]struct {
		programs *transfer.Programs
		denied   transfer.AgentName
		kind     transfer.Kind
	}{
		"no authority":         {programsAt(transfer.PreDest), dstName, transfer.KindDenied},
		"no authority, after":  {programsAt(transfer.PostDest), dstName, transfer.KindDenied},
		"out of the directory": {&transfer.Programs{PreDest: &transfer.Program{Name: "../sh"}}, "", transfer.KindUsage},
		"out of it, absolute":  {&transfer.Programs{PostDest: &transfer.Program{Name: "/bin/../sh"}}, "", transfer.KindUsage},
		"many arguments":       {&transfer.Programs{PostDest: &transfer.Program{Name: "sh", Args: make([]string, 65)}}, "", transfer.KindUsage},
		"endless":              {&transfer.Programs{PreDest: &transfer.Program{Name: "sh", Timeout: transfer.Duration(1000 * time.Hour)}}, "", transfer.KindUsage},
	} {
		s := &stage{denied: c.denied}
		bubble(t, setup{stage: s}, func(w *world) {
			var answer atomic.Pointer[transfer.Error]
			w.before = func(p *faulty.Parcel, _ *node) bool {
				if m, err := wire.Decode(p.Data); err == nil && m.Kind == wire.KindRefuse {
					answer.Store(m.Refuse.Error)
				}
				return false
			}
			id := transfer.NewID(time.Now())
			w.say(srcName, dstName, &wire.Message{Kind: wire.KindOpen, Transfer: id, Open: &wire.Open{Nonce: 1, Source: "00000000000000aa", MaxChunk: 1 << 20, Principal: "user",
				Request: transfer.Request{Version: transfer.RequestVersion, ID: id, Source: srcName, Destination: dstName, Dest: transfer.File("out/"), Programs: c.programs}}})
			pass(time.Second)
			refused := answer.Load()
			if refused == nil || refused.Kind != c.kind || w.incoming(id) != nil || len(s.begun) > 0 {
				t.Errorf("%s: refused with %v, on record %v, run %v", name, refused, w.incoming(id) != nil, s.begun)
			}
		})
	}
	s := &stage{takes: minutes(10)} // an OPEN for a transfer with a running or pending program has other programs
	bubble(t, setup{stage: s}, func(w *world) {
		files := map[string][]byte{"a": content(1, 100)}
		w.write(files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Programs: programsAt(transfer.PostDest)})
		w.want(id, transfer.Successful, "out", files)
		w.until(time.Minute, "it does not begin", func() bool { return s.count(&s.begun, "post-destination") == 1 })
		for nonce := range uint64(3) {
			w.say(srcName, dstName, &wire.Message{Kind: wire.KindOpen, Transfer: id, Open: &wire.Open{Nonce: nonce + 1, Source: w.src.living().ledger.IncarnationText(), MaxChunk: 1 << 20,
				Request: transfer.Request{Version: transfer.RequestVersion, ID: id, Source: srcName, Destination: dstName, Dest: transfer.File("out/")}}})
		}
		w.finish(time.Hour)
		if n := s.count(&s.begun, "post-destination"); n != 1 {
			t.Errorf("it was run %d times", n)
		}
	})
}

// TestProgramsWithFaults loses messages and crashes agents. A program with a recorded end is not run again, and the
// transfer ends.
func TestProgramsWithFaults(t *testing.T) {
	for seed := range uint64(20) {
		s := &stage{takes: minutes(1)}
		bubble(t, setup{stage: s, wake: seed%2 == 0}, func(w *world) {
			x := &script{r: campaign.Rand(seed)}
			recorded := map[string]int{}
			w.noted = func(_ *run, rec *audit.Record) bool {
				if rec.Event == audit.Ran {
					recorded[rec.Program.Name]++
				}
				return false
			}
			w.fates = func(*faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: x.n(4) == 0} }
			files := map[string][]byte{"a": content(1, 30<<10), "b": content(2, 10)}
			w.write(files)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b"), Dest: transfer.File("out/"), Programs: programsAt(transfer.CallPoints()...)})
			w.want(id, transfer.Successful, "out", files)
			kills := 0
			for ; kills < 4 && !w.over(id); kills++ {
				pass(time.Duration(x.n(90)) * time.Second)
				w.side(x).kill()
			}
			w.until(3*time.Hour, "it does not end", func() bool { return w.over(id) })
			w.change(func(w *world) { w.fates = nil })
			w.finish(2 * time.Hour)
			for _, at := range transfer.CallPoints() {
				if n := s.count(&s.begun, string(at)); n < 1 || n > kills+1 {
					t.Errorf("seed %d: %s was run %d times, with %d crashes", seed, at, n, kills)
				}
			}
			if t.Failed() {
				t.Log(fmt.Sprint(s.begun, s.ended, recorded))
			}
		})
	}
}
