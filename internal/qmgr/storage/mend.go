package storage

import (
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/space"
)

const (
	reopenEvery = time.Second
	// A disk must have these, and the bytes of the batches in progress, before the store is opened again. The reserve
	// has more: after a failed write a stream takes no removal before that.
	reopenBytes  = 4 << 20
	reopenInodes = 32

	// A disk with less space than that is full. The store needs space to remove a message, too: the reserve is removed
	// then, so that messages can be consumed.
	fullBytes  = 256 << 10
	fullInodes = 4
	reserveDir = "reserve" // of files, for inodes as well
	reserved   = 64
	partBytes  = 128 << 10
)

// MakeRoom removes the reserve if the disk is full, or has less than is needed now. It makes the reserve again when
// there is space for it and for more. Degraded reports a full disk.
func MakeRoom(s *Store, bytes, inodes uint64) {
	dir := filepath.Join(s.Cfg.Dir, reserveDir)
	switch {
	case !s.Cfg.Has(s.Cfg.Dir, max(bytes, fullBytes), max(inodes, fullInodes)):
		why := "the disk of its directory " + s.Cfg.Dir + " " + space.Shortage(s.Cfg.Dir)
		space.GiveUpDir(dir)
		if s.full.Swap(&why) == nil {
			s.Cfg.Log.Warn("the queue manager is degraded", slog.String("error", why))
		}
	case s.Cfg.Has(s.Cfg.Dir, reserved*partBytes+reopenBytes, reserved+reopenInodes) && space.ReserveDir(dir, reserved, partBytes) == nil:
		if s.full.Swap(nil) != nil {
			s.Cfg.Log.Info("the disk of the queue manager has space again", slog.String("dir", s.Cfg.Dir))
		}
	}
}

// ShortOf names the shortage of the disk at present; "" for none.
func ShortOf(s *Store) string {
	if why := s.full.Load(); why != nil {
		return *why
	}
	return ""
}

// FaultsOf joins ShortOf and Degraded.
func FaultsOf(s *Store) string { return strings.Trim(ShortOf(s)+"; "+s.Degraded(), "; ") }

// failures holds the last line of the server about a message that it could not store.
type failures struct{ last atomic.Pointer[string] }

// notStored begins the server's log line about a message that could not be stored.
const notStored = "JetStream failed to store a msg on stream"

// unwritten is a part of the server's log line about a stream that takes no write, and no removal, until it is opened
// again.
const unwritten = "] Critical write error: "

func (f *failures) heard(line string) {
	of, ok := strings.CutPrefix(line, storeLine)
	ofStream := ok && strings.Contains(line, unwritten) && (strings.HasPrefix(of, streams.QueuePrefix) || strings.HasPrefix(of, ferryPrefix))
	if ofStream || strings.HasPrefix(line, notStored) {
		f.last.Store(&line)
	}
}

// Mend opens the store anew after a message could not be stored, as soon as its disk has space. The library keeps the
// first error of a file until it opens the file again. It would refuse every later message, whether there is space or
// not.
func (s *Store) Mend(log *Log) {
	t := time.NewTicker(reopenEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.Ending:
			return
		}
		line := log.unstored.last.Load()
		if line == nil {
			MakeRoom(s, 0, 0)
			continue
		}
		_, staged := Staged(s)
		MakeRoom(s, reopenBytes+staged, reopenInodes)
		if why := "it cannot store messages: " + after(*line, "': "); s.broken.Swap(&why) == nil {
			s.Cfg.Log.Warn("the queue manager is degraded", slog.String("error", why))
		}
		if !s.Cfg.Has(s.Cfg.Dir, reopenBytes+staged, reopenInodes) {
			continue
		}
		if err := s.Reopen(); err != nil {
			s.Cfg.Log.Warn("the queue manager's store cannot be opened anew yet", slog.Any("error", err))
			continue
		}
		log.unstored.last.CompareAndSwap(line, nil)
		if log.unstored.last.Load() == nil {
			s.broken.Store(nil)
			s.Cfg.Log.Info("the queue manager stores messages again")
		}
	}
}

func after(s, sep string) string {
	if _, rest, ok := strings.Cut(s, sep); ok {
		return rest
	}
	return s
}

// Reopen closes the store and opens it again. Connections stay.
func (s *Store) Reopen() error {
	if err := s.NS.ShutdownJetStream(); err != nil {
		return err
	}
	return s.NS.EnableJetStream(&server.JetStreamConfig{StoreDir: s.Cfg.Dir, SyncAlways: true, Strict: true,
		MaxMemory: streams.MaxMemory, MaxStore: s.Cfg.MaxStore, CompressOK: true})
}
