package coordination

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of the definitions that coordination keeps.
const (
	allDefinitions     = 4 << 30  // bytes of all agents together; those of one are wire.MaxDefinitions
	definitionsWait    = 64       // changes that wait to be written
	definitionsOfAgent = 2        // of those, the changes of one agent
	definitionsRoom    = 64 << 20 // bytes of the disk that a copy of the database leaves free: the audit log is on it, too
)

// Times of the database of definitions.
const (
	definitionsLock  = 2 * time.Second
	definitionsPause = 2 * time.Minute // from a failure to open it to the next attempt
	definitionsStart = 2 * time.Second // that a service waits for it before it answers questions
)

// The buckets of the database of definitions. Every value is JSON, but for the empty ones and the total.
var (
	bTotal       = []byte("total")       // "size" → the sum of the sizes, and "version"
	bHeads       = []byte("heads")       // agent → definitionsHead
	bDefinitions = []byte("definitions") // agent, noun, key → wire.Definition
	bNames       = []byte("names")       // noun, key, agent → nothing
)

// A definitions keeps the last known definitions of each agent in a database. One goroutine changes it, in a transaction
// for each message. The same goroutine opens it: a large one is copied and read for minutes. A damaged database is set
// aside, and the agents tell their definitions again.
type definitions struct {
	ctx   context.Context
	file  string
	room  int64 // for all agents
	fence func() error
	tidy  func(*definitions) error // nil, or the work after each opening
	clock clock.Clock
	log   *slog.Logger
	pages cipher.AEAD // seals the positions of pages
	retry time.Time   // of the goroutine that opens it: the next attempt is not before it

	mu    sync.Mutex
	store ledger.Store // nil: it is not open
	why   error        // the reason
	wait  []waitingChange
	of    map[string]int       // how many wait, by agent
	gone  []transfer.AgentName // agents to forget, before any change that waits
	more  chan struct{}
}

// A waitingChange is a change that waits for its turn.
type waitingChange struct {
	asker string
	make  func()
}

// A definitionsHead describes the definitions of an agent.
type definitionsHead struct {
	V       int            `json:"v"`
	Mark    string         `json:"mark"`
	Told    time.Time      `json:"told"`
	Missing map[string]int `json:"missing,omitempty"` // by noun
	Sandbox bool           `json:"sandbox,omitempty"`
	Size    int64          `json:"size"` // of its definitions
}

const definitionsVersion = 1

// newDefinitions returns the definitions of a database that is not open yet. fence is nil unless several services take the
// directory over from one another.
func newDefinitions(ctx context.Context, file string, fence func() error, c clock.Clock, log *slog.Logger) *definitions {
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	pages, failed := cipher.NewGCMWithRandomNonce(block)
	if err := errors.Join(err, failed); err != nil {
		panic("coordination: positions of pages cannot be sealed: " + err.Error()) // with keys of another size alone
	}
	return &definitions{ctx: ctx, file: file, room: allDefinitions, fence: fence, clock: c, log: log, pages: pages, of: map[string]int{}, more: make(chan struct{}, 1),
		why: transfer.Errorf(transfer.KindBusy, "coordination still opens the definitions of agents").WithHint("try again in a minute")}
}

// open opens the database, unless it is open, or could not be opened a short time ago. Only the goroutine of run may call
// it. All else can be used meanwhile.
func (d *definitions) open() (ledger.Store, error) {
	if store, why := d.opened(); store != nil || d.clock.Now().Before(d.retry) {
		return store, why
	}
	store, aside, err := ledger.OpenCache(d.ctx, d.file, ledger.CacheOptions{Lock: definitionsLock, Begin: beginDefinitions, Fence: d.fence, Room: definitionsRoom, Log: d.log})
	if aside != nil {
		d.log.Warn("the definitions of agents were set aside; each agent tells its own again when it is up", "path", d.file+ledger.CacheAside, "error", aside)
	}
	var why error
	if err != nil {
		d.retry = d.clock.Now().Add(definitionsPause)
		why = transfer.Errorf(transfer.KindBusy, "coordination does not have the definitions of agents: %w", err)
		if d.ctx.Err() == nil {
			d.log.Warn("the definitions of agents cannot be kept", "error", err)
		}
	}
	d.mu.Lock()
	d.store, d.why = store, why
	d.mu.Unlock()
	if err == nil && d.tidy != nil {
		if err := d.tidy(d); err != nil {
			d.log.Warn("the definitions of removed agents stay until coordination starts again", "error", err)
		}
	}
	return store, why
}

// opened returns the open database.
func (d *definitions) opened() (ledger.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.store, d.why
}

// close closes the database.
func (d *definitions) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	store := d.store
	d.store, d.why = nil, transfer.Errorf(transfer.KindBusy, "coordination ends")
	if store == nil {
		return nil
	}
	return store.Close()
}

