// Package teller tells coordination the definitions of an agent's duties. Coordination shows them while the agent is away.
package teller

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
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
	mark   string // of the told definitions; "": coordination must forget the earlier ones
	told   map[wire.DefinitionName][sha256.Size]byte
	left   int // told, too
	agreed time.Time
	behind bool // something is not told
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
	for anew := false; ; {
		k := t.difference(now, left)
		if k == nil {
			t.behind = false
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
		default:
			t.Log.Debug("coordination does not take the definitions; they are told later", "error", err)
			return tellEvery
		}
	}
}

// definitions returns the present definitions, and the number of those that exceed the limits.
func (t *Teller) definitions() (all []wire.Definition, left int, err error) {
	size := 0
	err = t.Ledger.View(func(tx *ledger.Tx) error {
		for _, k := range t.Keepers {
			if err := k.Kept(tx, func(d wire.Definition) {
				if t.Sandbox {
					d.Readers = nil // the sandbox may narrow their rights
				}
				if n := d.Size(); d.Owner == "" && d.Readers == nil || n > wire.MaxDefinition || size+n > wire.MaxDefinitions {
					left++
				} else {
					size += n
					all = append(all, d)
				}
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return all, left, err
}

func sumOf(d *wire.Definition) [sha256.Size]byte { return sha256.Sum256(wire.Marshal(d)) }

// difference returns a message with differences to the told definitions, as many as fit; nil: there are none.
func (t *Teller) difference(now []wire.Definition, left int) *wire.Keep {
	k := &wire.Keep{Base: t.mark, Mark: newMark(), Left: left}
	told := t.told
	if t.mark == "" {
		told = nil
	}
	size, there := 0, make(map[wire.DefinitionName]bool, len(now))
	for n := range now {
		d := &now[n]
		there[d.DefinitionName] = true
		if sum, is := told[d.DefinitionName]; is && sum == sumOf(d) || size > 0 && size+d.Size() > wire.MaxKeep {
			continue
		}
		size += d.Size()
		k.Put = append(k.Put, *d)
	}
	for name := range told {
		if !there[name] && size < wire.MaxKeep {
			size += len(name.Noun) + len(name.Key) + 32
			k.Gone = append(k.Gone, name)
		}
	}
	switch {
	case t.mark == "" || len(k.Put) > 0 || len(k.Gone) > 0 || left != t.left:
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
		t.told = map[wire.DefinitionName][sha256.Size]byte{}
	}
	for n := range k.Put {
		t.told[k.Put[n].DefinitionName] = sumOf(&k.Put[n])
	}
	for _, name := range k.Gone {
		delete(t.told, name)
	}
	t.mark, t.left, t.agreed = k.Mark, k.Left, t.Clock.Now()
}

func newMark() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}
