package agent

import (
	"context"
	"crypto/sha256"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
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

// A teller tells coordination the definitions of the agent's duties, which coordination shows while the agent is away. It
// tells the differences to those that it has told before in this run.
type teller struct {
	*core
	keepers []duty.Keeper
	changed chan struct{} // a command was obeyed

	// Of the goroutine that tells.
	mark   string // of the told definitions; "": coordination must forget the earlier ones
	told   map[wire.DefinitionName][sha256.Size]byte
	left   int // told, too
	agreed time.Time
	behind bool // something is not told
}

func newTeller(c *core, d *duties) *teller {
	return &teller{core: c, keepers: d.keepers, changed: d.changed}
}

// run tells the definitions until the agent ends.
func (t *teller) run() {
	timer := t.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.changed:
		case <-timer.C():
		}
		again := t.tell(t.ctx, tellWait)
		timer.Reset(tellPause)
		select {
		case <-t.ctx.Done():
			return
		case <-timer.C():
		}
		timer.Reset(again)
	}
}

// end tells the last change. The goroutine of run has ended.
func (t *teller) end() {
	select {
	case <-t.changed:
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
func (t *teller) tell(ctx context.Context, wait time.Duration) (again time.Duration) {
	t.behind = true
	now, left, err := t.definitions()
	if err != nil {
		t.quiet.Error("cannot read the definitions", "error", err)
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
			t.log.Debug("coordination does not take the definitions; they are told later", "error", err)
			return tellEvery
		}
	}
}

// definitions returns the present definitions, and the number of those that exceed the limits.
func (t *teller) definitions() (all []wire.Definition, left int, err error) {
	size := 0
	err = t.ledger.View(func(tx *ledger.Tx) error {
		for _, k := range t.keepers {
			if err := k.Kept(tx, func(d wire.Definition) {
				if t.cfg.Sandbox != nil {
					d.Readers = nil // coordination does not know what the sandbox leaves of their rights
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
func (t *teller) difference(now []wire.Definition, left int) *wire.Keep {
	k := &wire.Keep{Base: t.mark, Mark: randomHex(8), Left: left}
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
	case t.cfg.Clock.Now().Sub(t.agreed) < tellCompare:
		return nil
	default:
		k.Mark = t.mark
	}
	return k
}

// send sends a message, and waits for the answer.
func (t *teller) send(ctx context.Context, k *wire.Keep, wait time.Duration) error {
	if t.fenced() {
		return transfer.Errorf(transfer.KindBusy, "another instance has taken over the ledger")
	}
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskKeep, Body: wire.Marshal(k)})
	data, err := t.conn.Request(ctx, wire.AskSubject(wire.Coordination, t.cfg.Name.Token()), ask, wait)
	if err == nil {
		_, err = wire.DecodeAnswer(data)
	}
	return err
}

// take notes that coordination has taken a message.
func (t *teller) take(k *wire.Keep) {
	if k.Base == "" {
		t.told = map[wire.DefinitionName][sha256.Size]byte{}
	}
	for n := range k.Put {
		t.told[k.Put[n].DefinitionName] = sumOf(&k.Put[n])
	}
	for _, name := range k.Gone {
		delete(t.told, name)
	}
	t.mark, t.left, t.agreed = k.Mark, k.Left, t.cfg.Clock.Now()
}
