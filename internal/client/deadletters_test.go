package client

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A request that its submitter does not wait for any more, and one with a signature that has ended, are not sent again.
// The agent would refuse them, and they would be dead letters again.
func TestTooLateForItsAgent(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	id := transfer.NewID(now)
	submit := wire.Marshal(wire.Submit{V: wire.Version, Good: transfer.Duration(time.Hour),
		Request: transfer.Request{Version: transfer.RequestVersion, ID: id, Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}})
	for name, c := range map[string]struct {
		data   []byte
		stored time.Time
		want   transfer.Kind
	}{
		"in time":    {submit, now.Add(-59 * time.Minute), transfer.KindNone},
		"undecoded":  {[]byte("?"), now.Add(-300 * time.Hour), transfer.KindNone},
		"a document": {[]byte("<request/>"), now.Add(-300 * time.Hour), transfer.KindNone},
	} {
		d := &wire.DeadLetter{ID: "0123456789abcdef", Kind: wire.DeadRequest, Stored: c.stored, Data: c.data}
		if err := tooLate(d, now); transfer.KindOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, err := wire.DecodeSubmit(submit); err == nil { // then its age counts
		d := &wire.DeadLetter{ID: "0123456789abcdef", Kind: wire.DeadRequest, Stored: now.Add(-time.Duration(s.Good) - time.Second), Data: submit}
		if err := tooLate(d, now); transfer.KindOf(err) != transfer.KindRecovery || !strings.Contains(err.Error(), "2026-11-29T11:59:59Z") {
			t.Errorf("too late: %v", err)
		}
	} else {
		t.Fatal(err)
	}
}
