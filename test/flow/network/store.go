//go:build linux

package network

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Store returns the directory of the queue manager's store.
func (n *Network) Store() string { return n.StoreDir(QM) }

// StoreDir returns the directory of a queue manager's store.
func (n *Network) StoreDir(who string) string {
	if n.External() {
		return filepath.Join(n.State(who), "store")
	}
	return filepath.Join(n.State(who), "qm")
}

// Frozen stops a running process while it copies a directory of it, as a copy of the whole host would have it.
func (n *Network) Frozen(who, dir string) (copied string) {
	n.t.Helper()
	copied, err := os.MkdirTemp(n.dir, "copy-")
	n.must(err)
	n.Freeze(who)
	defer n.Thaw(who)
	n.Copy(dir+"/.", copied)
	return copied
}

// Copy copies files with all attributes, as cp -a does. The owner and mode of an identity must stay.
func (n *Network) Copy(from, to string) {
	n.t.Helper()
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s cannot be copied to %s: %v: %s", from, to, err, out)
	}
}

// Stored returns the number of messages of a stream, and the sequence of the newest that it ever had. Both are 0 if
// there is no such stream.
func (w *Wire) Stored(stream string) (messages, last uint64) {
	w.n.t.Helper()
	js, err := jetstream.New(w.c)
	w.n.must(err)
	s, err := js.Stream(w.n.t.Context(), stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, 0
	}
	w.n.must(err)
	return s.CachedInfo().State.Msgs, s.CachedInfo().State.LastSeq
}

// stream returns an existing stream.
func (w *Wire) stream(name string) jetstream.Stream {
	w.n.t.Helper()
	js, err := jetstream.New(w.c)
	w.n.must(err)
	s, err := js.Stream(w.n.t.Context(), name)
	w.n.must(err)
	return s
}

// Drop removes the messages of a stream on some of its subjects, as a loss would.
func (w *Wire) Drop(stream, subjects string) {
	w.n.t.Helper()
	w.n.must(w.stream(stream).Purge(w.n.t.Context(), jetstream.WithPurgeSubject(subjects)))
}

// DropFirstMessage removes the first message of a stream on some of its subjects, as a loss would.
func (w *Wire) DropFirstMessage(stream, subjects string) {
	w.n.t.Helper()
	s := w.stream(stream)
	m, err := s.GetMsg(w.n.t.Context(), 1, jetstream.WithGetMsgSubject(subjects))
	w.n.must(err)
	w.n.must(s.DeleteMsg(w.n.t.Context(), m.Sequence))
}

// Enqueue stores a message on a subject, with a message ID unless that is "". It repeats the attempt through failures
// of the queue manager. It reports whether the message was stored, and not taken for a repeat of another.
func (w *Wire) Enqueue(subject, id string, data []byte) (stored bool) {
	w.n.t.Helper()
	js, err := jetstream.New(w.c, jetstream.WithDefaultTimeout(5*time.Second))
	w.n.must(err)
	m := nats.NewMsg(subject)
	m.Data = data
	if id != "" {
		m.Header.Set(nats.MsgIdHdr, id)
	}
	w.n.UntilEvery("the queue manager takes a message", 20*time.Millisecond, func() bool {
		ack, err := js.PublishMsg(w.n.t.Context(), m)
		stored = err == nil && !ack.Duplicate
		return err == nil
	})
	return stored
}

// Window limits the memory of a stream for the IDs of its messages to a time.
func (w *Wire) Window(stream string, d time.Duration) {
	w.n.t.Helper()
	js, err := jetstream.New(w.c)
	w.n.must(err)
	s, err := js.Stream(w.n.t.Context(), stream)
	w.n.must(err)
	cfg := s.CachedInfo().Config
	cfg.Duplicates = d
	_, err = js.UpdateStream(w.n.t.Context(), cfg)
	w.n.must(err)
}

// Degraded returns the problem of the queue manager that `ferry ready` reports, and the agents that `ferry agent ls`
// shows as degraded, each with its reason.
func (n *Network) Degraded() (manager string, agents map[string]string) {
	n.t.Helper()
	if out := n.Ferry("ready").OK().Stdout; out != "" {
		_, manager, _ = strings.Cut(strings.TrimSpace(out), "degraded: ")
	}
	agents = map[string]string{}
	for _, a := range each[Agent](n, n.Ferry("agent", "ls", "--json")) {
		if a.State == "DEGRADED" {
			agents[a.Agent] = a.Reason
		}
	}
	return manager, agents
}

// Lose removes the messages of a stream with sequences in a range.
func (w *Wire) Lose(stream string, from, to uint64) {
	w.n.t.Helper()
	js, err := jetstream.New(w.c)
	w.n.must(err)
	s, err := js.Stream(w.n.t.Context(), stream)
	w.n.must(err)
	for seq := from; seq <= min(to, s.CachedInfo().State.LastSeq); seq++ {
		w.n.must(s.DeleteMsg(w.n.t.Context(), seq))
	}
}
