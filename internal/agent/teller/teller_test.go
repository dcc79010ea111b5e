package teller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A world is a teller, the definitions of its duty, and a coordination that keeps them.
type world struct {
	*Teller
	t       *testing.T
	have    map[string]string // name and text of the definitions of the duty
	readers []transfer.Authority

	kept    map[wire.DefinitionName]string
	mark    string
	missing int
	asked   []wire.Keep
	fail    error // of coordination
	room    int   // of coordination
	log     *bytes.Buffer
}

func newWorld(t *testing.T) *world {
	l, err := ledger.Open(t.TempDir(), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w := &world{t: t, have: map[string]string{}, kept: map[wire.DefinitionName]string{}, room: wire.MaxDefinitions, log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.Teller = New(Config{Ask: w.ask, Ledger: l, Keepers: []duty.Keeper{w}, Changed: make(chan struct{}, 1), Fenced: func() bool { return false },
		Context: t.Context(), Clock: clock.System, Log: log, Quiet: quiet.New(log, time.Now)})
	return w
}

func (w *world) Kept(_ *ledger.Tx, add func(wire.Definition)) error {
	for _, key := range slices.Sorted(maps.Keys(w.have)) {
		text := w.have[key]
		owner := "ann"
		if strings.HasPrefix(key, "EVE") {
			owner = "eve"
		}
		add(wire.Definition{DefinitionName: wire.DefinitionName{Noun: "monitor", Key: key}, Owner: owner, Readers: w.readers, Shown: json.RawMessage(fmt.Sprintf("%q", text))})
	}
	return nil
}

// ask does as coordination does.
func (w *world) ask(_ context.Context, data []byte, _ time.Duration) ([]byte, error) {
	ask, err := wire.DecodeAsk(data)
	if err != nil {
		w.t.Fatal(err)
	}
	k, err := wire.ReadBody[wire.Keep](ask.Kind, ask.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.asked = append(w.asked, *k)
	ans := wire.Answer{V: wire.Version}
	switch {
	case w.fail != nil:
		return nil, w.fail
	case k.Base != "" && k.Base != w.mark:
		ans.Error = transfer.Errorf(transfer.KindConflict, "others")
	default:
		next := maps.Clone(w.kept)
		if k.Base == "" {
			next = map[wire.DefinitionName]string{}
		}
		for _, name := range k.Gone {
			delete(next, name)
		}
		for _, d := range k.Put {
			next[d.DefinitionName] = string(d.Shown)
		}
		if size := sizeOf(next); size > w.room && size > sizeOf(w.kept) {
			ans.Error = transfer.Errorf(transfer.KindTooLarge, "the definitions of agent ALPHA have %d bytes; coordination keeps %d", size, w.room)
			break
		}
		w.kept, w.mark, w.missing = next, k.Mark, k.Missing["monitor"]
		if w.missing != len(w.have)-len(w.kept) && !w.stale() {
			w.t.Errorf("coordination has %d definitions of %d, and is told that %d are missing", len(w.kept), len(w.have), w.missing)
		}
	}
	return wire.Marshal(ans), nil
}

// stale reports whether coordination has definitions that the agent does not have, or has in another form.
func (w *world) stale() bool {
	for name, shown := range w.kept {
		if text, has := w.have[name.Key]; !has || shown != fmt.Sprintf("%q", text) {
			return true
		}
	}
	return false
}

func sizeOf(kept map[wire.DefinitionName]string) (n int) {
	for name, shown := range kept {
		d := wire.Definition{DefinitionName: name, Owner: "ann", Shown: json.RawMessage("0")}
		n += d.Size() - 1 + len(shown)
	}
	return n
}

// tells has the teller compare, and checks that coordination then has the definitions. It returns the messages.
func (w *world) tells() []wire.Keep {
	w.t.Helper()
	w.asked = nil
	w.tell(w.t.Context(), time.Second)
	if len(w.kept) != len(w.have) {
		w.t.Errorf("coordination has %d definitions of %d", len(w.kept), len(w.have))
	}
	for key, text := range w.have {
		if got := w.kept[wire.DefinitionName{Noun: "monitor", Key: key}]; got != fmt.Sprintf("%q", text) {
			w.t.Errorf("coordination has %.40s of %s", got, key)
		}
	}
	return w.asked
}

// Coordination has the present definitions after each comparison, and is told the differences alone.
func TestTeller(t *testing.T) {
	w := newWorld(t)
	if all := w.tells(); len(all) != 1 || all[0].Base != "" {
		t.Errorf("at first it tells %+v", all)
	}
	w.have["A"], w.have["B"] = "1", "1"
	if all := w.tells(); len(all) != 1 || len(all[0].Put) != 2 {
		t.Errorf("of new ones it tells %+v", all)
	}
	if all := w.tells(); len(all) != 0 {
		t.Errorf("without a change it tells %+v", all)
	}
	w.have["B"] = "2"
	delete(w.have, "A")
	if all := w.tells(); len(all) != 1 || len(all[0].Put) != 1 || !slices.Equal(all[0].Gone, []wire.DefinitionName{{Noun: "monitor", Key: "A"}}) {
		t.Errorf("of a change it tells %+v", all)
	}

	// Coordination has lost them: the comparison finds that.
	w.mark, w.kept = "", map[wire.DefinitionName]string{}
	w.agreed = time.Now().Add(-tellCompare)
	if all := w.tells(); len(all) != 2 || all[1].Base != "" {
		t.Errorf("when coordination has none it tells %+v", all)
	}

	// Many do not fit into one message.
	for n := range 20 {
		w.have[fmt.Sprint("M", n)] = strings.Repeat("x", wire.MaxKeep/4)
	}
	if all := w.tells(); len(all) < 5 {
		t.Errorf("20 large ones are told in %d messages", len(all))
	}

	// Those that were not told are told at the end.
	w.have["Z"], w.fail = "1", transfer.Errorf(transfer.KindUnreachable, "nothing listens")
	w.tell(t.Context(), time.Second)
	w.fail = nil
	if w.End(); w.kept[wire.DefinitionName{Noun: "monitor", Key: "Z"}] == "" {
		t.Error("the last change is lost at the end")
	}
	w.asked = nil
	if w.End(); len(w.asked) != 0 {
		t.Errorf("the end tells %+v", w.asked)
	}
}

// At the limit of coordination the agent tells first those that are gone and those that have become smaller.
func TestTellerAtTheLimit(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", wire.MaxDefinition-1024)
	for n := range wire.MaxDefinitions / wire.MaxDefinition {
		w.have[fmt.Sprint("M", n)] = large
	}
	w.tells()
	for n := range 5 {
		delete(w.have, fmt.Sprint("M", n))
		w.have[fmt.Sprint("N", n)] = large
	}
	w.tells()
	w.have["A"] = strings.Repeat("x", wire.MaxDefinitions-sizeOf(w.kept)-200)
	w.tells()
	w.have["A"], w.have["B"] = "1", w.have["A"]
	w.tells()
	for n := range 5 {
		w.have[fmt.Sprint("N", n)], w.have[fmt.Sprint("M", 5+n)] = large+strings.Repeat("x", 100*n), large[100*n:]
	}
	w.tells()
	if w.log.Len() > 0 {
		t.Errorf("the log has %s", w.log)
	}
}

// One owner with more definitions than coordination takes leaves those of the others their room.
func TestTellerDividesTheRoom(t *testing.T) {
	for name, c := range map[string]struct {
		own, size   int // definitions of ann
		least, most int // of those that are told
	}{"few": {40, 100, 40, 40}, "as many": {60, 100 << 10, 18, 20}} {
		w := newWorld(t)
		for n := range 60 {
			w.have[fmt.Sprint("EVE", n)] = strings.Repeat("x", 100<<10)
		}
		for n := range c.own {
			w.have[fmt.Sprint("Z", n)] = strings.Repeat("x", c.size)
		}
		w.tell(t.Context(), time.Second)
		own, all := 0, 0
		for key := range w.kept {
			all++
			if strings.HasPrefix(key.Key, "Z") {
				own++
			}
		}
		if own < c.least || own > c.most || all < 38 {
			t.Errorf("%s: %d of %d definitions are told, %d in all", name, own, c.own, all)
		}
	}
}

// The agent logs once that coordination refuses definitions, and coordination has the number of those that it lacks.
func TestTellerIsRefused(t *testing.T) {
	w := newWorld(t)
	w.have["A"] = "1"
	w.tells()
	w.room, w.have["B"] = sizeOf(w.kept), "1"
	for range 3 {
		if again := w.tell(t.Context(), time.Second); again != tellCompare {
			t.Errorf("it tells again after %s", again)
		}
		if len(w.kept) != 1 || w.missing != 1 {
			t.Errorf("coordination has %d definitions, and %d are missing", len(w.kept), w.missing)
		}
	}
	if n := strings.Count(w.log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log has %d warnings: %s", n, w.log)
	}
	w.room = wire.MaxDefinitions
	w.tells()
	if w.missing != 0 {
		t.Errorf("%d are missing", w.missing)
	}
}

// The agent logs once that definitions exceed the limits. Those without a reader exceed none.
func TestTellerExceedsTheLimits(t *testing.T) {
	for name, c := range map[string]struct {
		have  map[string]string
		kept  int
		lines int
	}{
		"one is too large": {map[string]string{"A": "1", "B": strings.Repeat("x", wire.MaxDefinition)}, 1, 2},
		"they fit":         {map[string]string{"A": "1", "B": "2"}, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for range 2 {
				w.have = c.have
				for range 3 {
					w.tell(t.Context(), time.Second)
				}
				if len(w.kept) != c.kept || w.missing != len(c.have)-c.kept {
					t.Errorf("coordination has %d definitions, and %d are missing", len(w.kept), w.missing)
				}
				w.have = map[string]string{"A": "1"}
				w.tell(t.Context(), time.Second)
			}
			if n := strings.Count(w.log.String(), "exceed the limits"); n != c.lines {
				t.Errorf("the log has %d lines: %s", n, w.log)
			}
		})
	}
	w := newWorld(t)
	w.have["A"] = "1"
	w.Keepers = []duty.Keeper{unowned{}}
	if _, left, err := w.definitions(); err != nil || left["monitor"] != 1 || w.log.Len() > 0 {
		t.Errorf("without a reader %d are left out, %v: %s", left["monitor"], err, w.log)
	}
}

// An unowned duty has a definition without a reader.
type unowned struct{}

func (unowned) Kept(_ *ledger.Tx, add func(wire.Definition)) error {
	add(wire.Definition{DefinitionName: wire.DefinitionName{Noun: "monitor", Key: "A"}, Shown: json.RawMessage("1")})
	return nil
}

// An agent that stops while it tells its definitions leaves their number.
func TestTellerStopsMidway(t *testing.T) {
	w := newWorld(t)
	for n := range 20 {
		w.have[fmt.Sprint("M", n)] = strings.Repeat("x", wire.MaxKeep/4)
	}
	ask := w.Ask
	w.Ask = func(ctx context.Context, data []byte, wait time.Duration) ([]byte, error) {
		if len(w.asked) == 2 {
			return nil, transfer.Errorf(transfer.KindUnreachable, "nothing listens")
		}
		return ask(ctx, data, wait)
	}
	w.tell(t.Context(), time.Second)
	if len(w.kept) == 0 || len(w.kept) == len(w.have) || w.missing != len(w.have)-len(w.kept) {
		t.Errorf("coordination has %d definitions of %d, and %d are missing", len(w.kept), len(w.have), w.missing)
	}
}

// The rights of others than the owner are not told where the agent has a sandbox.
func TestTellerWithSandbox(t *testing.T) {
	w := newWorld(t)
	w.have["A"], w.readers, w.Sandbox = "1", []transfer.Authority{transfer.AuthOperate}, true
	if all := w.tells(); len(all) != 1 || len(all[0].Put) != 1 || len(all[0].Put[0].Readers) != 0 || all[0].Put[0].Owner != "ann" || !all[0].Sandbox {
		t.Errorf("it tells %+v", all)
	}
}
