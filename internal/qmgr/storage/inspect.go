package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// Directories of a queue manager beside the library's own store and the marks.
const (
	DamagedDir = "damaged" // streams that could not be used
	MaxDamaged = 20        // of one name
	rescueDir  = "rescue"  // a store that is being built to replace a damaged one

	InspectTimeout = 5 * time.Minute
	fetchMost      = 48 // messages at once: less than the library holds back for a reader
)

// Degraded returns a text of the losses of the store, for an hour after they were noticed. It adds a failure to write
// to the store, as long as that lasts. It returns "" for a sound store.
func (s *Store) Degraded() string {
	found := s.Findings.Text(time.Now())
	if why := s.broken.Load(); why != nil {
		return strings.TrimSuffix(*why+"; "+found, "; ")
	}
	return found
}

// Notice has the queue manager called degraded for an hour.
func (s *Store) Notice(finding string) { s.Noticed("%s", finding) }

func (s *Store) Noticed(format string, args ...any) {
	finding := fmt.Sprintf(format, args...)
	if s.Findings.Add(finding, time.Now()) {
		s.Cfg.Log.Warn("the queue manager is degraded", slog.String("error", finding))
	}
}

// Inspect examines the store before clients may use it, in a server of its own that only this process can reach. It
// reports a store that differs from its marks. It puts aside a stream that cannot be read in full. It begins a new
// stream with the readable commands: the library would lose more of the stream with every restart, also of later
// messages.
func (s *Store) Inspect(opts *server.Options) error {
	was := s.LoadMarks()
	if err := os.RemoveAll(filepath.Join(s.Cfg.Dir, rescueDir)); err != nil {
		return err
	}

	if err := s.TakeOver(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Cfg.Dir, server.JetStreamStoreDir)); errors.Is(err, fs.ErrNotExist) {
		for _, m := range was.Streams {
			if m.Last > 0 {
				s.Noticed("its store has gone: all its messages are lost")
				break
			}
		}
		return nil
	}

	if err := holdBatches(s, opts); err != nil {
		return err
	}
	x, err := s.Examine(opts, s.Cfg.Dir)
	if err == nil && len(x.readers) > 0 {
		x.Close()
		if err = s.dropReaders(x.readers); err == nil {
			x, err = s.Examine(opts, s.Cfg.Dir)
		}
	}
	if err != nil {
		return err
	}

	damaged, err := s.diagnose(opts, x, was)
	x.Close()
	if err != nil {
		return err
	}
	if err := x.inconclusive(damaged, s.Cfg.Dir); err != nil {
		return err
	}
	for name := range x.unread {
		s.Noticed("stream %s cannot be read: its messages are lost", name)
	}

	for name := range damaged {
		if err := s.swap(name); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(s.Cfg.Dir, rescueDir))
}

// diagnose reports the damage of a store, and returns the streams that cannot be read in full. It then rescues the
// readable commands.
func (s *Store) diagnose(opts *server.Options, x *Examination, was Marks) (damaged map[string]bool, err error) {
	now, err := s.marksOf(x.ns)
	if err != nil {
		return nil, err
	}

	// A power cut may take messages of StreamStore that were not synced. Their source finds that out. The stream may
	// also be too large to be read here.
	delete(now, string(streams.StreamStore))
	delete(was.Streams, string(streams.StreamStore))
	s.compare(was.Streams, now, x.unread)
	for _, line := range x.complaints {
		// A reader that has received more messages than the stream has proves a loss. That holds even after a crash,
		// which may otherwise leave a torn end.
		if was.Ended || strings.Contains(line, "past last stream sequence") {
			s.Noticed("its store is not as it was left: %s", line)
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), InspectTimeout)
	defer cancel()
	damaged = maps.Clone(x.unread)
	for name := range now {
		missing, err := x.unreadable(ctx, name)
		if err != nil {
			s.Cfg.Log.Warn("a stream could not be inspected", slog.String("stream", name), slog.Any("error", err))
		}
		if missing > 0 {
			damaged[name] = true
			s.Noticed("stream %s is damaged: %d of its messages cannot be read", name, missing)
		}
	}

	for _, stream := range streams.CommandStreams {
		if !damaged[string(stream)] || x.unread[string(stream)] {
			continue
		}
		if err := s.rescue(ctx, opts, x, stream); err != nil {
			s.Noticed("nothing could be taken over from the damaged stream %s: %v", stream, err)
		}
	}
	return damaged, nil
}

