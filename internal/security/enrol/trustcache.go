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

// A TrustCache keeps the newest trust document of a connection's network. TLS then refuses the certificates that the
// document revokes, and the Judge decides by the document's rules. Without an identity there is no document, and the
// Judge refuses only the requests that the sandbox refuses.
type TrustCache struct {
	cfg   TrustCacheConfig
	self  *identity.Identity
	held  *trust.State
	judge *access.Judge

	applying sync.Mutex
	wake     chan struct{} // has one value when a published document may have been missed

	mu              sync.Mutex
	begun, answered int            // questions to the authority, and the number of the last one that was answered
	missed          map[string]int // users that the document does not list, with the number of questions that had begun then
}

// maxMissed is how many users that are not listed are asked for, until the next document.
const maxMissed = 1024

// TrustCacheConfig is the configuration of a Keeper.
type TrustCacheConfig struct {
	Conn    *qmgr.Conn
	Clock   clock.Clock
	Quiet   *quiet.Log
	Who     string        // for people: the agent, or coordination
	Sandbox *policy.Rules // nil: none
	Fold    access.Fold
	// WithoutRules has the TrustCache take trust documents, without rules. Its Judge then allows nothing.
	WithoutRules bool
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

// NewTrustCache begins with the document that was kept.
func NewTrustCache(cfg TrustCacheConfig) (*TrustCache, error) {
	k := &TrustCache{cfg: cfg, self: cfg.Conn.Identity(), wake: make(chan struct{}, 1), missed: map[string]int{}}
	if k.self == nil {
		k.judge = access.NewJudge("", cfg.Sandbox, cfg.Fold)
		return k, nil
	}

	network := k.self.Name().Network
	k.judge = access.NewJudge(network, cfg.Sandbox, cfg.Fold)
	if !cfg.WithoutRules {
		k.judge.Newer(k.newer)
	}
	kept, err := cfg.Kept(network)
	if err != nil {
		return nil, err
	}
	if k.held, err = trust.NewState(k.self.Trust(), network, trust.Form(!cfg.WithoutRules), kept); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trust document that %s has kept cannot be used: %w", cfg.Who, err)
	}
	k.apply()
	return k, nil
}

// Judge returns the Judge of the network's rules and the sandbox.
func (c *TrustCache) Judge() *access.Judge { return c.judge }

// Listen hears documents until stop, and asks for them until ctx ends. It returns once there is
// one, or when the authority is away.
func (c *TrustCache) Listen(ctx context.Context, run func(func())) (stop func(), err error) {
	if c.self == nil {
		return func() {}, nil
	}
	if stop, err = c.cfg.Conn.Subscribe(c.subject(), c.takeDocument); err != nil {
		return nil, err
	}
	first, cancel := context.WithTimeout(ctx, trustFirst)
	asked := c.ask(first)
	cancel()
	run(func() { c.askLoop(ctx, asked) })
	return stop, nil
}

// subject is where the authority publishes the documents that the TrustCache takes.
func (c *TrustCache) subject() string {
	if c.cfg.WithoutRules {
		return wire.Trust
	}
	return wire.Rules
}

// Refresh asks the authority at once for documents that were published while the connection was lost. The authority
// publishes them again only later.
func (c *TrustCache) Refresh() {
	wake.Up(c.wake)
}

// takeDocument takes a document that was published, or asked for.
func (c *TrustCache) takeDocument(m qmgr.Message) {
	network := c.self.Name().Network
	fresh, err := c.held.Take(m.Data, func(doc []byte) error { return c.cfg.Keep(network, doc) })
	if err != nil {
		c.cfg.Quiet.Dropped(m.Subject, "trust document not taken", "error", err)
	}
	if fresh {
		c.apply()
		c.mu.Lock()
		clear(c.missed)
		c.mu.Unlock()
		c.cfg.Revoked()
	}
}

// apply refuses the keys that the document revokes, and has the Judge decide by its rules.
func (c *TrustCache) apply() {
	c.applying.Lock() // of two documents the newer one is applied last
	defer c.applying.Unlock()
	d, _ := c.held.Held()
	if d == nil {
		return
	}
	keys := make([]string, len(d.Revoked))
	for n, r := range d.Revoked {
		keys[n] = r.TLS
	}
	c.self.Distrust(keys)
	c.self.Trusting(d.Roots)
	if err := c.judge.Take(d); err != nil {
		c.cfg.Quiet.Error("the network's rules are not taken; those before hold", "error", err)
	}
}

// ask asks the authority for its document.
func (c *TrustCache) ask(ctx context.Context) bool {
	c.mu.Lock()
	c.begun++
	number := c.begun
	c.mu.Unlock()
	doc, err := Client{Conn: c.cfg.Conn}.Trust(ctx)
	if err != nil || doc == nil {
		return false
	}
	c.takeDocument(qmgr.Message{Subject: c.subject(), Data: doc})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = number
	return true
}

// newer reports whether a newer document may list a user that the present one does not: a user may have been enrolled a
// moment ago. It has the authority asked, and is true until that question is answered.
func (c *TrustCache) newer(user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.missed[user]
	if known && c.answered > before || !known && len(c.missed) >= maxMissed {
		return false
	}
	if !known {
		c.missed[user] = c.begun
	}
	c.Refresh()
	return true
}

// askLoop asks again and again: a document that was published while the connection was lost is published again only
// later.
func (c *TrustCache) askLoop(ctx context.Context, asked bool) {
	pause := trustAgain
	for {
		if asked {
			pause = trustEvery
		}
		t := c.cfg.Clock.NewTimer(pause)
		select {
		case <-t.C():
		case <-c.wake:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
		asked = c.ask(ctx)
		pause = min(2*pause, trustEvery)
	}
}

// age returns the time since the authority's newest document. Without a document it is the age of the identity, which
// the authority has issued.
func (c *TrustCache) age() time.Duration {
	now := c.cfg.Clock.Now()
	if d, _ := c.held.Held(); d == nil {
		return max(now.Sub(c.self.Due().Add(-identity.RenewAt)), 0)
	}
	return c.held.Age(now)
}

// Stale is why nothing new is accepted, an error that waits; nil where it is.
func (c *TrustCache) Stale() error {
	if c.self == nil || c.age() < trust.StaleAfter {
		return nil
	}
	return transfer.Errorf(transfer.KindBusy, "%s has not heard of the network's authority for %d days and accepts nothing new", c.cfg.Who, c.age()/(24*time.Hour)).
		WithHint("start the authority: `ferry up`, or `ferry authority run`")
}

// Degraded returns a warning for users where the authority has been silent for long; empty otherwise.
func (c *TrustCache) Degraded() string {
	if c.self == nil || c.age() < trust.DegradedAfter {
		return ""
	}
	return fmt.Sprintf("nothing has been heard of the network's authority for %d days; after %d nothing new is accepted", c.age()/(24*time.Hour), trust.StaleAfter/(24*time.Hour))
}
