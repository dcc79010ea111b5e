package receiver

import (
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A transfer is not silent while its stored epoch is being read, even if a message takes long. It is silent once the
// reader reads other epochs.
func TestAStoredEpochThatIsReadIsNotSilent(t *testing.T) {
	r, id, _ := resting(t)
	i := live(t, r, id)
	i.ep.Stored = true
	now := r.cfg.Clock.Now()
	i.contact.at, i.contact.noted = now, now
	silent := func(after time.Duration) bool {
		i.ep.silentAt = now
		i.due(now.Add(after))
		return !i.ep.Live
	}
	(StoredInput{r}).Comes([]wire.StoredEpoch{{From: "ALPHA", ID: id, Epoch: 1}})
	if silent(sourceSilent - time.Second) {
		t.Fatal("the transfer is taken for silent while its epoch is read")
	}
	(StoredInput{r}).Comes([]wire.StoredEpoch{{From: "ALPHA", ID: transfer.ID{9}, Epoch: 1}})
	if !silent(time.Second) {
		t.Error("the transfer keeps its slot, and another one's epoch is read")
	}
}

// A heardLate is a store of an agent that compares its ledger with coordination's log at a time set by the test.
type heardLate struct {
	Store
	compared bool
}

func (h *heardLate) Compared() bool { return h.compared }

// TestALedgerThatIsFoundToBeOlderLate begins with a stored epoch without its first message, and with a source that
// names the mark of this ledger. The source must wait until the ledger was compared with coordination's log. If the log
// shows that the ledger is an older copy, the transfer is refused; otherwise it begins again.
func TestALedgerThatIsFoundToBeOlderLate(t *testing.T) {
	for name, older := range map[string]bool{"as it was": false, "older copy": true} {
		t.Run(name, func(t *testing.T) {
			r, _, said := resting(t)
			store := &heardLate{}
			r.cfg.Store = store
			mark, err := ledger.Mark(r.cfg.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			id := transfer.NewID(time.Now()) // without a record here
			o := &wire.Open{Nonce: 1, Request: transfer.Request{ID: id}, Stored: &wire.StoredState{Epoch: 1, Ledger: mark, Last: 3}}
			answer := func() (refused bool, last wire.Kind) {
				t.Helper()
				i := r.newActor(id, "ALPHA")
				refused = i.stored.refuseUnknown(o)
				if all := said.all; len(all) > 0 {
					last = all[len(all)-1].Kind
				}
				return refused, last
			}
			if refused, kind := answer(); !refused || kind != wire.KindBusy {
				t.Errorf("before the comparison the answer is %v: %t", kind, refused)
			}
			if older {
				if err := r.cfg.Ledger.Update(func(tx *ledger.Tx) error {
					return ledger.Renumber(tx, 100, func(b []byte, _ uint64) ([]byte, error) { return b, nil })
				}); err != nil {
					t.Fatal(err)
				}
			}
			store.compared = true
			if refused, kind := answer(); refused != older || older && kind != wire.KindRefuse {
				t.Errorf("after the comparison the answer is %v: %t", kind, refused)
			}
		})
	}
}
