package coordination

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func openedDefinitions(t *testing.T, dir string) *definitions {
	t.Helper()
	return openDefinitions(t, filepath.Join(dir, "definitions.db"), nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func openDefinitions(t *testing.T, file string, fence func() error, log *slog.Logger) *definitions {
	d := newDefinitions(t.Context(), file, fence, clock.System, log)
	d.open()
	t.Cleanup(func() { d.close() })
	return d
}

// size returns the number of bytes of all definitions, as the database counts them.
func (d *definitions) size() (n int64) {
	d.view(func(tx ledger.StoreTx) error {
		n = number(tx.Bucket(bTotal), "size")
		return nil
	})
	return n
}

func aDefinition(noun, key, shown string) wire.Definition {
	return wire.Definition{DefinitionName: wire.DefinitionName{Noun: noun, Key: key}, Owner: "ann", Shown: json.RawMessage(fmt.Sprintf("%q", shown))}
}

// told describes the definitions of an agent.
func told(t *testing.T, d *definitions, agent transfer.AgentName, noun string) string {
	t.Helper()
	var text []string
	if err := d.view(func(tx ledger.StoreTx) error {
		c := tx.Bucket(bDefinitions).Cursor()
		for key, v := c.Seek(nil); key != nil; key, v = c.Next() {
			var one wire.Definition
			if of, is, name := words(key); of != string(agent) || noun != "" && is != noun {
				continue
			} else if err := json.Unmarshal(v, &one); err != nil || one.Key != name || tx.Bucket(bNames).Get(keyOf(is, name, of)) == nil {
				t.Errorf("%s %s of %s is not found by its name, %v", is, name, of, err)
			}
			text = append(text, one.Noun+" "+one.Key+" "+string(one.Shown))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(text, ", ")
}

// The definitions of an agent are those that it has told, in each run.
func TestDefinitions(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "definitions"), time.Unix(1_800_000_000, 0)
	d := openedDefinitions(t, dir)
	for _, c := range []struct {
		agent transfer.AgentName
		keep  wire.Keep
		kind  transfer.Kind
		want  string // of ALPHA
	}{
		{"ALPHA", wire.Keep{Base: "x", Mark: "a"}, transfer.KindConflict, ""}, // it has never told any
		{"ALPHA", wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("schedule", "n", "1"), aDefinition("monitor", "B", "1"), aDefinition("monitor", "A", "1")}}, transfer.KindNone,
			`monitor A "1", monitor B "1", schedule n "1"`},
		{"BETA", wire.Keep{Mark: "x", Put: []wire.Definition{aDefinition("monitor", "Z", "1")}}, transfer.KindNone, `monitor A "1", monitor B "1", schedule n "1"`},
		{"ALPHA", wire.Keep{Base: "a", Mark: "b", Put: []wire.Definition{aDefinition("monitor", "B", "2")}, Gone: []wire.DefinitionName{{Noun: "schedule", Key: "n"}}}, transfer.KindNone,
			`monitor A "1", monitor B "2"`},
		{"ALPHA", wire.Keep{Base: "a", Mark: "c", Put: []wire.Definition{aDefinition("monitor", "C", "1")}}, transfer.KindConflict, `monitor A "1", monitor B "2"`},
		{"ALPHA", wire.Keep{Base: "b", Mark: "b"}, transfer.KindNone, `monitor A "1", monitor B "2"`},
	} {
		if err := d.change(c.agent, &c.keep, now); transfer.KindOf(err) != c.kind {
			t.Errorf("%s tells %+v: %v", c.agent, c.keep, err)
		}
		if got := told(t, d, "ALPHA", ""); got != c.want {
			t.Errorf("after %+v there is %s, not %s", c.keep, got, c.want)
		}
	}

	size := d.size()
	if err := d.close(); err != nil {
		t.Fatal(err)
	}

	again := openedDefinitions(t, dir)
	if got, want := told(t, again, "ALPHA", "monitor"), `monitor A "1", monitor B "2"`; got != want {
		t.Errorf("the next run has %s, not %s", got, want)
	}
	if h, err := again.head("ALPHA"); err != nil || h.Mark != "b" || !h.Told.Equal(now) || again.size() != size || size == 0 {
		t.Errorf("the next run has the head %+v and %d bytes, not %d, %v", h, again.size(), size, err)
	}
	if err := again.change("ALPHA", &wire.Keep{Base: "b", Mark: "c", Gone: []wire.DefinitionName{{Noun: "monitor", Key: "A"}, {Noun: "monitor", Key: "B"}}}, now); err != nil {
		t.Fatal(err)
	}
	if err := again.change("ALPHA", &wire.Keep{Base: "c", Mark: "c"}, now); err != nil {
		t.Errorf("an agent without definitions is not known: %v", err)
	}
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA"} {
		if err := again.forget(agent); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.view(func(tx ledger.StoreTx) error {
		for _, name := range [][]byte{bHeads, bDefinitions, bNames} {
			if k, _ := tx.Bucket(name).Cursor().Seek(nil); k != nil {
				t.Errorf("%q is left in %s", k, name)
			}
		}
		return nil
	}); err != nil || again.size() != 0 {
		t.Errorf("%d bytes are left, %v", again.size(), err)
	}
}

// A new start of an agent replaces all that it has told before.
func TestDefinitionsToldAnew(t *testing.T) {
	d := openedDefinitions(t, t.TempDir())
	for mark, put := range map[string][]wire.Definition{"": {aDefinition("monitor", "A", "1")}, "x": {aDefinition("monitor", "B", "22")}} {
		k := &wire.Keep{Mark: "m" + mark, Put: put, Missing: map[string]int{"monitor": 3}, Sandbox: true}
		if err := d.change("ALPHA", k, time.Now()); err != nil {
			t.Fatal(err)
		}
		if got, want := told(t, d, "ALPHA", ""), "monitor "+put[0].Key+" "+string(put[0].Shown); got != want || d.size() != int64(put[0].Size()) {
			t.Errorf("there is %s with %d bytes, not %s with %d", got, d.size(), want, put[0].Size())
		}
		if h, err := d.head("ALPHA"); err != nil || h.Missing["monitor"] != 3 || !h.Sandbox {
			t.Errorf("it has the head %+v, %v", h, err)
		}
	}
}

// A damaged database is set aside: coordination starts, and each agent tells its definitions again.
func TestDamagedDefinitions(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"text":               func(path string) error { return os.WriteFile(path, []byte("{damaged"), 0o600) },
		"its end is missing": func(path string) error { return os.Truncate(path, 8192) },
		"a flipped bit": func(path string) error {
			data, err := os.ReadFile(path)
			at := bytes.Index(data, []byte(`"shown":`))
			data[at+9] ^= 1
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		},
		"another format": func(path string) error {
			s, _, err := ledger.OpenCache(t.Context(), path, ledger.CacheOptions{Begin: func(tx ledger.StoreTx) error { return setNumber(tx.Bucket(bTotal), "version", 99) }})
			return errors.Join(err, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "definitions.db")
			d := openedDefinitions(t, dir)
			if err := d.change("ALPHA", &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.close(), damage(path)); err != nil {
				t.Fatal(err)
			}
			log := &bytes.Buffer{}
			d = openDefinitions(t, path, nil, slog.New(slog.NewTextHandler(log, nil)))
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), path) {
				t.Errorf("the log has %s", log)
			}
			if _, err := os.Stat(path + ".damaged"); err != nil {
				t.Error(err)
			}
			if err := d.change("ALPHA", &wire.Keep{Base: "a", Mark: "b"}, time.Now()); transfer.KindOf(err) != transfer.KindConflict {
				t.Errorf("the agent does not tell all: %v", err)
			}
			if err := d.change("ALPHA", &wire.Keep{Mark: "b", Put: []wire.Definition{aDefinition("monitor", "A", "2")}}, time.Now()); err != nil || told(t, d, "ALPHA", "") != `monitor A "2"` {
				t.Errorf("it has told all: %v", err)
			}
		})
	}
}

