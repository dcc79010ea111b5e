// Package teller tells coordination the definitions of an agent's duties. Coordination shows them while the agent is away.
package teller

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of the definitions that an agent tells.
const (
	tellEvery   = 30 * time.Second // between two comparisons of the definitions with the told ones
	tellPause   = time.Second      // between two of them at least
	tellCompare = 10 * time.Minute // after which coordination is asked whether it has them still
	tellWait    = 5 * time.Second  // for coordination's answer
	tellEnd     = time.Second      // the same, where the agent ends
)

// Config is the configuration of a Teller.
type Config struct {
	Ask     func(ctx context.Context, ask []byte, wait time.Duration) ([]byte, error) // coordination, for this agent
	Ledger  *ledger.Ledger
	Keepers []duty.Keeper
	Changed chan struct{} // a command was obeyed
	Sandbox bool          // the agent has rules of its own, which coordination does not know
	Fenced  func() bool   // another instance has taken over the ledger
	Context context.Context
	Clock   clock.Clock
	Log     *slog.Logger
	Quiet   *quiet.Log
}

// A Teller tells the differences to the definitions that it has told before in this run.
type Teller struct {
	Config

	// Of the goroutine that tells.
	mark    string // of the told definitions; "": coordination must forget the earlier ones
	told    map[wire.DefinitionName]toldDefinition
	missing map[string]int // told, too
	agreed  time.Time
	behind  bool // something is not told
	refused bool // coordination has refused definitions, and the log has that
	exceeds bool // definitions exceed the limits, and the log has that
}

// A toldDefinition is a definition that coordination has.
type toldDefinition struct {
	sum  [sha256.Size]byte
	size int
}

// A present is a present definition.
type present struct {
	*wire.Definition
	toldDefinition
}

// New makes a Teller.
func New(cfg Config) *Teller { return &Teller{Config: cfg} }

// Run tells the definitions until the agent ends.
func (t *Teller) Run() {
	timer := t.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.Context.Done():
			return
		case <-t.Changed:
		case <-timer.C():
		}
		again := t.tell(t.Context, tellWait)
		timer.Reset(tellPause)
		select {
		case <-t.Context.Done():
			return
		case <-timer.C():
		}
		timer.Reset(again)
	}
}

// End tells the last change. Run has returned.
func (t *Teller) End() {
	select {
	case <-t.Changed:
		t.behind = true
	default:
	}
	if t.behind {
		ctx, cancel := context.WithTimeout(context.Background(), tellEnd)
		defer cancel()
		t.tell(ctx, tellEnd)
	}
}

// tell tells the differences to the told definitions. It returns the time until the next comparison.
func (t *Teller) tell(ctx context.Context, wait time.Duration) (again time.Duration) {
	t.behind = true
	now, left, err := t.definitions()
	if err != nil {
		t.Quiet.Error("cannot read the definitions", "error", err)
		return tellEvery
	}
	for anew, few := false, false; ; {
		k := t.difference(now, left, few)
		switch {
		case k == nil && few:
			return tellCompare
		case k == nil:
			t.behind, t.refused = false, false
			return tellEvery
		}
		err := t.send(ctx, k, wait)
		switch kind := transfer.KindOf(err); {
		case err == nil:
			t.take(k)
		case kind == transfer.KindConflict && !anew:
			anew, t.mark = true, ""
		case kind == transfer.KindVersion: // an older coordination
			t.behind = false
			return tellCompare
		case kind == transfer.KindTooLarge || kind == transfer.KindMalformed:
			if !t.refused {
				t.Log.Warn("coordination refuses definitions; while this agent is away, lists do not have them", "error", err)
			}
			t.refused = true
			if k.Base == "" || few {
				return tellCompare
			}
			few = true
		default:
			t.Log.Debug("coordination does not take the definitions; they are told later", "error", err)
			return tellEvery
		}
	}
}

// definitions returns the present definitions, and by noun the number of those that are not told. It logs once that some
// exceed the limits. Where coordination has no room for all, each owner has a part of it.
func (t *Teller) definitions() (all []present, left map[string]int, err error) {
	all, left, exceed, of, err := t.within(wire.MaxDefinitions)
	if part := partOf(of); err == nil && part < wire.MaxDefinitions {
		all, left, exceed, _, err = t.within(part)
	}
	if err != nil {
		return nil, nil, err
	}
	if exceed > 0 && !t.exceeds {
		t.Log.Warn("definitions exceed the limits of coordination; while this agent is away, lists do not have them",
			"definitions", exceed, "limit", wire.MaxDefinition, "limit_of_all", wire.MaxDefinitions)
	}
	t.exceeds = exceed > 0
	return all, left, nil
}

