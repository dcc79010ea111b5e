package storage

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

const (
	// writeError is a part of the server's log line about a stream that it has opened and cannot write. The messages
	// can be read.
	writeError = " write error: "

	// halfBatch begins the server's log line about a batch that is in a stream in part, with its rest missing.
	halfBatch = "Failed restoring partial batch write"

	BatchesDir = "batches" // of a stream: the server keeps a batch there until all of it is stored
	HeldDir    = "batches" // of the queue manager: the same, for streams that are inspected without them

	ferryPrefix = "FERRY_" // of the names of streams that are no application queue

	MarginBytes  = 1 << 20 // that a batch leaves on the disk
	MarginInodes = 16
)

// failedCall keeps the first line about a failed system call, and every one about a batch that is half stored.
func (l *Log) failedCall(line string) {
	if half := strings.Contains(line, halfBatch); half || streams.FailedCall(line) != 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls == "" || half {
			l.calls = line
		}
	}
}

func (l *Log) failed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.calls)
}

// inconclusive returns an error if streams seem to be damaged, and a system call failed while the server read the
// store: the streams may be sound, and stay in their places.
func (x *Examination) inconclusive(damaged map[string]bool, dir string) error {
	line := x.log.failed()
	errno := streams.FailedCall(line)
	if len(damaged) == 0 || errno == 0 {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(damaged)), ", ")
	if transfer.Full(errno) {
		return transfer.Errorf(transfer.KindNoManager, "the streams %s in %s cannot be opened, the disk %s: %w", names, dir, space.Shortage(dir), errno).
			WithHint("free space on the disk; nothing in the streams is lost")
	}
	return transfer.Errorf(transfer.KindNoManager, "the streams %s in %s cannot be opened: %s: %w", names, dir, line, errno).
		WithHint("see to the disk, the permissions and the limits of this host, and start again; nothing was put aside")
}

// Staged returns the directories of batches in the store, by stream, and their bytes.
func Staged(s *Store) (dirs map[string]string, bytes uint64) {
	dirs = map[string]string{}
	names, _ := os.ReadDir(s.StreamDir(s.Cfg.Dir, "")) // a new store has none
	for _, name := range names {
		dir := filepath.Join(s.StreamDir(s.Cfg.Dir, name.Name()), BatchesDir)
		if there, err := os.ReadDir(dir); err != nil || len(there) == 0 {
			continue
		}
		dirs[name.Name()] = dir
		filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					bytes += uint64(info.Size())
				}
			}
			return nil
		})
	}
	return dirs, bytes
}

// holdBatches looks at the store without its batches if the disk has no room for them. When the server opens a stream,
// it completes a batch that is in the stream in part. If that fails, it forgets the rest, and a file would be stored
// twice in part. Such a store waits for space. A batch without a message in the stream is dropped: its sender has no
// acknowledgement, and sends it again.
func holdBatches(s *Store, opts *server.Options) error {
	held := filepath.Join(s.Cfg.Dir, HeldDir)
	if err := restoreBatches(s, held); err != nil { // a process that was killed left them
		return err
	}
	dirs, bytes := Staged(s)
	if len(dirs) == 0 || s.Cfg.Has(s.Cfg.Dir, bytes+MarginBytes, MarginInodes) {
		return nil
	}
	if err := os.MkdirAll(held, 0o700); err != nil {
		return err
	}
	for name, dir := range dirs {
		if err := os.Rename(dir, filepath.Join(held, name)); err != nil {
			return errors.Join(err, restoreBatches(s, held))
		}
	}
	x, err := s.Examine(opts, s.Cfg.Dir)
	if err != nil {
		return errors.Join(err, restoreBatches(s, held))
	}
	x.Close()
	if line := x.log.failed(); strings.Contains(line, halfBatch) {
		if err := restoreBatches(s, held); err != nil {
			return err
		}
		return transfer.Errorf(transfer.KindNoManager, "messages are half stored (%s), and the disk of %s %s: %w",
			line, s.Cfg.Dir, space.Shortage(s.Cfg.Dir), syscall.ENOSPC).
			WithHint("free " + transfer.FormatBytes(int64(bytes+MarginBytes)) + " on the disk; nothing is lost")
	}
	return os.RemoveAll(held)
}

// restoreBatches puts batches that were held back in their streams.
func restoreBatches(s *Store, held string) error {
	there, err := os.ReadDir(held)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range there {
		dir := filepath.Join(s.StreamDir(s.Cfg.Dir, d.Name()), BatchesDir)
		if err = os.RemoveAll(dir); err == nil {
			err = os.Rename(filepath.Join(held, d.Name()), dir)
		}
		if errors.Is(err, fs.ErrNotExist) { // the stream was removed
			err = os.RemoveAll(filepath.Join(held, d.Name()))
		}
		if err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(held)
}

// A room is the space of the disk that messages of application queues may take.
type room struct {
	mu    sync.Mutex
	taken uint64 // by those that are being stored
}

// Take reserves room for messages of so many bytes and of so many numbers until done is called. It returns an error of
// KindNoSpace if the disk has no such room. The server writes a batch twice. The reserve stays for the removal of
// messages, and for commands.
func (r *room) Take(s *Store, bytes, messages int) (done func(), err error) {
	need := 2 * uint64(bytes+messages*FrameBytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ShortOf(s) != "" || !s.Cfg.Has(s.Cfg.Dir, r.taken+need+MarginBytes, MarginInodes) {
		return nil, transfer.Errorf(transfer.KindNoSpace, "the disk of queue manager %s %s", s.Cfg.Name, space.Shortage(s.Cfg.Dir)).
			WithHint("it goes on as messages are taken out of queues, or as the disk gets space")
	}
	r.taken += need
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken -= need
	}, nil
}

// FrameBytes is the approximate size of a stored message beside its data.
const FrameBytes = 600
