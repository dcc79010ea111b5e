package transfer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/cli/output"
	"ferry/internal/client"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A transfer that cannot be repeated does not keep the others, and the first code is that of the command.
func TestRetryEach(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var tried []string
	said := 0
	one := func(id string) error {
		tried = append(tried, id)
		switch id {
		case "unknown":
			return transfer.Errorf(transfer.KindNotFound, "no such transfer")
		case "partial":
			return output.Exit(transfer.CodePartial)
		case "stop":
			stop()
			return output.Exit(130)
		}
		return nil
	}
	explain := func(error) { said++ }
	err := each(ctx, []string{"good", "partial", "unknown", "good"}, one, explain)
	if err != output.Exit(transfer.CodePartial) || said != 1 || len(tried) != 4 {
		t.Errorf("%v, %d errors explained, tried %q", err, said, tried)
	}
	if err := each(ctx, []string{"good", "good"}, one, explain); err != nil {
		t.Error(err)
	}
	tried = nil
	if err := each(ctx, []string{"stop", "good"}, one, explain); err != output.Exit(130) || !slices.Equal(tried, []string{"stop"}) {
		t.Errorf("%v after a signal, tried %q", err, tried)
	}
}

// A selection says which failures it lacks: those beyond its limit, and those that coordination has forgotten.
func TestLeftOut(t *testing.T) {
	since := time.Date(2026, 11, 1, 18, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		end  client.Listing
		want []string
	}{
		{client.Listing{}, nil},
		{client.Listing{Complete: since.Add(-time.Hour)}, nil},
		{client.Listing{Left: 3}, []string{"left out 3 transfers beyond --limit"}},
		{client.Listing{Left: 1, Complete: since.Add(time.Hour)}, []string{"left out 1 transfer beyond --limit", "transfers that ended before " + output.Stamp(since.Add(time.Hour))}},
	} {
		var out strings.Builder
		leftOut(&out, &c.end, since)
		if n := strings.Count(out.String(), "\n"); n != len(c.want) {
			t.Errorf("%+v: %d lines", c.end, n)
		}
		for _, text := range c.want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%+v: it says %q, without %q", c.end, out.String(), text)
			}
		}
	}
}

// The transfers of others take no place of a selection's limit, and are counted. The name of a user is no pattern.
func TestSelectionOfOwn(t *testing.T) {
	all := []transfer.Progress{{Principal: "bob"}, {Principal: "ann%40box%2a"}, {Principal: "ann@boxer"}, {Principal: "ann%40box%2a"}, {Principal: "bob"}, {Originator: "ann@box*"}}
	list := func(f *wire.Filter, limit int, fn func(*transfer.Progress) error) (end client.Listing, err error) {
		for n := range all {
			name, _ := transfer.ParsePath(all[n].Principal)
			if name == "" { // a record of it is still to come
				name = transfer.Path(all[n].Originator)
			}
			if f.User != "" && !audit.Like(f.User, string(name)) {
				continue
			}
			end.Sums.Transfers++
			if end.Sums.Transfers > int64(limit) {
				end.Left++
			} else if err := fn(&all[n]); err != nil {
				return end, err
			}
		}
		return end, nil
	}
	for _, c := range []struct {
		self, user  string
		limit       int
		taken, left int
		others      int64
	}{
		{"ann%40box%2a", "", 10, 2, 0, 4},
		{"ann%40box%2a", "", 2, 2, 1, 3},
		{"ann%40box%2a", "", 1, 1, 2, 3},
		{"carol", "", 10, 0, 0, 6},
		{"", "bob", 1, 1, 1, 0},
		{"", "", 10, 6, 0, 0},
	} {
		taken := 0
		end, others, err := listOwn(list, c.self, &wire.Filter{User: c.user}, c.limit, func(*transfer.Progress) { taken++ })
		if err != nil || taken != c.taken || end.Left != c.left || others != c.others {
			t.Errorf("%+v: %d are taken, %d left, %d of others, %v", c, taken, end.Left, others, err)
		}
	}
}

// Of a selection, a failure that was repeated or acknowledged meanwhile is left out with a notice, and is no error.
func TestAcknowledgeIfOpen(t *testing.T) {
	refused := transfer.Errorf(transfer.KindDenied, "eve does not have the authority operate")
	faster := transfer.Errorf(transfer.KindConflict, "it was acknowledged by carol already")
	repeated, seen := &transfer.Progress{}, &transfer.Progress{}
	repeated.Retried = true
	seen.Acknowledged = &transfer.Acknowledgement{By: "carol"}
	for name, c := range map[string]struct {
		p      *transfer.Progress
		answer error
		asks   int
		want   error
		says   string
	}{
		"open":                    {&transfer.Progress{}, nil, 1, nil, ""},
		"refused":                 {&transfer.Progress{}, refused, 1, refused, ""},
		"acknowledged since then": {&transfer.Progress{}, faster, 1, errClosed, "by carol"},
		"acknowledged before":     {seen, nil, 0, errClosed, "by carol"},
		"repeated":                {repeated, nil, 0, errClosed, "already retried"},
	} {
		var out strings.Builder
		asks := 0
		err := ifOpen(&out, c.p, func() error {
			asks++
			return c.answer
		})
		if err != c.want || asks != c.asks || (c.says == "") != (out.Len() == 0) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v after %d questions, and it says %q", name, err, asks, out.String())
		}
	}
}

// A transfer that has not ended is shown with its part of all bytes.
func TestBytesText(t *testing.T) {
	p := &transfer.Progress{State: transfer.Running, Found: transfer.Found{BytesTotal: 4 << 10, Walked: true}, Traffic: transfer.Traffic{BytesSent: 1 << 10}}
	if got := bytesText(p); got != "1.0 KiB of 4.0 KiB, 25%" {
		t.Errorf("%q", got)
	}
	p.State, p.Bytes = transfer.Successful, 4<<10
	if got := bytesText(p); got != "4.0 KiB" {
		t.Errorf("%q", got)
	}
}
