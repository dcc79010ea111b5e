package server

import (
	"maps"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// The messages of a former member are removed, and those that wait for it. A user and an agent are told apart, and a token is
// no pattern. A user withdraws its own messages alone.
func TestQueuesAreClearedOfAMember(t *testing.T) {
	s := start(t, t.TempDir(), "")
	c := connect(t, qmgr.ConnConfig{Server: s})
	ctx := qmgrtest.Context(t)
	put := func(subjects ...string) {
		t.Helper()
		for _, subject := range subjects {
			if err := store(t, c, subject); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (all []string) {
		t.Helper()
		for _, stream := range streams.CommandStreams {
			st, err := jsOf(c).Stream(ctx, string(stream))
			if err != nil {
				t.Fatal(err)
			}
			info, err := st.Info(ctx, jetstream.WithSubjectFilter(">"))
			if err != nil {
				t.Fatal(err)
			}
			all = slices.AppendSeq(all, maps.Keys(info.State.Subjects))
		}
		slices.Sort(all)
		return all
	}
	clear := func(as, token string) error {
		_, err := s.answers.registrar.Do(ctx, as, mustMarshal(errands.Errand{V: 1, Op: errands.OpClear, Tokens: []string{token}}))
		return err
	}
	put("ferry.command.ALPHA.eve", "ferry.command.*.eve", "ferry.control.BETA.eve", "ferry.command.EVE.bob", "ferry.command.ALPHA.bob", "ferry.control.ALPHA.bob", "ferry.control.BETA.bob")
	for _, token := range []string{"", "*", ">", "e*", "a.b", ">.x", "a b"} {
		if err := clear("authority", token); err == nil {
			t.Errorf("%q is cleared", token)
		}
	}
	qmgrtest.WantKind(t, clear("eve", "bob"), transfer.KindDenied)
	must(t, clear("authority", "eve"))
	if got := left(); !slices.Equal(got, []string{"ferry.command.ALPHA.bob", "ferry.command.EVE.bob", "ferry.control.ALPHA.bob", "ferry.control.BETA.bob"}) {
		t.Errorf("left of a user are %v", got)
	}
	must(t, qmgr.ClearStored(ctx, c, "ALPHA"))
	if got := left(); !slices.Equal(got, []string{"ferry.command.EVE.bob", "ferry.control.BETA.bob"}) {
		t.Errorf("left of an agent are %v", got)
	}
	_, err := s.answers.registrar.Do(ctx, "bob", mustMarshal(errands.Errand{V: 1, Op: errands.OpStore, Store: &streams.StoreTask{Do: streams.StoreClear}}))
	must(t, err)
	if got := left(); len(got) > 0 {
		t.Errorf("left of the messages that bob has withdrawn are %v", got)
	}
}
