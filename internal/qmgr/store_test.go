package qmgr

import (
	"fmt"
	"testing"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// storing returns a queue manager that stores a little, and the connection of ALPHA to it.
func storing(t *testing.T, most int64) (*server.Server, *Conn) {
	s, err := server.Start(qmgrtest.Context(t), server.Config{Dir: t.TempDir(), MaxStored: most, Log: qmgrtest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s, connect(t, ConnConfig{Server: s, Name: "ALPHA"})
}

func putOn(t *testing.T, c *Conn, of *wire.StoredEpoch, n int, size int) error {
	t.Helper()
	for k := range n {
		data := make([]byte, size)
		copy(data, fmt.Sprint(k+1, " "))
		if err := StoreOf(c, "ALPHA").Put("", of.Subject(), data).Wait(qmgrtest.Context(t)); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads an epoch from a message on, in small pieces.
func readAll(t *testing.T, s *StoreAt, of wire.StoredEpoch, from uint64) (all []Stored) {
	t.Helper()
	var a Assembly
	for spent := false; !spent; {
		begin := 0
		if number, at, began := a.Position(); began {
			from, begin = number, at
		}
		var err error
		spent, err = s.Read(qmgrtest.Context(t), Reading{StoredEpoch: of, From: from, Begin: begin, Most: 20_000, Piece: 3000}, func(p Part) {
			if len(p.Data) > 3000 {
				t.Errorf("a part has %d bytes", len(p.Data))
			}
			if m, whole := a.Add(p); whole {
				all = append(all, m)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestStoreKeepsUntilTrimmed(t *testing.T) {
	_, c := storing(t, streams.MinMaxStored)
	ctx := qmgrtest.Context(t)
	alpha, beta := StoreOf(c, "ALPHA"), StoreOf(c, "BETA")
	one := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	two := one
	two.ID[0], two.Epoch = 2, 7
	for _, sh := range []wire.StoredEpoch{one, two} {
		if err := putOn(t, c, &sh, 40, 1000); err != nil {
			t.Fatal(err)
		}
	}

	v, err := beta.Incoming(ctx)
	if err != nil || len(v.Epochs) != 2 || v.Epochs[0].ID != one.ID || v.Epochs[1].Epoch != 7 || v.Epochs[0].Messages != 40 || v.Mark == "" {
		t.Fatalf("%+v, %v", v, err)
	}
	all := readAll(t, beta, two, 0)
	if len(all) != 40 || string(all[39].Data[:2]) != "40" {
		t.Fatalf("%d messages", len(all))
	}
	if err := beta.Trim(ctx, two, all[30].Number); err != nil {
		t.Fatal(err)
	}
	if left := readAll(t, beta, two, 0); len(left) != 10 || left[0].Number != all[30].Number {
		t.Fatalf("%d messages are left of two", len(left))
	}
	if left := readAll(t, beta, two, all[35].Number); len(left) != 5 {
		t.Fatalf("%d messages from the 36th on", len(left))
	}
	if left := readAll(t, beta, one, 0); len(left) != 40 {
		t.Fatalf("%d messages are left of one", len(left))
	}

	out, err := alpha.Sent(ctx, "")
	if err != nil || len(out.Epochs) != 2 || out.Epochs[0].To != "BETA" || out.Mark != v.Mark || out.Share != streams.MinMaxStored/2 || out.Used != 50*(streams.MaxStoredMessage+streams.StoredOverhead) {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := beta.Trim(ctx, one, 0); err != nil {
		t.Fatal(err)
	}
	if v, err := beta.Incoming(ctx); err != nil || len(v.Epochs) != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
}

// A purge names epochs: messages of a later epoch stay (scenario 17).
func TestStorePurgeNamesEpochs(t *testing.T) {
	_, c := storing(t, streams.MinMaxStored)
	ctx := qmgrtest.Context(t)
	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}}
	for sh.Epoch = 1; sh.Epoch <= 11; sh.Epoch++ {
		if err := putOn(t, c, &sh, 1, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := StoreOf(c, "ALPHA").Purge(ctx, "", "BETA", sh.ID, 10); err != nil {
		t.Fatal(err)
	}
	v, err := StoreOf(c, "BETA").Incoming(ctx)
	if err != nil || len(v.Epochs) != 2 || v.Epochs[0].Epoch != 10 {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestStoreIsBounded(t *testing.T) {
	_, c := storing(t, streams.MinMaxStored)
	ctx := qmgrtest.Context(t)
	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	var err error
	for err == nil {
		err = putOn(t, c, &sh, 1, streams.MaxStoredMessage)
	}
	qmgrtest.WantKind(t, err, transfer.KindNoSpace, "a quarter of its store")
	v, err := StoreOf(c, "BETA").Incoming(ctx)
	if err != nil || int64(v.Epochs[0].Messages)*streams.MaxStoredMessage > streams.MinMaxStored/4 {
		t.Errorf("%+v, %v", v, err)
	}
	for err == nil {
		sh.ID[0]++
		for err == nil || (transfer.KindOf(err) == transfer.KindNoSpace && sh.ID[0] < 6) {
			if err = putOn(t, c, &sh, 1, streams.MaxStoredMessage); err != nil {
				break
			}
		}
		if sh.ID[0] < 6 {
			err = nil
		}
	}
	qmgrtest.WantKind(t, err, transfer.KindNoSpace, "the store of the queue manager has no room: maximum ")
	qmgrtest.WantKind(t, putOn(t, c, &sh, 1, streams.MaxStoredMessage+streams.StoredOverhead+1), transfer.KindTooLarge)
	if err := StoreOf(c, "BETA").Trim(ctx, wire.StoredEpoch{From: "ALPHA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}, 0); err != nil {
		t.Fatal(err)
	}
	if err := putOn(t, c, &sh, 1, streams.MaxStoredMessage); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}

// The contents of the store outlive the queue manager, and its size follows the setting.
func TestStoreOutlivesItsManager(t *testing.T) {
	dir := t.TempDir()
	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	mark := ""
	for n, most := range []int64{streams.MinMaxStored, 2 * streams.MinMaxStored} {
		s, err := server.Start(qmgrtest.Context(t), server.Config{Dir: dir, MaxStored: most, Log: qmgrtest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, ConnConfig{Server: s, Name: "ALPHA"})
		if n == 0 {
			if err := putOn(t, c, &sh, 3, 1000); err != nil {
				t.Fatal(err)
			}
		}
		v, err := StoreOf(c, "ALPHA").Sent(qmgrtest.Context(t), "")
		if err != nil || len(v.Epochs) != 1 || v.Epochs[0].Messages != 3 || v.Share != most/2 || mark != "" && mark != v.Mark {
			t.Fatalf("%+v, %v", v, err)
		}
		mark = v.Mark
		c.Close()
		s.Shutdown()
	}
	_, err := server.Start(qmgrtest.Context(t), server.Config{Dir: dir, MaxStored: 1, Log: qmgrtest.Log(t)})
	qmgrtest.WantKind(t, err, transfer.KindUsage, "stored delivery")
}

// One agent with very many epochs does not hide those of others.
func TestStoreListIsFair(t *testing.T) {
	_, c := storing(t, streams.MinMaxStored)
	sh := wire.StoredEpoch{From: "HOSTILE", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	for n := range streams.StoreListMost + 100 {
		sh.ID[1], sh.ID[2] = byte(n>>8), byte(n)
		if err := putOn(t, c, &sh, 1, 10); err != nil {
			t.Fatal(err)
		}
	}
	sh.From, sh.ID[0] = "ALPHA", 9
	if err := putOn(t, c, &sh, 1, 10); err != nil {
		t.Fatal(err)
	}
	v, err := StoreOf(c, "BETA").Incoming(qmgrtest.Context(t))
	if err != nil || len(v.Epochs) != streams.StoreListMost {
		t.Fatalf("%d epochs, %v", len(v.Epochs), err)
	}
	for _, s := range v.Epochs {
		if s.From == "ALPHA" {
			return
		}
	}
	t.Error("ALPHA's is not there")
}
