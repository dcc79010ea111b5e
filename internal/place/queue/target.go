package queue

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Writer stores messages in application queues, as one agent. Its errors are those of a Reader.
type Writer interface {
	Show(ctx context.Context, queue transfer.QueueName) (wire.QueueView, error)
	// Publish stores the next messages of an item and their receipt, or nothing. It stores as many messages as the
	// network carries in about a second, at least one. of is the number of messages of the item, have the expected
	// receipt, and header the header of all messages. next returns the next message, if it has no more than most bytes.
	// Publish returns the new receipt. After an error, Receipt shows whether the messages were stored.
	Publish(ctx context.Context, to wire.QueueItem, header map[string]string, have wire.QueueReceipt, of int, next func(most int) (data []byte, fits bool, err error)) (wire.QueueReceipt, error)
	// Receipt returns the receipt of the stored messages of an item, even if a consumer has taken them since.
	Receipt(ctx context.Context, of wire.QueueItem, mark string) (wire.QueueReceipt, error)
	// Settle removes the receipts of items; without items, it removes those of all items.
	Settle(ctx context.Context, queue transfer.QueueName, id transfer.ID, items []uint64) error
}

// A Target lands files in queues: each file becomes a message, or the messages of a group. An arriving file is kept in
// a directory until it is complete, and then stored.
type Target struct {
	writers func(principal string) Writer
	queues  Writer // for the agent itself
	dir     string
}

var (
	_ place.Target  = (*Target)(nil)
	_ place.Limiter = (*Target)(nil)
)

// NewTarget makes a place of queues. writers returns the Writer of a principal, or of the agent itself for "". dir is
// the agent's own; it is made when it is needed.
func NewTarget(writers func(principal string) Writer, dir string) *Target {
	return &Target{writers, writers(""), dir}
}

// Limits returns the promises that a Target does not keep, for the audit.
func (*Target) Limits() []string {
	return []string{"a file of more than 999 messages, or of more bytes than the line carries in a second, is stored in parts; the group is complete with the last one"}
}

// destOf parses a DEST.
func destOf(dest transfer.Location) (Address, error) {
	a, err := Of(dest)
	if err == nil && a.OfSource() {
		err = a.bad("options of a source, and is a DEST")
	}
	return a, err
}

// resolved parses a DEST that Resolve has resolved.
func resolved(at transfer.Resolution) (Address, error) {
	return destOf(transfer.Location{Place: at.Place, Path: at.Base})
}

func (t *Target) view(queue transfer.QueueName) (wire.QueueView, error) {
	v, err := t.queues.Show(context.Background(), queue)
	return v, waiting(err)
}

// Resolve checks that the queue exists. A queue takes any number of files, under any names.
func (t *Target) Resolve(dest transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	a, err := destOf(dest)
	if err == nil {
		err = may.Check(transfer.AuthDest, a.permitPath())
	}
	if err == nil {
		_, err = t.view(a.Queue)
	}
	if err != nil {
		return transfer.Resolution{}, err
	}
	return transfer.Resolution{Place: transfer.Queues, Base: a.Path(), Into: several}, nil
}

// Resolved checks the rights to a DEST that was resolved before.
func (t *Target) Resolved(res transfer.Resolution, may place.Permit) (transfer.Resolution, error) {
	a, err := resolved(res)
	if err == nil {
		err = may.Check(transfer.AuthDest, a.permitPath())
	}
	return res, err
}

// Ready returns nil if the queue exists.
func (t *Target) Ready(at transfer.Resolution) error {
	a, err := resolved(at)
	if err == nil {
		_, err = t.view(a.Queue)
	}
	if transfer.KindOf(err) == transfer.KindMissing {
		return transfer.Errorf(transfer.KindBusy, "there is no queue %s any more", a.Queue).WithHint("it goes on when there is one again, or cancel the transfer")
	}
	return err
}

// Free returns the bytes that the queue can still take.
func (t *Target) Free(at transfer.Resolution) (int64, error) {
	a, err := resolved(at)
	if err != nil {
		return 0, err
	}
	v, err := t.view(a.Queue)
	if err != nil || v.MaxBytes <= 0 {
		return math.MaxInt64, err
	}
	return max(0, v.MaxBytes-int64(v.Bytes)), nil
}

// Land lands files in a queue.
func (t *Target) Land(cfg place.LandConfig) place.Landing {
	l := &landing{t: t, cfg: cfg, left: new(atomic.Bool)}
	l.to, l.bad = resolved(cfg.Resolution)
	return l
}

type landing struct {
	t    *Target
	cfg  place.LandConfig
	to   Address
	bad  error        // the reason why to is invalid
	left *atomic.Bool // whether files or receipts of the transfer may be left
}

