package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
)

const commandDir = "jetstream/" + server.DEFAULT_GLOBAL_ACCOUNT + "/streams/" + string(streams.StreamCommand)

// filled makes a store with five commands that are acknowledged and ten that
// are not, five events and a state, and ends its server unless it is to be left
// as a crash leaves it.
func filled(t *testing.T, crash bool) string {
	t.Helper()
	dir := t.TempDir()
	s := start(t, dir, qmgrtest.FreePort(t))
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	got, stop := consume(t, c, commands)
	for i := range 5 {
		enqueue(t, c, "ferry.command.A.me", fmt.Sprint("done ", i))
		qmgrtest.Receive(t, "a command", got)
	}
	stop()
	qmgrtest.Eventually(t, "all are acknowledged", func() bool {
		st, err := jsOf(c).Stream(t.Context(), string(streams.StreamCommand))
		return err == nil && st.CachedInfo().State.Msgs == 0
	})
	for i := range 10 {
		enqueue(t, c, "ferry.command.A.me", fmt.Sprintf("command %d %s", i, bytes.Repeat([]byte("-"), 100)))
	}
	for i := range 5 {
		enqueue(t, c, "ferry.event.A", fmt.Sprint("event ", i))
	}
	if _, err := c.SetOwner(t.Context(), "A", []byte("holder"), 0); err != nil {
		t.Fatal(err)
	}
	if !crash {
		c.Close()
		s.Shutdown()
		return dir
	}
	qmgrtest.Eventually(t, "the marks are there", func() bool { _, err := os.Stat(filepath.Join(dir, storage.MarksFile)); return err == nil })
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	s.Shutdown()
	return copied
}

// commandsLeft returns the commands that a reader gets, in order, up to one that is stored last.
func commandsLeft(t *testing.T, c *qmgr.Conn) (left []string) {
	t.Helper()
	got, stop := consume(t, c, commands)
	defer stop()
	enqueue(t, c, "ferry.command.A.me", "the last")
	for {
		m := qmgrtest.Receive(t, "the last command", got)
		if m == "the last" {
			return left
		}
		left = append(left, strings.Fields(m)[1])
	}
}

// A store that is as it was left is not called degraded, neither after an
// orderly end nor after a crash.
func TestSoundStoreIsNotDegraded(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			qmgrtest.NoLeaks(t)
			s := start(t, filled(t, crash), qmgrtest.FreePort(t))
			if d := s.Degraded(); d != "" {
				t.Errorf("degraded: %s", d)
			}
			c := connect(t, qmgr.ConnConfig{URL: s.URL()})
			if left := commandsLeft(t, c); len(left) != 10 {
				t.Errorf("the commands are %v", left)
			}
			if d := c.Facts().Degraded; d != "" {
				t.Errorf("degraded: %s", d)
			}
		})
	}
}

// Damage of a store is noticed at the next start and reported to every client that connects. The readable commands are
// still there.
func TestDamagedStoreIsNoticed(t *testing.T) {
	all := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		says   string
		left   []string // nil: not looked at
	}{
		"a flipped bit": {func(t *testing.T, dir string) { flip(t, dir, "command 3") }, "1 of its messages cannot be read", slices.Concat(all[:3], all[4:])},
		"a flipped bit, no index": {func(t *testing.T, dir string) {
			flip(t, dir, "command 3")
			must(t, os.Remove(filepath.Join(dir, commandDir, "msgs/index.db")))
		}, "went back", all[:3]},
		"a torn block": {func(t *testing.T, dir string) {
			name := block(t, dir)
			info, err := os.Stat(name)
			must(t, err)
			must(t, os.Truncate(name, info.Size()-200))
		}, "not as it was left", nil},
		"a torn description": {func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, commandDir, "meta.inf"), 10))
		}, "cannot be read", []string{}},
		"a reader that is not understood": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, commandDir, "obs", commands.Durable, "meta.inf")
			data, err := os.ReadFile(name)
			must(t, err)
			must(t, os.WriteFile(name, bytes.Replace(data, []byte(`"Created"`), []byte(`"Craated"`), 1), 0o600))
		}, "reader of stream FERRY_COMMAND cannot be read", all},
		"the state of a reader": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, commandDir, "obs", commands.Durable, "o.dat")
			data, err := os.ReadFile(name)
			must(t, err)
			data[0] ^= 1
			must(t, os.WriteFile(name, data, 0o600))
		}, "reader " + commands.Durable + " of stream FERRY_COMMAND cannot be read", all},
		"an empty index": {func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, commandDir, "msgs/index.db"), 0))
		}, "not as it was left", all},
		"no store": {func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "jetstream"))) }, "has gone", []string{}},
		"no stream": {func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, commandDir))) },
			"stream FERRY_COMMAND has gone", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			qmgrtest.NoLeaks(t)
			dir := filled(t, false)
			c.damage(t, dir)
			s := start(t, dir, qmgrtest.FreePort(t))
			conn := connect(t, qmgr.ConnConfig{URL: s.URL()})
			if d := conn.Facts().Degraded; d != s.Degraded() || !strings.Contains(d, c.says) || (d != "") != (c.says != "") {
				t.Errorf("it says %q, and %q to whoever connects; want %q", s.Degraded(), d, c.says)
			}
			if left := commandsLeft(t, conn); c.left != nil && !slices.Equal(left, c.left) {
				t.Errorf("the commands that are left are %v; want %v", left, c.left)
			}
			// Messages stored now are there after one more restart.
			conn.Close()
			s.Shutdown()
			again := start(t, dir, qmgrtest.FreePort(t))
			if d := again.Degraded(); d != "" {
				t.Errorf("after another restart it is degraded: %s", d)
			}
		})
	}
}

