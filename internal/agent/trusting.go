package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"ferry/internal/identity"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/trust"
	"ferry/internal/wire"
)

// trusting keeps the newest of what the network's authority says of whom nobody may trust, in
// the ledger, and has them refused. Of an agent without an identity it does nothing.
type trusting struct {
	*core
	self *identity.Identity
	held *trust.Holder
	// revoked is told when there is a newer document: who is connected may be in it.
	revoked func()
}

// newTrusting reads what the ledger has.
func newTrusting(c *core, revoked func()) (*trusting, error) {
	t := &trusting{core: c, self: c.conn.Identity(), revoked: revoked}
	if t.self == nil {
		return t, nil
	}
	name := t.self.Name().Network
	var kept []byte
	if err := c.ledger.View(func(tx *ledger.Tx) error { kept = tx.Trust(name).Get(); return nil }); err != nil {
		return nil, err
	}
	var err error
	if t.held, err = trust.NewHolder(t.self.Trust(), name, kept); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trust document in the ledger cannot be used: %w", err)
	}
	t.apply()
	return t, nil
}

// heard takes a document that was published, or asked for.
func (t *trusting) heard(m qmgr.Message) {
	fresh, err := t.held.Take(m.Data, func(doc []byte) error {
		return t.ledger.Update(func(tx *ledger.Tx) error { return tx.Trust(t.self.Name().Network).Put(doc) })
	})
	if err != nil {
		t.quiet.Dropped(m.Subject, "trust document not taken", "error", err)
	}
	if fresh {
		t.apply()
		t.revoked()
	}
}

// apply has those refused whom the document names.
func (t *trusting) apply() {
	d, _ := t.held.Held()
	if d == nil {
		return
	}
	keys := make([]string, len(d.Revoked))
	for n, r := range d.Revoked {
		keys[n] = r.TLS
	}
	t.self.Distrust(keys)
}

// ask asks the authority for its document, until ctx of the agent ends: one that was published
// while the agent was away is published again only later.
func (t *trusting) ask() {
	question, err := json.Marshal(map[string]any{"v": 1, "op": "trust"})
	if err != nil {
		return
	}
	timer := t.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for pause := trustAgain; ; pause = min(2*pause, trustEvery) {
		select {
		case <-timer.C():
		case <-t.ctx.Done():
			return
		}
		data, err := t.conn.Request(t.ctx, wire.AskSubject(wire.Authority, t.conn.Self()), question, trustWait)
		var ans struct {
			Trust []byte `json:"trust"`
		}
		if err == nil && json.Unmarshal(data, &ans) == nil && ans.Trust != nil {
			t.heard(qmgr.Message{Subject: wire.Trust, Data: ans.Trust})
			pause = trustEvery
		}
		timer.Reset(pause)
	}
}

const (
	trustWait  = 5 * time.Second
	trustAgain = 10 * time.Second // at first, where the authority is away
	trustEvery = time.Hour
)

// age is how long nothing has been heard of the authority. Where no document was ever heard of
// it is that of the identity, which the authority has issued.
func (t *trusting) age() time.Duration {
	now := t.cfg.Clock.Now()
	if d, _ := t.held.Held(); d == nil {
		return max(now.Sub(t.self.Due().Add(-identity.RenewAt)), 0)
	}
	return t.held.Age(now)
}

// stale is why nothing new is accepted.
func (t *trusting) stale() error {
	if t.self == nil || t.age() < trust.StaleAfter {
		return nil
	}
	return transfer.Errorf(transfer.KindBusy, "%s has not heard of the network's authority for %d days and accepts nothing new", t.cfg.Name, t.age()/(24*time.Hour)).
		WithHint("start the authority: `ferry up`, or `ferry authority run`")
}

// degraded is what is said of an agent that has not heard of the authority for long.
func (t *trusting) degraded() string {
	if t.self == nil || t.age() < trust.DegradedAfter {
		return ""
	}
	return fmt.Sprintf("nothing has been heard of the network's authority for %d days; after %d nothing new is accepted", t.age()/(24*time.Hour), trust.StaleAfter/(24*time.Hour))
}
