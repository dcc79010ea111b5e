package storage

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/quiet"
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
		if _, _, err := space.Left(s.Cfg.Dir); err != nil {
			why = "its directory cannot be used: " + err.Error()
		} else {
			space.GiveUpDir(dir)
		}
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

// disabling is a part of the server's log lines about a file that it may not write. It closes the whole store then, and
// does not open it again.
const disabling = "disabling JetStream"

func (f *failures) heard(line string) {
	of, ok := strings.CutPrefix(line, storeLine)
	ofStream := ok && strings.Contains(line, unwritten) && (strings.HasPrefix(of, streams.QueuePrefix) || strings.HasPrefix(of, ferryPrefix))
	if ofStream || strings.HasPrefix(line, notStored) || strings.Contains(line, disabling) {
		f.last.Store(&line)
	}
}

// Mend opens the store anew after a message could not be stored, as soon as its disk has space and its files may be
// written. The library keeps the first error of a file until it opens the file again. It would refuse every later
// message, whether there is space or not. After a refused permission it has no store at all.
func (s *Store) Mend(log *Log) {
	unmended, closes := quiet.New(s.Cfg.Log, nil), false
	t := time.NewTicker(reopenEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.Ending:
			return
		}
		line := log.unstored.last.Load()
		if line == nil && closes && !s.NS.JetStreamEnabled() { // it has closed the store once more, with no further line
			again := "the library has closed its store"
			line = &again
			log.unstored.last.Store(line)
		}
		if line == nil {
			MakeRoom(s, 0, 0)
			continue
		}
		closes = closes || strings.Contains(*line, disabling)
		_, staged := Staged(s)
		MakeRoom(s, reopenBytes+staged, reopenInodes)
		if why := "it cannot store messages: " + after(after(*line, "': "), disabling+": "); s.broken.Swap(&why) == nil {
			s.Cfg.Log.Warn("the queue manager is degraded", slog.String("error", why))
		}
		if !s.Cfg.Has(s.Cfg.Dir, reopenBytes+staged, reopenInodes) {
			continue
		}
		if err := s.Reopen(); err != nil {
			unmended.Warn("the queue manager's store cannot be opened anew yet", "error", err)
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

// Reopen closes the store and opens it again. Connections stay. A store with files that may not be written stays closed
// if the library has closed it: it would leave out their streams.
func (s *Store) Reopen() error {
	if !s.NS.JetStreamEnabled() {
		if err := writable(filepath.Join(s.Cfg.Dir, server.JetStreamStoreDir)); err != nil {
			return err
		}
	} else if err := s.NS.ShutdownJetStream(); err != nil {
		return err
	}
	if s.NS.JetStreamConfig() != nil {
		return errors.New("the library is still closing it")
	}
	return s.NS.EnableJetStream(&server.JetStreamConfig{StoreDir: s.Cfg.Dir, SyncAlways: true, Strict: true,
		MaxMemory: streams.MaxMemory, MaxStore: s.Cfg.MaxStore, CompressOK: true})
}

// writable opens each file beneath a directory, and returns the first error.
func writable(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}
