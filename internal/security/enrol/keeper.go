package enrol

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/security/access"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Keeper keeps the newest trust document of a connection's network. TLS then refuses the certificates that the
// document revokes, and the Judge decides by the document's rules. Without an identity there is no document, and the
// Judge refuses only the requests that the sandbox refuses.
type Keeper struct {
	cfg   KeeperConfig
	self  *identity.Identity
	held  *trust.Holder
	judge *access.Judge

	applying sync.Mutex
	wake     chan struct{} // has one value when a published document may have been missed

	mu              sync.Mutex
	begun, answered int            // questions to the authority, and the number of the last one that was answered
	missed          map[string]int // users that the document does not list, with the number of questions that had begun then
}

// mostMissed is how many users that are not listed are asked for, until the next document.
const mostMissed = 1024

// KeeperConfig is the configuration of a Keeper.
type KeeperConfig struct {
	Conn    *qmgr.Conn
	Clock   clock.Clock
	Quiet   *quiet.Log
	Who     string        // for people: the agent, or coordination
	Sandbox *policy.Rules // nil: none
	Fold    access.Fold
	// Bare has the keeper take trust documents, without rules. Its Judge then allows nothing.
	Bare bool
	// Kept is the document that was kept for a network, nil if there is none; Keep keeps one in its
	// place, durably.
	Kept func(network string) ([]byte, error)
	Keep func(network string, doc []byte) error
	// Revoked is called when there is a newer document: connected peers may be named in it.
	Revoked func()
}

// Times of asking the authority.
const (
	trustFirst = 2 * time.Second // for a first document, before anything is decided
	trustAgain = 10 * time.Second
	trustEvery = time.Hour
)

// NewKeeper begins with the document that was kept.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	k := &Keeper{cfg: cfg, self: cfg.Conn.Identity(), wake: make(chan struct{}, 1), missed: map[string]int{}}
	if k.self == nil {
		k.judge = access.NewJudge("", cfg.Sandbox, cfg.Fold)
		return k, nil
	}

	network := k.self.Name().Network
	k.judge = access.NewJudge(network, cfg.Sandbox, cfg.Fold)
	if !cfg.Bare {
		k.judge.Newer(k.newer)
	}
	kept, err := cfg.Kept(network)
	if err != nil {
		return nil, err
	}
	if k.held, err = trust.NewHolder(k.self.Trust(), network, trust.Form(!cfg.Bare), kept); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trust document that %s has kept cannot be used: %w", cfg.Who, err)
	}
	k.apply()
	return k, nil
}

// Judge returns the Judge of the network's rules and the sandbox.
func (k *Keeper) Judge() *access.Judge { return k.judge }

// Listen hears documents until stop, and asks for them until ctx ends. It returns once there is
// one, or when the authority is away.
func (k *Keeper) Listen(ctx context.Context, run func(func())) (stop func(), err error) {
	if k.self == nil {
		return func() {}, nil
	}
	if stop, err = k.cfg.Conn.Subscribe(k.subject(), k.heard); err != nil {
		return nil, err
	}
	first, cancel := context.WithTimeout(ctx, trustFirst)
	asked := k.ask(first)
	cancel()
	run(func() { k.askLoop(ctx, asked) })
	return stop, nil
}

// subject is where the authority publishes the documents that the keeper takes.
func (k *Keeper) subject() string {
	if k.cfg.Bare {
		return wire.Trust
	}
	return wire.Rules
}

// Again asks the authority at once for documents that were published while the connection was lost. The authority
// publishes them again only later.
func (k *Keeper) Again() {
	wake.Up(k.wake)
}

// heard takes a document that was published, or asked for.
func (k *Keeper) heard(m qmgr.Message) {
	network := k.self.Name().Network
	fresh, err := k.held.Take(m.Data, func(doc []byte) error { return k.cfg.Keep(network, doc) })
	if err != nil {
		k.cfg.Quiet.Dropped(m.Subject, "trust document not taken", "error", err)
	}
	if fresh {
		k.apply()
		k.mu.Lock()
		clear(k.missed)
		k.mu.Unlock()
		k.cfg.Revoked()
	}
}

// apply refuses the keys that the document revokes, and has the Judge decide by its rules.
func (k *Keeper) apply() {
	k.applying.Lock() // of two documents the newer one is applied last
	defer k.applying.Unlock()
	d, _ := k.held.Held()
	if d == nil {
		return
	}
	keys := make([]string, len(d.Revoked))
	for n, r := range d.Revoked {
		keys[n] = r.TLS
	}
	k.self.Distrust(keys)
	k.self.Trusting(d.Roots)
	if err := k.judge.Take(d); err != nil {
		k.cfg.Quiet.Error("the network's rules are not taken; those before hold", "error", err)
	}
}

// ask asks the authority for its document.
func (k *Keeper) ask(ctx context.Context) bool {
	k.mu.Lock()
	k.begun++
	number := k.begun
	k.mu.Unlock()
	doc, err := Asker{Conn: k.cfg.Conn}.Trust(ctx)
	if err != nil || doc == nil {
		return false
	}
	k.heard(qmgr.Message{Subject: k.subject(), Data: doc})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered = number
	return true
}

// newer reports whether a newer document may list a user that the present one does not: a user may have been enrolled a
// moment ago. It has the authority asked, and is true until that question is answered.
func (k *Keeper) newer(user string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, known := k.missed[user]
	if known && k.answered > before || !known && len(k.missed) >= mostMissed {
		return false
	}
	if !known {
		k.missed[user] = k.begun
	}
	k.Again()
	return true
}

// askLoop asks again and again: a document that was published while the connection was lost is published again only
// later.
func (k *Keeper) askLoop(ctx context.Context, asked bool) {
	pause := trustAgain
	for {
		if asked {
			pause = trustEvery
		}
		t := k.cfg.Clock.NewTimer(pause)
		select {
		case <-t.C():
		case <-k.wake:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
		asked = k.ask(ctx)
		pause = min(2*pause, trustEvery)
	}
}

// age returns the time since the authority's newest document. Without a document it is the age of the identity, which
// the authority has issued.
func (k *Keeper) age() time.Duration {
	now := k.cfg.Clock.Now()
	if d, _ := k.held.Held(); d == nil {
		return max(now.Sub(k.self.Due().Add(-identity.RenewAt)), 0)
	}
	return k.held.Age(now)
}

// Stale is why nothing new is accepted, an error that waits; nil where it is.
func (k *Keeper) Stale() error {
	if k.self == nil || k.age() < trust.StaleAfter {
		return nil
	}
	return transfer.Errorf(transfer.KindBusy, "%s has not heard of the network's authority for %d days and accepts nothing new", k.cfg.Who, k.age()/(24*time.Hour)).
		WithHint("start the authority: `ferry up`, or `ferry authority run`")
}

// Degraded returns a warning for users where the authority has been silent for long; empty otherwise.
func (k *Keeper) Degraded() string {
	if k.self == nil || k.age() < trust.DegradedAfter {
		return ""
	}
	return fmt.Sprintf("nothing has been heard of the network's authority for %d days; after %d nothing new is accepted", k.age()/(24*time.Hour), trust.StaleAfter/(24*time.Hour))
}