// A handClock is a clock that a test sets.
type handClock struct {
	clock.Clock
	now time.Time
}

func (c *handClock) Now() time.Time { return c.now }

// Coordination starts where the database cannot be opened, reports that, and opens it at a later change that can. It does
// not try again at each change: each attempt may copy and read the whole database.
func TestDefinitionsThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "definitions.db")
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at, log, tidied := &handClock{now: time.Now()}, &bytes.Buffer{}, 0
	d := newDefinitions(t.Context(), filepath.Join(dir, "a", "definitions.db"), nil, at, slog.New(slog.NewTextHandler(log, nil)))
	d.tidy = func(*definitions) error { tidied++; return nil }
	t.Cleanup(func() { d.close() })
	k := &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}
	refused := func() {
		t.Helper()
		if err := d.change("ALPHA", k, time.Now()); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("without a database: %v", err)
		}
	}
	refused()
	if _, err := d.head("ALPHA"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("without a database it has %v", err)
	}
	at.now = at.now.Add(definitionsPause)
	refused()
	if n := strings.Count(log.String(), "cannot be kept"); n != 2 {
		t.Errorf("two attempts are logged %d times", n)
	}
	d.file = path
	at.now = at.now.Add(definitionsPause - 1)
	refused()
	at.now = at.now.Add(1)
	if err := d.change("ALPHA", k, time.Now()); err != nil || told(t, d, "ALPHA", "") != `monitor A "1"` || tidied != 1 {
		t.Errorf("it opens: %v, with %d works after it", err, tidied)
	}
}

