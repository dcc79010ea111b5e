package attacks

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A forger is an agent of the network with a program that is not Ferry.
type forger struct {
	*witnessed
	conn  *qmgr.Conn
	key   *witness.Key
	inbox string
	said  chan audit.Receipt
}

func (w *witnessed) forger() *forger {
	w.t.Helper()
	self := w.identity(identity.Agent, "EVE", roles.Agent)
	conn, err := w.connect(self)
	must(w.t, err)
	f := &forger{witnessed: w, conn: conn, said: make(chan audit.Receipt, 16)}
	f.key, err = witness.OpenKey(self, time.Now())
	must(w.t, err)
	f.inbox = conn.NewInbox(wire.Coordination)
	stop, err := conn.Subscribe(f.inbox, func(m qmgr.Message) {
		if r, err := audit.DecodeReceipt(m.Data); err == nil {
			f.said <- r
		}
	})
	must(w.t, err)
	w.t.Cleanup(stop)
	return f
}

// batch has records of EVE's.
func (f *forger) batch(from, to uint64) audit.Batch {
	f.t.Helper()
	b := audit.Batch{V: 1, Agent: "EVE", Incarnation: audit.FormatIncarnation(1), Floor: 1, Reply: f.inbox}
	for n := from; n <= to; n++ {
		raw, err := audit.Encode(&audit.Record{Agent: "EVE", Incarnation: b.Incarnation, N: n, Time: time.Now(), Event: audit.Warning})
		must(f.t, err)
		b.Records = append(b.Records, raw)
	}
	return b
}

// send sends a batch and returns its receipt.
func (f *forger) send(b audit.Batch) audit.Receipt {
	f.t.Helper()
	text, err := audit.EncodeBatch(&b)
	must(f.t, err)
	must(f.t, f.conn.Enqueue(f.ctx, wire.EventSubject("EVE"), "", text))
	select {
	case r := <-f.said:
		return r
	case <-f.ctx.Done():
		f.t.Fatal("nothing is said of a batch")
		panic("unreachable")
	}
}

// tell sends a question to coordination, as EVE.
func (f *forger) tell(kind wire.Kind, body any) error {
	f.t.Helper()
	data, err := f.conn.Request(f.ctx, wire.AskSubject(wire.Coordination, "EVE"), wire.Marshal(wire.Ask{V: wire.Version, Kind: kind, Body: wire.Marshal(body)}), 90*time.Second)
	must(f.t, err)
	_, err = wire.DecodeAnswer(data)
	return err
}

// TestBatchesThatAreNotSigned sends batches that the agent has not signed. They are not taken in its name, and it is
// told so.
func TestBatchesThatAreNotSigned(t *testing.T) {
	w := newWitnessed(t, "ALPHA")
	f := w.forger()
	if r := f.send(f.batch(1, 2)); r.Have != 0 || !strings.Contains(r.Refused, "not signed") {
		t.Errorf("unsigned: %+v", r)
	}
	good := f.batch(1, 2)
	good.Sign(f.key, 1)
	if r := f.send(good); r.Refused != wire.RefusedKey {
		t.Errorf("with a key that is not on record: %+v", r)
	}

	w.acts("ALPHA", 1)
	alpha := w.seen("ALPHA").Binding
	if err := f.tell(wire.AskBind, wire.Bind{Binding: alpha.Encode()}); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("another's binding: %v", err)
	}
	stolen := f.batch(1, 2)
	stolen.Sign(f.key, 1)
	stolen.Key = alpha.ID()
	if r := f.send(stolen); r.Refused != wire.RefusedKey {
		t.Errorf("with another's key: %+v", r)
	}
	if err := f.tell(wire.AskCosign, wire.Cosign{Size: 1, Line: []byte("— x AAAA\n")}); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("a cosignature of a key that is not on record: %v", err)
	}

	must(t, f.tell(wire.AskBind, wire.Bind{Binding: f.key.Binding().Encode()}))
	changed := good
	changed.Records = f.batch(1, 2).Records
	if r := f.send(changed); !strings.Contains(r.Refused, "not good") {
		t.Errorf("other records: %+v", r)
	}
	if r := f.send(good); r.Have != 2 || r.Refused != "" {
		t.Errorf("a good one: %+v", r)
	}
	line, err := f.key.Cosign(w.shown().Note, time.Now())
	must(t, err)
	if err := f.tell(wire.AskCosign, wire.Cosign{Size: 1, Line: line}); err == nil {
		t.Error("a cosignature of another checkpoint is taken")
	}
}