func beginDefinitions(tx ledger.StoreTx) error {
	for _, b := range [][]byte{bTotal, bHeads, bDefinitions, bNames} {
		if err := tx.Make(b); err != nil {
			return err
		}
	}
	total := tx.Bucket(bTotal)
	switch v := number(total, "version"); v {
	case definitionsVersion:
		return nil
	case 0:
		return setNumber(total, "version", definitionsVersion)
	default:
		return transfer.Errorf(transfer.KindVersion, "the definitions of agents have format %d; this version of Ferry reads %d", v, definitionsVersion)
	}
}

func number(b ledger.Bucket, key string) int64 {
	if v := b.Get([]byte(key)); len(v) == 8 {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func setNumber(b ledger.Bucket, key string, n int64) error {
	return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// keyOf joins words to a key. A last word "" makes the prefix of the keys that begin with the words before it.
func keyOf(words ...string) []byte {
	var k []byte
	for n, w := range words {
		if n > 0 {
			k = append(k, 0)
		}
		k = append(k, w...)
	}
	return k
}

// words takes a key apart.
func words(key []byte) (first, second, third string) {
	a, rest, _ := bytes.Cut(key, []byte{0})
	b, c, _ := bytes.Cut(rest, []byte{0})
	return string(a), string(b), string(c)
}

func headOf(tx ledger.StoreTx, agent transfer.AgentName) (h definitionsHead, err error) {
	if v := tx.Bucket(bHeads).Get([]byte(agent)); v != nil {
		if err := json.Unmarshal(v, &h); err != nil {
			return h, transfer.Errorf(transfer.KindInternal, "the definitions of agent %s cannot be read: %w", agent, err)
		}
	}
	return h, nil
}

// view runs fn in a read-only transaction.
func (d *definitions) view(fn func(tx ledger.StoreTx) error) error {
	store, err := d.opened()
	if err != nil {
		return err
	}
	return store.View(fn)
}

// head returns the description of the definitions of an agent; zero: it has never told them.
func (d *definitions) head(agent transfer.AgentName) (h definitionsHead, err error) {
	err = d.view(func(tx ledger.StoreTx) error {
		h, err = headOf(tx, agent)
		return err
	})
	return h, err
}

// change makes a change that an agent has told. Only the goroutine of run may call it.
func (d *definitions) change(agent transfer.AgentName, k *wire.Keep, now time.Time) error {
	store, err := d.open()
	if err != nil {
		return err
	}
	same := false
	if err := store.View(func(tx ledger.StoreTx) error {
		old, err := headOf(tx, agent)
		if err == nil && k.Base != "" && k.Base != old.Mark {
			return transfer.Errorf(transfer.KindConflict, "coordination has other definitions of agent %s", agent)
		}
		same = k.Base != "" && k.Base == k.Mark && len(k.Put)+len(k.Gone) == 0 // the agent has only compared
		return err
	}); err != nil || same {
		return err
	}
	err = store.Update(func(tx ledger.StoreTx) error { return d.put(tx, agent, k, now) })
	switch transfer.KindOf(err) {
	case transfer.KindNone, transfer.KindTooLarge:
		return err
	}
	return transfer.Errorf(transfer.KindUnwritable, "the definitions of agent %s cannot be written: %w", agent, err)
}

// put makes a change in a transaction.
func (d *definitions) put(tx ledger.StoreTx, agent transfer.AgentName, k *wire.Keep, now time.Time) error {
	old, err := headOf(tx, agent)
	if err != nil {
		return err
	}
	next := definitionsHead{V: definitionsVersion, Mark: k.Mark, Told: now.UTC(), Missing: k.Missing, Sandbox: k.Sandbox, Size: old.Size}
	if k.Base == "" {
		if err := drop(tx, agent); err != nil {
			return err
		}
		next.Size = 0
	}
	all, names := tx.Bucket(bDefinitions), tx.Bucket(bNames)
	for _, gone := range k.Gone {
		key := keyOf(string(agent), gone.Noun, gone.Key)
		next.Size -= int64(len(all.Get(key)))
		if err := all.Delete(key); err != nil {
			return err
		}
		if err := names.Delete(keyOf(gone.Noun, gone.Key, string(agent))); err != nil {
			return err
		}
	}
	for n := range k.Put {
		one := &k.Put[n]
		key, data := keyOf(string(agent), one.Noun, one.Key), wire.Marshal(one)
		next.Size += int64(len(data) - len(all.Get(key)))
		if err := all.Put(key, data); err != nil {
			return err
		}
		if err := names.Put(keyOf(one.Noun, one.Key, string(agent)), nil); err != nil {
			return err
		}
	}
	if err := d.fits(tx, agent, next.Size, old.Size); err != nil {
		return err
	}
	return setHead(tx, agent, &next, old.Size)
}

// setHead sets the description of the definitions of an agent (nil: removes it), and the total.
func setHead(tx ledger.StoreTx, agent transfer.AgentName, next *definitionsHead, old int64) error {
	size, err := int64(0), error(nil)
	if next == nil {
		err = tx.Bucket(bHeads).Delete([]byte(agent))
	} else {
		size, err = next.Size, tx.Bucket(bHeads).Put([]byte(agent), wire.Marshal(next))
	}
	if err != nil || size == old {
		return err
	}
	total := tx.Bucket(bTotal)
	return setNumber(total, "size", number(total, "size")+size-old)
}

// fits returns an error of KindTooLarge where an agent would take more than its limit, or more than half of the room that
// the others leave: so no agent can take it all.
func (d *definitions) fits(tx ledger.StoreTx, agent transfer.AgentName, size, old int64) error {
	if size <= old {
		return nil
	}
	if size > wire.MaxDefinitions {
		return transfer.Errorf(transfer.KindTooLarge, "the definitions of agent %s have %d bytes; coordination keeps %d", agent, size, wire.MaxDefinitions)
	}
	others := number(tx.Bucket(bTotal), "size") - old
	if share := (d.room - others + 1) / 2; size > share {
		return transfer.Errorf(transfer.KindTooLarge, "the definitions of agent %s have %d bytes; its share is %d, half of those that other agents leave of %d",
			agent, size, share, d.room)
	}
	return nil
}

// drop removes the definitions of an agent, but not their description.
func drop(tx ledger.StoreTx, agent transfer.AgentName) error {
	all, names := tx.Bucket(bDefinitions), tx.Bucket(bNames)
	prefix := keyOf(string(agent), "")
	c := all.Cursor()
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = c.Seek(prefix) {
		_, noun, name := words(key)
		if err := names.Delete(keyOf(noun, name, string(agent))); err != nil {
			return err
		}
		if err := all.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// forget removes all definitions of an agent that was removed from the registry. Only the goroutine of run may call it.
func (d *definitions) forget(agent transfer.AgentName) error {
	store, err := d.open()
	if err != nil {
		return err
	}
	return store.Update(func(tx ledger.StoreTx) error {
		old, err := headOf(tx, agent)
		if err == nil {
			err = drop(tx, agent)
		}
		if err != nil {
			return err
		}
		return setHead(tx, agent, nil, old.Size)
	})
}

// forgetRemoved removes the definitions of the agents that were removed after they had told them last: the service ended
// before it forgot these. If the picture has the whole registry, it also removes those of all agents that are not in it.
func (d *definitions) forgetRemoved(picture *status.Picture, whole bool) error {
	var all []transfer.AgentName
	if err := d.view(func(tx ledger.StoreTx) error {
		c := tx.Bucket(bHeads).Cursor()
		for key, v := c.Seek(nil); key != nil; key, v = c.Next() {
			var h definitionsHead
			known := picture.Known(transfer.AgentName(key))
			if json.Unmarshal(v, &h) != nil || whole && !known.Known || known.Removed.After(h.Told) {
				all = append(all, transfer.AgentName(key))
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, agent := range all {
		if err := d.forget(agent); err != nil {
			return err
		}
	}
	return nil
}

// later has run call fn for an agent. It fails where too much waits already, of the agent or of all.
func (d *definitions) later(asker string, fn func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.of[asker] >= definitionsOfAgent:
		return transfer.Errorf(transfer.KindBusy, "%d changes of the definitions of %s wait already", d.of[asker], asker).WithHint("wait for their answers")
	case len(d.wait) >= definitionsWait:
		return transfer.Errorf(transfer.KindBusy, "too many agents tell their definitions at once").WithHint("tell them again in a few seconds")
	}
	d.of[asker]++
	d.wait = append(d.wait, waitingChange{asker, fn})
	wake.Up(d.more)
	return nil
}

// forgetLater has run forget an agent.
func (d *definitions) forgetLater(agent transfer.AgentName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = append(d.gone, agent)
	wake.Up(d.more)
}

// next returns the next work; nil: there is none.
func (d *definitions) next() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.gone) > 0 {
		agent := d.gone[0]
		d.gone = d.gone[1:]
		return func() {
			if err := d.forget(agent); err != nil {
				d.log.Warn("the definitions of a removed agent stay until coordination starts again", "agent", agent, "error", err)
			}
		}
	}
	if len(d.wait) == 0 {
		return nil
	}
	w := d.wait[0]
	d.wait = d.wait[1:]
	if d.of[w.asker]--; d.of[w.asker] == 0 {
		delete(d.of, w.asker)
	}
	return w.make
}

// run makes the changes, one after the other, until ctx ends. While the database is not open, run tries to open it
// after each definitionsPause.
func (d *definitions) run(ctx context.Context) {
	t := d.clock.NewTimer(definitionsPause)
	defer t.Stop()
	for {
		select {
		case <-d.more:
		case <-t.C():
			if store, _ := d.open(); store == nil {
				t.Reset(d.retry.Sub(d.clock.Now()))
			}
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			do := d.next()
			if do == nil {
				break
			}
			do()
		}
	}
}