// Coordination opens the database by itself once it can, also where no agent tells anything.
func TestDefinitionsAreOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d := newDefinitions(ctx, filepath.Join(dir, "definitions.db"), nil, clock.System, slog.New(slog.DiscardHandler))
		d.open()
		var run sync.WaitGroup
		run.Go(func() { d.run(ctx) })
		defer func() {
			cancel()
			run.Wait()
			d.close()
		}()
		for range 2 {
			//house:sleep because it runs in a bubble
			time.Sleep(definitionsPause + time.Second)
			synctest.Wait()
			if _, err := d.head("ALPHA"); transfer.KindOf(err) != transfer.KindBusy {
				t.Fatalf("without a directory: %v", err)
			}
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		//house:sleep because it runs in a bubble
		time.Sleep(definitionsPause)
		synctest.Wait()
		if _, err := d.head("ALPHA"); err != nil {
			t.Errorf("it is not open: %v", err)
		}
	})
}

// A fullStore is a database on a disk that is full.
type fullStore struct{ ledger.Store }

func (fullStore) Update(func(ledger.StoreTx) error) error { return errors.New("the disk is full") }

// Coordination logs that definitions cannot be written, but not each refusal.
func TestDefinitionsThatCannotBeWritten(t *testing.T) {
	log := &bytes.Buffer{}
	s := &Service{cfg: Config{Clock: clock.System}, picture: status.New(clock.System), definitions: openedDefinitions(t, t.TempDir()),
		quiet: quiet.New(slog.New(slog.NewTextHandler(log, nil)), time.Now)}
	s.picture.Know("ALPHA")
	keep := func(base string) error {
		k := wire.Keep{Base: base, Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}
		return askKeep(s, &receivedQuestion{Ask: &wire.Ask{Kind: wire.AskKeep, Body: wire.Marshal(k), Principal: transfer.AgentName("ALPHA").Token()}}, nil)
	}
	if err := keep("other"); transfer.KindOf(err) != transfer.KindConflict || log.Len() > 0 {
		t.Errorf("a conflict: %v, and the log has %s", err, log)
	}
	s.definitions.store = fullStore{s.definitions.store}
	if err := keep(""); transfer.KindOf(err) != transfer.KindUnwritable || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a full disk: %v, and the log has %s", err, log)
	}
}

// A user with the name of an agent in small letters neither tells definitions of that agent, nor asks for its
// transfers.
func TestUserIsNotTheAgentOfItsName(t *testing.T) {
	s := &Service{cfg: Config{Clock: clock.System}, picture: status.New(clock.System), definitions: openedDefinitions(t, t.TempDir()), quiet: quiet.New(slog.New(slog.DiscardHandler), time.Now)}
	s.picture.Know("ALPHA")
	if err := s.definitions.change("ALPHA", &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}, time.Unix(1_800_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	asked := func(kind wire.Kind, body any) *receivedQuestion {
		return &receivedQuestion{Ask: &wire.Ask{Kind: kind, Body: wire.Marshal(body), Principal: transfer.UserToken("alpha")}}
	}
	if err := askKeep(s, asked(wire.AskKeep, wire.Keep{Mark: "b"}), nil); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("definitions are taken from a user: %v", err)
	}
	if got := told(t, s.definitions, "ALPHA", ""); got != `monitor A "1"` {
		t.Errorf("the definitions of the agent are %s", got)
	}
	ran := wire.RanAsked{Transfer: transfer.NewID(time.Now()), Principal: "ann"}
	if err := askRan(s, asked(wire.AskRan, ran), &wire.Answer{}); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a user is answered as an agent: %v", err)
	}
}