// compare compares the marks of the streams with their earlier marks, and reports losses.
func (s *Store) compare(was, now map[string]streams.Mark, unread map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		before, after := was[name], now[name]
		switch wrong := before.Lost(name, after); {
		case unread[name] || before.Last == 0:
		case after == streams.Mark{}:
			s.Noticed("stream %s has gone: all its messages are lost", name)
		case wrong != "":
			s.Noticed("%s", wrong)
		}
	}
}

// StreamDir returns the library's directory of a stream.
func (s *Store) StreamDir(dir, name string) string {
	return filepath.Join(dir, server.JetStreamStoreDir, s.AccountName, "streams", name)
}

// TakeOver gives the queues of a queue manager without a guard to the account of one with a guard: stored messages
// remain in them.
func (s *Store) TakeOver() error {
	if s.Cfg.Identity == nil {
		return nil
	}
	store := filepath.Join(s.Cfg.Dir, server.JetStreamStoreDir)
	if _, err := os.Lstat(filepath.Join(store, s.AccountName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Rename(filepath.Join(store, server.DEFAULT_GLOBAL_ACCOUNT), filepath.Join(store, s.AccountName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// swap puts a damaged stream aside and puts its rescued messages in its place.
func (s *Store) swap(name string) error {
	now := s.StreamDir(s.Cfg.Dir, name)
	aside, err := AsideOf(filepath.Join(s.Cfg.Dir, DamagedDir), name)
	if err == nil {
		err = os.Rename(now, aside)
	}
	if err != nil {
		return err
	}

	s.Cfg.Log.Warn("the queue manager has put a damaged stream aside", slog.String("stream", name), slog.String("aside", aside))
	err = os.Rename(s.StreamDir(filepath.Join(s.Cfg.Dir, rescueDir), name), now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// AsideOf returns a path in dir that does not exist, for a stream that is put aside: its name, with a number from the
// second one on. An earlier copy may hold good messages and stays.
func AsideOf(dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for n := range MaxDamaged {
		aside := filepath.Join(dir, name)
		if n > 0 {
			aside += fmt.Sprintf(".%d", n+1)
		}
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", transfer.Errorf(transfer.KindNoManager, "stream %s is damaged, and %s has %d copies of it already", name, dir, MaxDamaged).
		WithHint("move the copies elsewhere and start again")
}

// An Examination is a server that only this process can reach.
type Examination struct {
	ns *server.Server
	nc *nats.Conn
	JS jetstream.JetStream

	log        *Log
	unread     map[string]bool // streams that could not be recovered
	readers    []badReader     // that the library does not understand
	complaints []string        // of the library about its files, when it opened them
}

// Examine starts a server on the store in a directory.
func (s *Store) Examine(opts *server.Options, dir string) (*Examination, error) {
	bare := opts.Clone()
	bare.DontListen, bare.Host, bare.Port, bare.StoreDir = true, "", 0, dir
	bare.LeafNode = server.LeafNodeOpts{}
	bare.Cluster, bare.Routes = server.ClusterOpts{}, nil
	log := NewLog(s.Cfg.Log)
	ns, err := s.Run(bare, log)
	if err != nil {
		return nil, err
	}

	x := &Examination{ns: ns, log: log, unread: map[string]bool{}, complaints: log.complaints()}
	for _, e := range ns.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if e.Type == server.HealthzErrorStream && e.Account == s.AccountName && !strings.Contains(e.Error, writeError) {
			x.unread[e.Stream] = true
		}
	}

	if x.nc, err = own.Connect(ns, nats.NoReconnect(), own.Credentials(s.Cfg.Identity, false)); err == nil {
		x.JS, err = jetstream.New(x.nc, jetstream.WithDefaultTimeout(streams.APITimeout))
	}
	if err != nil {
		x.Close()
		return nil, err
	}

	for _, cfg := range streams.All {
		x.findReaders(filepath.Join(s.StreamDir(dir, cfg.Name), "obs"), cfg.Name)
	}
	return x, nil
}

// findReaders records the readers of a stream that the library cannot read: it does not use the stream because of one,
// or has left one out and refuses to make it again.
func (x *Examination) findReaders(dir, stream string) {
	st, err := x.JS.Stream(context.Background(), stream)
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && (api.ErrorCode == streams.CodeStreamOffline || api.ErrorCode == streams.CodeStreamStopped) {
		x.readers = append(x.readers, badReader{dir, "a reader of stream " + stream})
	}
	if err != nil {
		return
	}

	there, _ := os.ReadDir(dir) // a stream may have none
	for _, d := range there {
		if _, err := st.Consumer(context.Background(), d.Name()); errors.Is(err, jetstream.ErrConsumerNotFound) {
			x.readers = append(x.readers, badReader{filepath.Join(dir, d.Name()), "reader " + d.Name() + " of stream " + stream})
		}
	}
}

// A badReader is a reader, or all of a stream, that cannot be used.
type badReader struct{ dir, name string }

// dropReaders removes readers, which then begin at the start. Nothing is lost with them.
func (s *Store) dropReaders(bad []badReader) error {
	for _, r := range bad {
		s.Noticed("%s cannot be read; reading begins at the first message", r.name)
		if err := os.RemoveAll(r.dir); err != nil {
			return err
		}
	}
	return nil
}

func (x *Examination) Close() {
	if x.nc != nil {
		x.nc.Close()
	}
	x.ns.Shutdown()
	x.ns.WaitForShutdown()
}

// unreadable counts the messages of a stream that its state includes and that cannot be read.
func (x *Examination) unreadable(ctx context.Context, name string) (int, error) {
	st, err := x.JS.Stream(ctx, name)
	if err != nil {
		return 0, err
	}

	state := st.CachedInfo().State
	read := uint64(0)
	if st.CachedInfo().Config.Retention == jetstream.WorkQueuePolicy {
		err = Each(ctx, st, func(*jetstream.RawStreamMsg) error { read++; return nil })
	} else {
		read, err = count(ctx, st, state.Msgs)
	}
	if err != nil {
		return 0, err
	}

	if st, err = x.JS.Stream(ctx, name); err != nil { // some may have come of age meanwhile
		return 0, err
	}
	return int(max(min(state.Msgs, st.CachedInfo().State.Msgs), read) - read), nil
}

// Each passes the readable messages of a stream to a function, in order.
func Each(ctx context.Context, st jetstream.Stream, f func(*jetstream.RawStreamMsg) error) error {
	state := st.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; {
		m, err := st.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(">"))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && streams.FailedCall(err.Error()) != 0:
			return err
		case err != nil:
			seq++ // that one
			continue
		}
		if err := f(m); err != nil {
			return err
		}
		seq = m.Sequence + 1
	}
	return nil
}

// count reads a stream to its end and returns the number of its messages.
func count(ctx context.Context, st jetstream.Stream, want uint64) (n uint64, err error) {
	if want == 0 {
		return 0, nil
	}

	cons, err := st.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true})
	if err != nil {
		return 0, err
	}
	defer st.DeleteConsumer(ctx, cons.CachedInfo().Name)

	for n < want {
		batch, err := cons.FetchNoWait(fetchMost)
		if err != nil {
			return n, err
		}
		got := 0
		for range batch.Messages() {
			got++
		}
		n += uint64(got)
		if err := batch.Error(); err != nil || got == 0 {
			return n, err
		}
	}
	return n, nil
}

// rescue makes a store with the readable commands of a stream. Audit batches are not taken over: their senders send
// them again.
func (s *Store) rescue(ctx context.Context, opts *server.Options, from *Examination, stream streams.Stream) error {
	st, err := from.JS.Stream(ctx, string(stream))
	if err != nil {
		return err
	}

	dir := filepath.Join(s.Cfg.Dir, rescueDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	to, err := s.Examine(opts, dir)
	if err != nil {
		return err
	}
	defer to.Close()

	if _, err := to.JS.CreateStream(ctx, st.CachedInfo().Config); err != nil {
		return err
	}

	return Each(ctx, st, func(m *jetstream.RawStreamMsg) error {
		_, err := to.JS.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		return err
	})
}