func (l *landing) At(to place.Destination) place.Landing {
	other := *l
	other.cfg.Destination = to
	other.to, other.bad = resolved(to.Resolution)
	return &other
}

// Path returns the path of the queue. The outcome of an item has its group.
func (l *landing) Path(transfer.Path) transfer.Path { return (&Address{Queue: l.to.Queue}).Path() }

// Locate refuses options that a place without names does not support.
func (l *landing) Locate(name, _ transfer.Path) (place.Location, error) {
	at := place.Location{Name: name, TempDirs: []transfer.Path{l.Path("")}}
	if words := l.cfg.IfExists; l.bad == nil && words != "" && words != transfer.IfExistsError {
		return at, transfer.Errorf(transfer.KindUsage, "--if-exists %s is for files that are there already, and the messages of the queue %s have no names", words, l.to.Queue)
	}
	return at, l.bad
}

// Look returns the path where a file would land.
func (l *landing) Look(name transfer.Path, _, size int64) (target transfer.Path, err error) {
	if _, err := l.Locate(name, ""); err != nil {
		return l.Path(name), err
	}
	return l.Path(name), l.fits(size)
}

// fits refuses a file that is larger than a message, unless it is split.
func (l *landing) fits(size int64) error {
	if l.to.Split.Any() || size <= wire.MaxQueueMessage {
		return nil
	}
	return transfer.Errorf(transfer.KindTooLarge, "a file of %d bytes is no message of the queue %s; the limit is %d", size, l.to.Queue, wire.MaxQueueMessage).
		WithHint("split it with --split-size, --split-delimiter or --split-regex")
}

// permitted checks the right of the transfer's submitter to the queue.
func (l *landing) permitted() error {
	if l.bad != nil {
		return l.bad
	}
	return l.cfg.May.Check(transfer.AuthDest, l.to.permitPath())
}

func (l *landing) Create(item uint64, s place.Staging) (place.Part, error) {
	if err := l.permitted(); err != nil {
		return nil, err
	}
	if err := l.fits(s.Size); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.t.dir, 0o700); err != nil {
		return nil, unstaged(err)
	}
	return l.open(item, os.O_CREATE|os.O_RDWR|os.O_TRUNC)
}

func (l *landing) open(item uint64, how int) (*part, error) {
	name := l.stage(item)
	f, err := os.OpenFile(filepath.Join(l.t.dir, name), how, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, transfer.Errorf(transfer.KindMissing, "the arrived data for the queue %s is gone", l.to.Queue)
	case err != nil:
		return nil, unstaged(err)
	}
	return &part{File: f, l: l, item: item, name: name}, nil
}

func (l *landing) Reopen(item uint64, s place.Staging, point []byte) (place.Part, error) {
	at, err := readPoint(point)
	if err != nil {
		return nil, err
	}
	if err := l.permitted(); err != nil {
		return nil, err
	}
	l.left.Store(true)
	p, err := l.open(item, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := p.resume(at); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Drop removes the arrived bytes of an item.
func (l *landing) Drop(item uint64, _ transfer.Path) error {
	return l.remove(l.stage(item))
}

func (l *landing) remove(name string) error {
	if err := os.Remove(filepath.Join(l.t.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unstaged(err)
	}
	return nil
}

// Holds reports whether Locate has returned a directory of temporaries: other places have absolute paths of the host.
func Holds(dir transfer.Path) bool { return strings.HasPrefix(string(dir), Prefix) }

// RemoveLeftovers removes the arrived files that were not stored, and the receipts of those that were. dirs are the queues.
func (l *landing) RemoveLeftovers(dirs []transfer.Path, some bool) error {
	if !some && !l.left.Load() {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(l.t.dir, "*-"+l.cfg.Transfer.String()+"-*"))
	for _, name := range names {
		err = errors.Join(err, l.remove(filepath.Base(name)))
	}
	var queues []transfer.QueueName
	for _, d := range dirs {
		if a, bad := Parse(d); bad == nil && !slices.Contains(queues, a.Queue) {
			queues = append(queues, a.Queue)
		}
	}
	for _, queue := range queues {
		err = errors.Join(err, l.settle(queue, nil))
	}
	return err
}

// settle removes receipts. A missing queue has none.
func (l *landing) settle(queue transfer.QueueName, items []uint64) error {
	err := l.t.queues.Settle(context.Background(), queue, l.cfg.Transfer, items)
	if transfer.KindOf(err) == transfer.KindMissing {
		return nil
	}
	return waiting(err)
}

func (l *landing) Close() error { return nil }
