package qmgr

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A receipt of another queue manager is not overdue while others come of that one.
func TestReceiptsOfASlowChannel(t *testing.T) {
	r := StoreOf(nil, "ALPHA").receipts
	w, old := r.next("TWO"), time.Now().Add(-time.Minute)
	w.since = old
	r.next("TWO")
	if at := r.newest(w); at != old {
		t.Errorf("nothing has come, and the last sign is of %s", at)
	}
	r.next("ONE")
	r.take("ONE", "ferry.inbox.ALPHA.qmgr.x.3", []byte(`{"stream":"FERRY_STORE","seq":1}`))
	if at := r.newest(w); at != old {
		t.Errorf("a receipt of another queue manager is taken for a sign of this one")
	}
	r.take("TWO", "ferry.inbox.ALPHA.qmgr.x.2", []byte(`{"stream":"FERRY_STORE","seq":2}`))
	if at := r.newest(w); !at.After(old) {
		t.Errorf("a receipt has come, and the last sign is of %s", at)
	}
}

// overTCP returns the connection of ALPHA, over TCP, to a queue manager that stores a little.
func overTCP(t *testing.T) *Conn {
	t.Helper()
	s, err := server.Start(qmgrtest.Context(t), server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxStored: streams.MinMaxStored, Log: qmgrtest.Log(t)})
	must(t, err)
	t.Cleanup(s.Shutdown)
	return connect(t, ConnConfig{URL: s.URL(), Name: "ALPHA"})
}