// While the database is opened, which may take minutes, other goroutines do not wait for it.
func TestDefinitionsThatAreOpened(t *testing.T) {
	dir := t.TempDir()
	openedDefinitions(t, dir).close()
	opens, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	d := newDefinitions(t.Context(), filepath.Join(dir, "definitions.db"), func() error {
		first.Do(func() { close(opens) })
		<-goOn
		return nil
	}, clock.System, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { d.close() })
	done := make(chan error, 1)
	go func() {
		_, err := d.open()
		done <- err
	}()
	<-opens
	if err := d.later("ALPHA", func() {}); err != nil {
		t.Errorf("a change cannot wait: %v", err)
	}
	if _, err := d.head("ALPHA"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("a question ends with %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := d.head("ALPHA"); err != nil {
		t.Errorf("it is open: %v", err)
	}
}

// A service that has lost the directory without notice writes to a file without a name.
func TestDefinitionsTakenOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "definitions.db")
	mine := func() error { return nil }
	first := openDefinitions(t, path, mine, slog.New(slog.DiscardHandler))
	tell := func(d *definitions, base, mark, text string) {
		t.Helper()
		if err := d.change("ALPHA", &wire.Keep{Base: base, Mark: mark, Put: []wire.Definition{aDefinition("monitor", "A", text)}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	tell(first, "", "a", "1")
	second := openDefinitions(t, path, mine, slog.New(slog.DiscardHandler))
	tell(second, "a", "b", "2")
	tell(first, "a", "c", "3")
	if got := told(t, second, "ALPHA", ""); got != `monitor A "2"` {
		t.Errorf("the second has %s", got)
	}
	second.close()
	third := openDefinitions(t, path, func() error { return errors.New("another one has the directory") }, slog.New(slog.DiscardHandler))
	if _, err := third.head("ALPHA"); err == nil {
		t.Error("a service that has lost the directory opens the database")
	}
}

// Agents that were removed leave no definitions, also where the service ended before it forgot them.
func TestDefinitionsOfRemovedAgents(t *testing.T) {
	d := openedDefinitions(t, t.TempDir())
	picture := status.New(clock.System)
	at := time.Now()
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA", "DELTA"} {
		if err := d.change(agent, &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "DELTA"} {
		picture.Know(agent)
	}
	picture.Remove("BETA", at.Add(time.Second)) // after it had told them
	picture.Know("BETA")
	picture.Remove("DELTA", at.Add(-time.Second)) // before
	picture.Know("DELTA")
	for _, c := range []struct {
		whole bool
		left  string
	}{{false, "ALPHA DELTA GAMMA"}, {true, "ALPHA DELTA"}} {
		if err := d.forgetRemoved(picture, c.whole); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "DELTA", "GAMMA"} {
			if told(t, d, agent, "") != "" {
				left = append(left, string(agent))
			}
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("with a whole registry %t, the definitions of %s are left, not of %s", c.whole, got, c.left)
		}
	}
}

// No agent takes more than its limit, nor the room of all others.
func TestDefinitionsAreBounded(t *testing.T) {
	d := openedDefinitions(t, t.TempDir())
	large := strings.Repeat("x", wire.MaxDefinition-1024)
	mark := ""
	for n := 0; ; n++ {
		k := &wire.Keep{Base: mark, Mark: fmt.Sprint("m", n), Put: []wire.Definition{aDefinition("monitor", fmt.Sprint("M", n), large)}}
		err := d.change("ALPHA", k, time.Now())
		if transfer.KindOf(err) == transfer.KindTooLarge {
			break
		}
		if mark = k.Mark; err != nil || n > 2*wire.MaxDefinitions/wire.MaxDefinition {
			t.Fatalf("definition %d: %v", n, err)
		}
	}
	if d.size() > wire.MaxDefinitions {
		t.Errorf("one agent has %d bytes", d.size())
	}

	few := openedDefinitions(t, t.TempDir())
	few.room = 4 << 10
	one := func(agent transfer.AgentName, size int) error {
		return few.change(agent, &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", strings.Repeat("x", size))}}, time.Now())
	}
	if err := one("ALPHA", 2<<10); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("an agent takes more than half: %v", err)
	}
	if err := one("ALPHA", 1500); err != nil {
		t.Error(err)
	}
	if err := one("BETA", 1500); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("the next one takes more than half of the rest: %v", err)
	}
	if err := one("BETA", 500); err != nil {
		t.Error(err)
	}
}

