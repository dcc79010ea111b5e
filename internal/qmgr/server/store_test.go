package server

import (
	"context"
	"encoding/json"
	"testing"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An errand on the store affects only the asker's own part.
func TestStoreErrandsAreOnesOwn(t *testing.T) {
	s, c := storing(t, streams.MinMaxStored)
	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	if err := putOn(t, c, &sh, 2, 10); err != nil {
		t.Fatal(err)
	}
	ask := func(who string, task streams.StoreTask) error {
		_, err := s.answers.registrar.Do(context.Background(), who, mustMarshal(errands.Errand{V: 1, Op: errands.OpStore, Store: &task}))
		return err
	}
	for _, task := range []streams.StoreTask{
		{Do: streams.StorePurge, Peer: "BETA", ID: sh.ID, Epoch: 9}, {Do: streams.StorePurge, Peer: "ALPHA", ID: sh.ID, Epoch: 9},
		{Do: streams.StoreTrim, Peer: "ALPHA", ID: sh.ID, Epoch: 1}, {Do: streams.StoreTrim, Peer: "BETA", ID: sh.ID, Epoch: 1},
	} {
		if err := ask("GAMMA", task); err != nil {
			t.Fatal(err)
		}
	}
	for _, task := range []streams.StoreTask{{Do: streams.StorePurge, ID: sh.ID, Epoch: 9}, {Do: streams.StoreTrim, Peer: "*", ID: sh.ID}, {Do: streams.StoreTrim, Peer: ">", ID: sh.ID}, {Do: "drop", Peer: "BETA"}} {
		if ask("ALPHA", task) == nil {
			t.Errorf("%+v is done", task)
		}
	}
	qmgrtest.WantKind(t, ask("coordination", streams.StoreTask{Do: streams.StoreOutgoing}), transfer.KindDenied)
	qmgrtest.WantKind(t, ask("ann@host", streams.StoreTask{Do: streams.StoreOutgoing}), transfer.KindDenied)
	if v, err := qmgr.StoreOf(c, "BETA").Incoming(qmgrtest.Context(t)); err != nil || len(v.Epochs) != 1 || v.Epochs[0].Messages != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Messages from and for an agent are removed when it is no agent any more. Only coordination and the authority may
// order that.
func TestStoreIsClearedOfAnAgent(t *testing.T) {
	s, c := storing(t, streams.MinMaxStored)
	epoch := func(from, to transfer.AgentName) *wire.StoredEpoch {
		return &wire.StoredEpoch{From: from, To: to, ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	}
	for _, sh := range []*wire.StoredEpoch{epoch("ALPHA", "BETA"), epoch("BETA", "GAMMA"), epoch("ALPHA", "GAMMA")} {
		if err := putOn(t, c, sh, 2, 10); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(who string, tokens ...string) error {
		_, err := s.answers.registrar.Do(context.Background(), who, mustMarshal(errands.Errand{V: 1, Op: errands.OpClear, Tokens: tokens}))
		return err
	}
	for _, who := range []string{"ALPHA", "alice", "BETA"} {
		qmgrtest.WantKind(t, ask(who, "BETA"), transfer.KindDenied)
	}
	for _, token := range []string{"*", ">", "", "*.*"} {
		if ask("coordination", token) == nil {
			t.Errorf("%q is cleared", token)
		}
	}
	left := func() uint64 {
		st, err := jsOf(c).Stream(qmgrtest.Context(t), string(streams.StreamStore))
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.Msgs
	}
	if n := left(); n != 6 {
		t.Fatalf("%d messages are left", n)
	}
	if err := ask("coordination", "BETA"); err != nil {
		t.Fatal(err)
	}
	if v, err := qmgr.StoreOf(c, "GAMMA").Incoming(qmgrtest.Context(t)); err != nil || len(v.Epochs) != 1 || v.Epochs[0].From != "ALPHA" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := qmgr.ClearStored(qmgrtest.Context(t), c, "ALPHA"); err != nil || left() != 0 {
		t.Errorf("%v", err)
	}
}

func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