// A reader that is not as it was made is made anew, and so is one that another
// stands in the way of.
func TestForeignDurables(t *testing.T) {
	for name, cfg := range map[string]jetstream.ConsumerConfig{
		"another policy": {Durable: commands.Durable, FilterSubject: commands.Filter, AckPolicy: jetstream.AckExplicitPolicy, ReplayPolicy: jetstream.ReplayOriginalPolicy},
		"another name":   {Durable: "command-B", FilterSubject: commands.Filter, AckPolicy: jetstream.AckExplicitPolicy},
		"another filter": {Durable: commands.Durable, FilterSubject: "ferry.command.Z.>", AckPolicy: jetstream.AckExplicitPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			qmgrtest.NoLeaks(t)
			c := connect(t, qmgr.ConnConfig{Server: start(t, t.TempDir(), "")})
			enqueue(t, c, "ferry.command.A.me", "one")
			_, err := jsOf(c).CreateConsumer(t.Context(), string(streams.StreamCommand), cfg)
			must(t, err)
			got, _ := consume(t, c, commands)
			if m := qmgrtest.Receive(t, "the command", got); m != "one" {
				t.Errorf("got %q", m)
			}
			if d := c.Facts().Degraded; cfg.Durable == commands.Durable && cfg.FilterSubject != commands.Filter {
				if d != "" {
					t.Errorf("a filter can be mended in place, and it says %q", d)
				}
			} else if !strings.Contains(d, "not as it was made") {
				t.Errorf("it says %q", d)
			}
		})
	}
}

// A client that has stored or read messages detects that a store has lost them, independently of the queue manager's
// own marks.
func TestClientsNoticeWhatIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir, old string)
		says   string
	}{
		"emptied": {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(dir)) }, "made anew"},
		"rolled back": {func(t *testing.T, dir, old string) {
			must(t, os.RemoveAll(dir))
			must(t, os.CopyFS(dir, os.DirFS(old)))
		}, "went back"},
		"not at all": {func(*testing.T, string, string) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			qmgrtest.NoLeaks(t)
			dir, addr := filepath.Join(t.TempDir(), "qm"), qmgrtest.FreePort(t)
			s := start(t, dir, addr)
			ons := make(chan bool, 10)
			conn := connect(t, qmgr.ConnConfig{URL: s.URL(), OnConnect: func() { ons <- true }})
			qmgrtest.Receive(t, "the first OnConnect", ons)
			got, _ := consume(t, conn, commands)
			enqueue(t, conn, "ferry.command.A.me", "one")
			qmgrtest.Receive(t, "one", got)
			s.Shutdown()
			qmgrtest.Receive(t, "the loss was noticed", lost(t, conn))
			old := t.TempDir()
			must(t, os.CopyFS(old, os.DirFS(dir)))
			s = start(t, dir, addr)
			qmgrtest.Receive(t, "OnConnect", ons)
			for _, m := range []string{"two", "three"} {
				enqueue(t, conn, "ferry.command.A.me", m)
				qmgrtest.Receive(t, m, got)
			}
			if d := conn.Facts().Degraded; d != "" {
				t.Fatalf("degraded without a reason: %s", d)
			}
			s.Shutdown()
			qmgrtest.Receive(t, "the loss was noticed", lost(t, conn))
			c.damage(t, dir, old)
			start(t, dir, addr)
			qmgrtest.Receive(t, "OnConnect", ons)
			if d := conn.Facts().Degraded; !strings.Contains(d, c.says) || (d != "") != (c.says != "") {
				t.Errorf("it says %q; want %q", d, c.says)
			}
			enqueue(t, conn, "ferry.command.A.me", "four")
			for qmgrtest.Receive(t, "four", got) != "four" {
			}
		})
	}
}

func block(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, commandDir, "msgs/*.blk"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the blocks are %v, %v", names, err)
	}
	return names[0]
}

// flip changes a bit in the message that has a text.
func flip(t *testing.T, dir, text string) {
	t.Helper()
	name := block(t, dir)
	data, err := os.ReadFile(name)
	must(t, err)
	at := bytes.Index(data, []byte(text))
	if at < 0 {
		t.Fatalf("%q is not in %s", text, name)
	}
	data[at+len(text)+5] ^= 4
	must(t, os.WriteFile(name, data, 0o600))
}