// partOf returns the bytes that each owner may have, so that all have room: those that have less leave it to the
// others. of has the bytes of all definitions of each.
func partOf(of map[string]int) int {
	room, owners := wire.MaxDefinitions, len(of)
	for _, size := range slices.Sorted(maps.Values(of)) {
		if part := room / owners; size > part {
			return part
		}
		room -= size
		owners--
	}
	return wire.MaxDefinitions
}

// within returns the present definitions, so many bytes of each owner at most, and by noun the number of those that are
// not told. exceed is the number of those that are too large, and of has the bytes of the others of each owner.
func (t *Teller) within(each int) (all []present, left map[string]int, exceed int, of map[string]int, err error) {
	size, told := 0, map[string]int{} // told is by owner
	left, of = map[string]int{}, map[string]int{}
	err = t.Ledger.View(func(tx *ledger.Tx) error {
		for _, k := range t.Keepers {
			if err := k.Kept(tx, func(d wire.Definition) {
				if t.Sandbox {
					d.Readers = nil // the sandbox may narrow their rights
				}
				is := toldOf(&d)
				if d.Owner == "" && d.Readers == nil {
					left[d.Noun]++
					return
				}
				if is.size <= wire.MaxDefinition {
					of[d.Owner] += is.size
				}
				if is.size > wire.MaxDefinition || told[d.Owner]+is.size > each || size+is.size > wire.MaxDefinitions {
					left[d.Noun]++
					exceed++
					return
				}
				size += is.size
				told[d.Owner] += is.size
				all = append(all, present{&d, is})
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return all, left, exceed, of, err
}

func toldOf(d *wire.Definition) toldDefinition {
	data := wire.Marshal(d)
	return toldDefinition{sha256.Sum256(data), len(data)}
}

// difference returns a message with differences to the told definitions, as many as fit; nil: there are none. Those that
// are gone come first, and those that grow most last: coordination needs the room. The message counts the definitions that
// coordination does not have then, or not in their present form. With few it has no definitions: coordination has
// refused them.
func (t *Teller) difference(now []present, left map[string]int, few bool) *wire.Keep {
	k := &wire.Keep{Base: t.mark, Mark: newMark(), Missing: maps.Clone(left), Sandbox: t.Sandbox}
	told := t.told
	if t.mark == "" {
		told = nil
	}
	there := make(map[wire.DefinitionName]bool, len(now))
	for n := range now {
		there[now[n].DefinitionName] = true
	}
	size, full := 0, false
	fits := func(more int) bool {
		full = full || size > 0 && size+more > wire.MaxKeep
		if !full {
			size += more
		}
		return !full
	}
	for name := range told {
		if !there[name] && fits(len(name.Noun)+len(name.Key)+32) {
			k.Gone = append(k.Gone, name)
		}
	}
	var changes []present
	for _, is := range now {
		if told[is.DefinitionName] != is.toldDefinition {
			changes = append(changes, is)
		}
	}
	grows := func(p present) int { return p.size - told[p.DefinitionName].size }
	slices.SortStableFunc(changes, func(a, b present) int { return cmp.Compare(grows(a), grows(b)) })
	for _, c := range changes {
		if !few && fits(c.size) {
			k.Put = append(k.Put, *c.Definition)
		} else {
			k.Missing[c.Noun]++
		}
	}
	switch {
	case t.mark == "" || len(k.Put) > 0 || len(k.Gone) > 0 || !maps.Equal(k.Missing, t.missing):
	case t.Clock.Now().Sub(t.agreed) < tellCompare:
		return nil
	default:
		k.Mark = t.mark
	}
	return k
}

// send sends a message, and waits for the answer.
func (t *Teller) send(ctx context.Context, k *wire.Keep, wait time.Duration) error {
	if t.Fenced() {
		return transfer.Errorf(transfer.KindBusy, "another instance has taken over the ledger")
	}
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskKeep, Body: wire.Marshal(k)})
	data, err := t.Ask(ctx, ask, wait)
	if err == nil {
		_, err = wire.DecodeAnswer(data)
	}
	return err
}

// take notes that coordination has taken a message.
func (t *Teller) take(k *wire.Keep) {
	if k.Base == "" {
		t.told = map[wire.DefinitionName]toldDefinition{}
	}
	for n := range k.Put {
		t.told[k.Put[n].DefinitionName] = toldOf(&k.Put[n])
	}
	for _, name := range k.Gone {
		delete(t.told, name)
	}
	t.mark, t.missing, t.agreed = k.Mark, k.Missing, t.Clock.Now()
}

func newMark() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}
