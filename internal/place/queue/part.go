package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// stage returns the name of the file that keeps an item until it is stored.
func (l *landing) stage(item uint64) string {
	return fmt.Sprintf("%x-%s-%d", l.cfg.Generation, l.cfg.Transfer, item)
}

// unstaged converts an error of the agent's own directory to one of Ferry's kinds.
func unstaged(err error) error {
	if pe := (*os.PathError)(nil); errors.Is(err, syscall.ENOSPC) && errors.As(err, &pe) && space.NoInodes(filepath.Dir(pe.Path)) {
		return transfer.Errorf(transfer.KindNoSpace, "no inodes are left for files that arrive for queues: %w", err)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return transfer.Errorf(transfer.KindNoSpace, "there is no space for files that arrive for queues: %w", err)
	}
	return transfer.Errorf(transfer.KindUnwritable, "files that arrive for queues cannot be kept: %w", err)
}

// A part is a file that arrives for a queue.
type part struct {
	*os.File // which can be read back
	l        *landing
	item     uint64
	name     string
	at       int64
}

var _ place.Part = (*part)(nil)

// resume continues at an offset.
func (p *part) resume(at int64) error {
	info, err := p.File.Stat()
	if err != nil {
		return unstaged(err)
	}
	if info.Size() < at {
		return transfer.Errorf(transfer.KindMissing, "%d bytes had arrived for the queue %s, and %d are there", at, p.l.to.Queue, info.Size())
	}
	if err := p.File.Truncate(at); err != nil {
		return unstaged(err)
	}
	if _, err := p.File.Seek(at, 0); err != nil {
		return unstaged(err)
	}
	p.at = at
	return nil
}

func (p *part) Offset() int64 { return p.at }

// Write appends all of b, or changes nothing.
func (p *part) Write(b []byte) error {
	if !p.l.to.Split.Any() && p.at+int64(len(b)) > wire.MaxQueueMessage {
		return p.l.fits(p.at + int64(len(b)))
	}
	if _, err := p.File.WriteAt(b, p.at); err != nil {
		return unstaged(err)
	}
	p.at += int64(len(b))
	return nil
}

func (p *part) Skip(n int64) error {
	zeros := make([]byte, min(n, 64<<10))
	for ; n > 0; n -= int64(len(zeros)) {
		zeros = zeros[:min(n, int64(len(zeros)))]
		if err := p.Write(zeros); err != nil {
			return err
		}
	}
	return nil
}

// pointFormat begins a point; the offset follows as a varint.
const pointFormat = 1

func (p *part) Point() []byte {
	return binary.AppendUvarint([]byte{pointFormat}, uint64(p.at))
}

func readPoint(point []byte) (int64, error) {
	if len(point) > 1 && point[0] == pointFormat {
		if at, n := binary.Uvarint(point[1:]); n == len(point)-1 && at <= 1<<62 {
			return int64(at), nil
		}
	}
	return 0, transfer.Errorf(transfer.KindVersion, "a resume point in a queue is in a format that is not known")
}

func (p *part) Sync() error {
	if err := p.File.Sync(); err != nil {
		return unstaged(err)
	}
	return nil
}

func (p *part) Close() error {
	p.l.left.Store(true)
	return p.File.Close()
}

func (p *part) Discard() error {
	p.File.Close()
	if err := p.l.remove(p.name); err != nil {
		p.l.left.Store(true)
		return err
	}
	return nil
}
