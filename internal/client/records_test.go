package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Records come in as many answers as coordination likes, all of them or as many as are asked for.
func TestRecordsInSeveralAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := network(ctx, t)
	coordination := connect(wire.Coordination)
	const all, page = 10, 3
	if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		a := wire.Answer{V: wire.Version}
		ask, err := wire.DecodeAsk(m.Data)
		if err != nil {
			a.Error = transfer.AsError(err)
		} else {
			end := int(ask.Index) + page
			if ask.Limit > 0 {
				end = min(end, int(ask.Index)+ask.Limit)
			}
			for n := int(ask.Index); n < min(end, all); n++ {
				a.Records = append(a.Records, json.RawMessage(`{}`))
			}
			a.Next, a.More = int64(end), end < all
		}
		coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(a))
	}); err != nil {
		t.Fatal(err)
	}
	c := &client.Client{Conn: connect("submitter"), Clock: clock.System}
	enough := errors.New("enough")
	for limit, want := range map[int]int{0: all, 4: 4, 100: all} {
		got := 0
		if _, err := c.Records(ctx, wire.Ask{Limit: limit}, func(json.RawMessage) error {
			got++
			return nil
		}); err != nil || got != want {
			t.Errorf("with a limit of %d there are %d records, not %d: %v", limit, got, want, err)
		}
	}
	if _, err := c.Records(ctx, wire.Ask{}, func(json.RawMessage) error { return enough }); err != enough {
		t.Errorf("a caller that has enough gets %v", err)
	}
}