// Stored data uses neither the control nor the data connection, in both directions: signs of life do not queue behind
// it.
func TestStoredDataHasAConnectionOfItsOwn(t *testing.T) {
	c := overTCP(t)
	alpha, ctx := StoreOf(c, "ALPHA"), qmgrtest.Context(t)
	_, err := alpha.Outgoing(ctx, "ALPHA")
	must(t, err)
	sh := wire.StoredEpoch{From: "ALPHA", To: "ALPHA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	sent := c.bulk.link.NATS().Stats().OutBytes
	must(t, putOn(t, c, &sh, 8, 100_000))
	if n := c.bulk.link.NATS().Stats().OutBytes - sent; n < 800_000 {
		t.Errorf("the connection for stored data has carried %d of 800000 bytes", n)
	}
	if all := readAll(t, alpha, sh, 0); len(all) != 8 {
		t.Fatalf("%d messages", len(all))
	}
	for _, l := range []*link.Link{c.control, c.data} {
		if s := l.NATS().Stats(); s.OutBytes > 100_000 || s.InBytes > 100_000 || l.Socket.Load().In.Load() > 100_000 {
			t.Errorf("the %s connection has carried %d bytes out and %d in", l.Role, s.OutBytes, s.InBytes)
		}
	}
}

// The bytes of a reading that have come stay when the connection is lost. The next reading begins behind them, in the
// middle of a message.
func TestAReadingGoesOnBehindWhatHasCome(t *testing.T) {
	c := overTCP(t)
	alpha, ctx := StoreOf(c, "ALPHA"), qmgrtest.Context(t)
	sh := wire.StoredEpoch{From: "ALPHA", To: "ALPHA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	const size = 200_000
	must(t, putOn(t, c, &sh, 3, size))
	var a Assembly
	var all []Stored
	got, losses := 0, 0
	for spent := false; !spent; {
		number, begin, _ := a.Position()
		var err error
		spent, err = alpha.Read(ctx, Reading{StoredEpoch: sh, From: number, Begin: begin, Most: 4 * size, Piece: 20_000}, func(p Part) {
			got += len(p.Data)
			if m, whole := a.Add(p); whole {
				all = append(all, m)
			} else if got > size/2 && losses < 3 {
				losses++
				c.bulk.link.Socket.Load().Close()
			}
		})
		if err != nil {
			qmgrtest.WantKind(t, err, transfer.KindNoManager)
			qmgrtest.Eventually(t, "the connection is there again", func() bool { _, err := c.bulk.ready(ctx); return err == nil })
		}
	}
	if len(all) != 3 || losses != 3 {
		t.Fatalf("%d messages came with %d losses", len(all), losses)
	}
	for n, m := range all {
		if len(m.Data) != size || m.Data[0] != byte('1'+n) || !bytes.Equal(m.Data[2:], make([]byte, size-2)) {
			t.Errorf("message %d is another one", n+1)
		}
	}
	if got != 3*size {
		t.Errorf("%d bytes were read of %d", got, 3*size)
	}
}

// A message that has replaced another one is read from its beginning.
func TestAssembly(t *testing.T) {
	var a Assembly
	whole := func(n uint64, size, begin int, data string) string {
		m, whole := a.Add(Part{n, size, begin, []byte(data)})
		if !whole {
			return ""
		}
		return string(m.Data)
	}
	behind := func(number uint64, begin int, began bool) {
		t.Helper()
		if n, b, is := a.Position(); is && (n != number || b != begin) || is != began {
			t.Errorf("the next reading begins at %d of %d, %v", b, n, is)
		}
	}
	behind(0, 0, false)
	if m := whole(3, 4, 0, "abcd"); m != "abcd" {
		t.Errorf("%q", m)
	}
	behind(4, 0, true)
	if m := whole(5, 4, 0, "ab"); m != "" {
		t.Errorf("%q", m)
	}
	behind(5, 2, true)
	if m := whole(5, 4, 2, "cd"); m != "abcd" {
		t.Errorf("%q", m)
	}
	whole(6, 4, 0, "ab")
	if m := whole(6, 5, 2, "xyz"); m != "" { // it has another size
		t.Errorf("%q", m)
	}
	behind(6, 0, true)
	if m := whole(9, 1, 0, "x"); m != "x" { // the one before is gone
		t.Errorf("%q", m)
	}
	behind(10, 0, true)
}

// On a fast link whole messages come, from the end of the last reading on. The reader is made again for another epoch.
func TestAReadingOfWholeMessages(t *testing.T) {
	c := overTCP(t)
	alpha, ctx := StoreOf(c, "ALPHA"), qmgrtest.Context(t)
	sh := wire.StoredEpoch{From: "ALPHA", To: "ALPHA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	other := sh
	other.ID[0] = 2
	must(t, putOn(t, c, &sh, 40, 100_000))
	must(t, putOn(t, c, &other, 3, 10))
	read := func(of wire.StoredEpoch, from uint64) (all []uint64, spent bool) {
		t.Helper()
		spent, err := alpha.Read(ctx, Reading{StoredEpoch: of, From: from, Most: wholeFrom, Piece: streams.MaxStoredMessage}, func(p Part) {
			if p.Begin != 0 || p.Size != len(p.Data) {
				t.Errorf("a part of %d bytes from %d of %d", len(p.Data), p.Begin, p.Size)
			}
			all = append(all, p.Number)
		})
		must(t, err)
		return all, spent
	}
	var all []uint64
	for spent := false; !spent; {
		next := uint64(0)
		if n := len(all); n > 0 {
			next = all[n-1] + 1
		}
		var some []uint64
		some, spent = read(sh, next)
		if len(some) > 12 {
			t.Errorf("%d messages came at once", len(some))
		}
		all = append(all, some...)
	}
	if len(all) != 40 || all[39] != 40 {
		t.Errorf("%d messages came: %d", len(all), all)
	}
	if some, _ := read(other, 0); len(some) != 3 {
		t.Errorf("of another epoch %d came", some)
	}
	if some, _ := read(sh, 30); len(some) == 0 || some[0] != 30 {
		t.Errorf("from 30 on %d came", some)
	}

	// The rest of a message that has come in part comes alone: whole messages can follow.
	n := 0
	_, err := alpha.Read(ctx, Reading{StoredEpoch: sh, From: 7, Begin: 30_000, Rest: 70_000, Most: wholeFrom, Piece: streams.MaxStoredMessage}, func(p Part) {
		if n += len(p.Data); p.Number != 7 {
			t.Errorf("a part of message %d came", p.Number)
		}
	})
	if must(t, err); n != 70_000 {
		t.Errorf("%d bytes came of the rest", n)
	}
}

// An unansweredReceipt is one that never comes.
type unansweredReceipt struct{ jetstream.PubAckFuture }

func (unansweredReceipt) Ok() <-chan *jetstream.PubAck { return nil }
func (unansweredReceipt) Err() <-chan error            { return nil }

// The wait for a receipt lasts until the link has carried the message, and 10 s longer.
func TestAReceiptIsWaitedForWhileTheMessageIsOnTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{base: &link.Base{}}
		r := &Receipt{c: c, link: &link.Link{Base: c.base}, sent: time.Now(), ack: unansweredReceipt{}}
		over := make(chan error, 1)
		go func() { over <- r.Wait(t.Context()) }()
		//house:sleep because it runs in a bubble
		time.Sleep(time.Minute)
		select {
		case err := <-over:
			t.Fatalf("while the message is on the line its receipt is given up: %v", err)
		default:
		}
		there := time.Now()
		r.link.Trip.End(r.link.Trip.Begin(), true)
		if err := <-over; err == nil {
			t.Error("a receipt came from nowhere")
		}
		if d := time.Since(there); d < storeAckWait || d > storeAckWait+2*link.QuietLook {
			t.Errorf("the receipt is given up %s after the message was there", d)
		}
	})
}
