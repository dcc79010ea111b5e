package monitor

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// damage changes entries of the drawer.
func (b *bench) damage(keys ...string) {
	b.t.Helper()
	b.must(b.ledger.Update(func(t *ledger.Tx) error {
		for n, key := range keys {
			data := drawerOf(t).Get(key)
			if data == nil {
				b.t.Fatalf("the ledger has no %q", key)
			}
			if data = bytes.Clone(data); n%2 == 0 {
				data = data[:len(data)/2]
			} else {
				data[0] ^= 0x80
			}
			if err := drawerOf(t).Put(key, data); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestDamagedEntries: an entry of the history that cannot be read does not stop other files. The log names its file
// once. If the file still exists, it is sent again, because the entry does not show whether this version was sent.
func TestDamagedEntries(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		var log bytes.Buffer
		b.m.Log = slog.New(slog.NewTextHandler(&log, nil))
		b.create(files(), false)
		for _, name := range []string{"a", "b", "c", "gone"} {
			b.write("in/"+name, name)
		}
		pass(2 * time.Second)
		b.expect("[a:1 b:1 c:1 gone:1]")
		b.damage("h/M/a", "h/M/b", "h/M/gone")
		b.must(os.Remove(b.path("in/gone")))
		b.write("in/d", "d")
		pass(5 * time.Second)
		b.expect("[a:2 b:2 c:1 d:1 gone:1]")
		for _, name := range []string{"a", "b", "gone"} {
			if n := strings.Count(log.String(), "file="+name+" "); n != 1 {
				t.Errorf("the log names %s %d times:\n%s", name, n, log.String())
			}
		}
		if s := b.shown(); s.Problem != nil {
			t.Errorf("shown is %+v", s)
		}
		b.must(b.ledger.View(func(t *ledger.Tx) error {
			if drawerOf(t).Get("h/M/gone") != nil {
				b.t.Error("the history has the entry of a file that is gone")
			}
			return nil
		}))
	})
}

// TestDamagedFollowed: the end of a transfer is recorded even if the history is damaged.
func TestDamagedFollowed(t *testing.T) {
	for _, key := range []string{"x/", "h/M/"} {
		inBubble(t, func(t *testing.T, b *bench) {
			sends(b)
			id := b.last().ID
			name := key + "x"
			if key == "x/" {
				name = key + id.String()
			}
			b.damage(name)
			b.record(id, audit.Items, b.outcome("x", "", transfer.KindReplaced))
			b.record(id, audit.Completed)
			pass(2 * time.Second)
			b.write("in/y", "y")
			pass(2 * time.Second)
			if s := b.sent(); s["y"] != 1 {
				t.Errorf("%s: sent are %s", name, fmt.Sprint(s))
			}
		})
	}
}