// A question is answered in pages, and each goes on behind the one before.
func TestKeptInPages(t *testing.T) {
	s := &Service{picture: status.New(clock.System), definitions: openedDefinitions(t, t.TempDir()), quiet: quiet.New(slog.New(slog.DiscardHandler), time.Now)}
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA", "DELTA"} {
		s.picture.Know(agent)
	}
	var want []string
	for _, agent := range []transfer.AgentName{"ALPHA", "DELTA"} {
		k := &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("schedule", "s", "x")}}
		for n := range 5 {
			k.Put = append(k.Put, aDefinition("monitor", fmt.Sprint("M", n), strings.Repeat("x", 1000)))
			want = append(want, fmt.Sprint(agent, " M", n))
		}
		if err := s.definitions.change(agent, k, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, room := range []int{1, 1200, 2500, 1 << 20} {
		var got []string
		agents := map[transfer.AgentName]int{}
		ask := wire.KeptAsked{Noun: "monitor"}
		for pages := 0; ; pages++ {
			ans := &wire.Answer{}
			q := &receivedQuestion{Ask: &wire.Ask{Kind: wire.AskKept, Room: room, Body: wire.Marshal(ask), Principal: "ann"}}
			if err := askKept(s, q, ans); err != nil {
				t.Fatal(err)
			}
			page, err := wire.ReadBody[wire.Kept](wire.AskKept, ans.Body)
			if err != nil || pages > 50 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, of := range page.Agents {
				agents[of.Agent]++
				for _, d := range of.Definitions {
					got = append(got, fmt.Sprint(of.Agent, " ", d.Key))
				}
				if told := !of.Told.IsZero(); told != (of.Agent == "ALPHA" || of.Agent == "DELTA") {
					t.Errorf("%s has told: %t", of.Agent, told)
				}
			}
			if ask.After = page.Next; page.Next == nil {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(agents) != 4 || agents["BETA"] != 1 {
			t.Errorf("pages of %d bytes have %v of %v, not %v", room, got, agents, want)
		}
	}
}

// Definitions are found by their names and by the ends of them, of the agents that are away alone.
func TestKeptByName(t *testing.T) {
	s := &Service{picture: status.New(clock.System), definitions: openedDefinitions(t, t.TempDir()), quiet: quiet.New(slog.New(slog.DiscardHandler), time.Now)}
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA"} {
		k := &wire.Keep{Mark: "a", Missing: map[string]int{"job": 7, "monitor": 9}, Sandbox: true, Put: []wire.Definition{aDefinition("job", "one-5", "x"), aDefinition("job", "ten-15", "x"), aDefinition("jobs", "one-5", "x"), aDefinition("job", "one-55", "x")}}
		k.Put = append(k.Put, wire.Definition{DefinitionName: wire.DefinitionName{Noun: "job", Key: "of bob-5"}, Owner: "bob", Shown: json.RawMessage("1")})
		if err := s.definitions.change(agent, k, time.Now()); err != nil {
			t.Fatal(err)
		}
		s.picture.Know(agent)
	}
	if _, err := s.picture.Beat(&wire.Beat{Agent: "GAMMA"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ask  wire.KeptAsked
		want string
	}{
		{wire.KeptAsked{Key: "one-5"}, "one-5 ALPHA, one-5 BETA"},
		{wire.KeptAsked{Key: "one-5", Agent: "BETA"}, "one-5 BETA"},
		{wire.KeptAsked{Key: "one-5", Agent: "GAMMA"}, "one-5 GAMMA"},
		{wire.KeptAsked{Key: "one-"}, ""},
		{wire.KeptAsked{Suffix: "5"}, "one-5 ALPHA, one-5 BETA, one-55 ALPHA, one-55 BETA, ten-15 ALPHA, ten-15 BETA"},
		{wire.KeptAsked{Suffix: "-5", Agent: "ALPHA"}, "one-5 ALPHA"},
	} {
		for _, room := range []int{1, 300, 1 << 20} {
			c.ask.Noun = "job"
			ask := c.ask
			var got []string
			for pages := 0; ; pages++ {
				ans := &wire.Answer{}
				if err := askKept(s, &receivedQuestion{Ask: &wire.Ask{Kind: wire.AskKept, Room: room, Body: wire.Marshal(ask), Principal: "ann"}}, ans); err != nil {
					t.Fatal(err)
				}
				page, err := wire.ReadBody[wire.Kept](wire.AskKept, ans.Body)
				if err != nil || pages > 20 {
					t.Fatalf("page %d: %v", pages, err)
				}
				for _, of := range page.Agents {
					got = append(got, fmt.Sprint(of.Definitions[0].Key, " ", of.Agent))
					if of.Missing != 7 || !of.Sandbox {
						t.Errorf("%s has a sandbox: %t, and %d jobs are missing", of.Agent, of.Sandbox, of.Missing)
					}
				}
				if ask.After = page.Next; page.Next == nil {
					break
				}
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%+v in pages of %d bytes finds %s, not %s", c.ask, room, text, c.want)
			}
		}
	}
}

// A page ends after some work, also where the asker may see nothing of it. Its position does not tell the names of those.
func TestKeptOfOthers(t *testing.T) {
	s := &Service{picture: status.New(clock.System), definitions: openedDefinitions(t, t.TempDir()), quiet: quiet.New(slog.New(slog.DiscardHandler), time.Now)}
	const each = 20
	large := json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", wire.MaxDefinition-1024)))
	all := 0
	for n := 0; all < 2*keptLooked; n++ {
		agent := transfer.AgentName(fmt.Sprint("AGENT", n))
		k := &wire.Keep{Mark: "a"}
		for n := range each {
			k.Put = append(k.Put, wire.Definition{DefinitionName: wire.DefinitionName{Noun: "monitor", Key: fmt.Sprint("SECRET", n)}, Owner: "bob", Shown: large})
		}
		all += each * len(large)
		if err := s.definitions.change(agent, k, time.Now()); err != nil {
			t.Fatal(err)
		}
		s.picture.Know(agent)
	}
	if err := s.definitions.change("LAST", &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "Z9", "1")}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	s.picture.Know("LAST")
	for _, ask := range []wire.KeptAsked{{Noun: "monitor"}, {Noun: "monitor", Suffix: "9"}} {
		pages, seen := 0, ""
		for ; pages < 50; pages++ {
			ans := &wire.Answer{}
			if err := askKept(s, &receivedQuestion{Ask: &wire.Ask{Kind: wire.AskKept, Body: wire.Marshal(ask), Principal: "ann"}}, ans); err != nil {
				t.Fatal(err)
			}
			page, err := wire.ReadBody[wire.Kept](wire.AskKept, ans.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, of := range page.Agents {
				for _, d := range of.Definitions {
					seen += fmt.Sprint(of.Agent, " ", d.Key)
				}
			}
			if ask.After = page.Next; page.Next == nil {
				break
			}
			if bytes.Contains(page.Next, []byte("SECRET")) || bytes.Contains(page.Next, []byte("AGENT")) {
				t.Errorf("the position is %q", page.Next)
			}
		}
		if most := all/keptLooked + 1; pages == 0 && ask.Suffix == "" || pages > most || seen != "LAST Z9" { // few end in the suffix
			t.Errorf("%d pages after the first, %d at most, have %s", pages, most, seen)
		}
	}
	ask := wire.KeptAsked{Noun: "monitor", After: bytes.Repeat([]byte("x"), 40)}
	if err := askKept(s, &receivedQuestion{Ask: &wire.Ask{Kind: wire.AskKept, Body: wire.Marshal(ask), Principal: "ann"}}, &wire.Answer{}); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("the position of another run: %v", err)
	}
}

// Changes are made one after the other; too many at once are refused, of one agent before those of others.
func TestDefinitionsWait(t *testing.T) {
	d := openedDefinitions(t, t.TempDir())
	done := make(chan int, definitionsWait)
	change := 0
	for agent := range definitionsWait / definitionsOfAgent {
		for range definitionsOfAgent {
			n := change
			change++
			if err := d.later(fmt.Sprint("A", agent), func() { done <- n }); err != nil {
				t.Fatalf("change %d is refused: %v", n, err)
			}
		}
		if err := d.later(fmt.Sprint("A", agent), func() {}); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("any number of one agent may wait: %v", err)
		}
	}
	if err := d.later("BETA", func() {}); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("any number may wait: %v", err)
	}
	if err := d.change("GAMMA", &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	d.forgetLater("GAMMA") // has a place always
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go d.run(ctx)
	for n := range change {
		if got := <-done; got != n {
			t.Errorf("change %d comes in the place of %d", got, n)
		}
	}
	if got := told(t, d, "GAMMA", ""); got != "" {
		t.Errorf("the removed agent has %s", got)
	}
	if err := d.later("A0", func() { done <- 0 }); err != nil {
		t.Errorf("after its changes were made, an agent is refused: %v", err)
	}
	<-done
}
