package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Reader reads the messages of application queues. It bounds the time of the queue manager for each step of a call; a
// call on many messages has many steps. Its errors are of KindMissing if a queue does not exist, and of KindConflict if
// it is another queue than that of a mark. Other errors wait.
type Reader interface {
	Show(ctx context.Context, queue transfer.QueueName) (wire.QueueView, error)
	// Groups returns the groups of a span, in the order of their last messages.
	Groups(ctx context.Context, of wire.QueueSpan) ([]wire.QueueGroup, error)
	Count(ctx context.Context, of wire.QueueSpan) (messages, bytes uint64, err error)
	// Reader reads the data of the messages of a span, from an offset in the first one.
	Reader(of wire.QueueSpan, offset int) wire.QueuePieces
	// Hold reserves the messages of a span for a transfer that removes them at its end, for a limited time. The error
	// is of KindBusy if some are reserved for another transfer. Renew starts the time again, and Release ends the
	// reservation.
	Hold(ctx context.Context, of wire.QueueSpan, id transfer.ID) error
	Renew(ctx context.Context, queue transfer.QueueName, id transfer.ID) error
	Release(ctx context.Context, queue transfer.QueueName, id transfer.ID) error
	// Take removes the messages of a span: all at once, unless there are others before its first one.
	Take(ctx context.Context, of wire.QueueSpan) error
}

// versionFormat begins a version; the picked messages follow as in a path.
const versionFormat = 1

// A Source presents the messages of queues as files: each source is one file.
type Source struct {
	readers func(principal string) Reader
	queues  Reader // for the principal of As
	may     place.Permit
}

var (
	_ place.Source  = (*Source)(nil)
	_ place.Deleter = (*Source)(nil)
	_ place.Waiter  = (*file)(nil)
	_ place.Carried = (*file)(nil)

	_ place.Rewinder = (*file)(nil)
	_ place.Releaser = (*Source)(nil)
)

// NewSource makes a place of queues. readers returns the Reader of a principal, or of the agent itself for "".
func NewSource(readers func(principal string) Reader) *Source {
	return &Source{readers: readers, queues: readers("")}
}

// For returns the place with the rights of a principal.
func (s *Source) For(_ transfer.Place, may place.Permit) place.Source {
	return &Source{s.readers, s.queues, may}
}

// As returns the place with calls in the name of a principal, by its token.
func (s *Source) As(principal string) *Source { return &Source{s.readers, s.readers(principal), s.may} }

// Expands reports that the messages of a queue are one file with the queue's name.
func (s *Source) Expands(transfer.Location) (several, unnamed bool) { return false, false }

// StatDir always fails: a queue is no directory.
func (s *Source) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	return 0, 0, transfer.Errorf(transfer.KindMissing, "%s is a queue, and no directory", p)
}

// Walk picks the existing messages, as one item for each source. Item.Picked selects them; the name does not. Later
// messages belong to another transfer.
func (s *Source) Walk(ctx context.Context, w place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	first := 0
	if w.After != nil {
		first = w.After.Arg + 1
	}
	for arg := first; arg < len(w.Args); arg++ {
		source, picked := w.Args[arg].Source, w.Args[arg].Picked
		a, err := Chosen(source, picked)
		if err == nil && len(w.Only) > 0 {
			if a, err = selectPicked(a, w.Only); err == nil && a.Queue == "" {
				continue
			}
		}
		if err == nil {
			err = s.await(ctx, &a)
		}
		if err == nil && !w.Taker.IsZero() {
			err = s.hold(ctx, &a, w.Taker)
		}
		it := transfer.Item{Type: transfer.ItemFile, Source: Plain(a.Path()), Picked: a.Path(), Name: transfer.Path(a.Queue), Size: a.size(), Arg: arg}
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case transfer.KindOf(err).Waits():
			return 0, err
		case err != nil:
			it = transfer.Item{Type: transfer.ItemBad, Source: source.Path, Picked: picked, Arg: arg, Err: transfer.AsError(err)}
		}
		if it.Picked == it.Source {
			it.Picked = ""
		}
		if err := emit(it); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// hold reserves the picked messages for a transfer. Some may have been taken since they were picked.
func (s *Source) hold(ctx context.Context, a *Address, id transfer.ID) error {
	if err := s.queues.Hold(ctx, a.span(), id); err != nil {
		return waiting(err)
	}
	n, bytes, err := s.queues.Count(ctx, a.span())
	if err != nil {
		return waiting(err)
	}
	if n != a.Picked.Messages || bytes != a.Picked.Bytes {
		return transfer.Errorf(transfer.KindBusy, "another reader takes messages out of the queue %s at the same time", a.Queue)
	}
	return nil
}

// Renew extends the reservation of messages for a transfer with these sources, if it still exists.
func (s *Source) Renew(id transfer.ID, sources []transfer.Path) error {
	return each(sources, id, s.queues.Renew)
}

// Release ends the reservation of messages for a transfer with these sources.
func (s *Source) Release(id transfer.ID, sources []transfer.Path) error {
	return each(sources, id, s.queues.Release)
}

// each calls a function for each queue of a transfer. A missing queue is no error.
func each(sources []transfer.Path, id transfer.ID, do func(context.Context, transfer.QueueName, transfer.ID) error) (err error) {
	var queues []transfer.QueueName
	for _, p := range sources {
		if a, bad := Parse(p); bad == nil && !slices.Contains(queues, a.Queue) {
			queues = append(queues, a.Queue)
		}
	}
	for _, q := range queues {
		if of := do(context.Background(), q, id); transfer.KindOf(of) != transfer.KindMissing {
			err = errors.Join(err, waiting(of))
		}
	}
	return err
}

// selectPicked returns the address that a repeated walk emits for a source, with the messages that were picked before. An empty
// queue name means none.
func selectPicked(a Address, paths []transfer.Path) (Address, error) {
	for _, p := range paths {
		one, err := Parse(p)
		if err != nil {
			continue // of a file
		}
		if a.names(one) && (a.Picked == Picked{} || a.Picked == one.Picked) {
			return one, nil
		}
	}
	return Address{}, nil
}

// The time between two looks for a message that a source waits for is a tenth of the time that it has waited.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 5 * time.Second
)

// await finds the messages of an address. If there are none, it looks again until the time of the address is over.
func (s *Source) await(ctx context.Context, a *Address) error {
	err := s.pick(ctx, a)
	if a.Wait == 0 || transfer.KindOf(err) != transfer.KindMissing {
		return err
	}
	for began := time.Now(); ; {
		waited := time.Since(began)
		if waited >= a.Wait {
			return transfer.Errorf(transfer.KindMissing, "%w after %s", err, a.Wait)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(a.Wait-waited, max(firstLook, min(waited/10, lastLook)))):
			if again := s.pick(ctx, a); transfer.KindOf(again) != transfer.KindMissing {
				return again
			}
		}
	}
}

// pick finds the messages of an address, unless it has picked ones. No message is an error.
func (s *Source) pick(ctx context.Context, a *Address) error {
	if a.Split.Any() {
		return a.bad("a split, and is a source").(*transfer.Error).WithHint("splits belong to a DEST")
	}
	if err := s.may.Check(transfer.AuthSource, a.permitPath()); err != nil {
		return err
	}
	if a.Picked.Last > 0 {
		return nil
	}
	if a.Group != "" {
		g, mark, err := s.group(ctx, a)
		if err == nil {
			err = s.pickGroup(ctx, a, mark, &g)
		}
		return err
	}
	some, err := s.pickNew(ctx, a)
	if err == nil && !some {
		err = transfer.Errorf(transfer.KindMissing, "there is no message in the queue %s", a.Queue)
	}
	return err
}

// pickNew picks all messages of an address without a group.
func (s *Source) pickNew(ctx context.Context, a *Address) (some bool, err error) {
	v, err := s.queues.Show(ctx, a.Queue)
	if err != nil || v.Last <= a.After {
		return false, waiting(err)
	}
	a.Picked = Picked{Mark: v.Mark, Last: v.Last}
	return s.counted(ctx, a)
}

// pickGroup picks the messages of a group.
func (s *Source) pickGroup(ctx context.Context, a *Address, mark string, g *wire.QueueGroup) error {
	a.Picked = Picked{Mark: mark, Writer: g.Writer, Last: g.Last}
	if a.Group == AnyGroup {
		a.Picked.Group = g.Group
	} else {
		a.Group = g.Group
	}
	some, err := s.counted(ctx, a)
	if err == nil && !some {
		err = transfer.Errorf(transfer.KindMissing, "there is no group %s in the queue %s", a.Group, a.Queue)
	}
	return err
}

// counted counts the messages up to the last picked one. If there are none, it picks none.
func (s *Source) counted(ctx context.Context, a *Address) (some bool, err error) {
	a.Picked.Messages, a.Picked.Bytes, err = s.queues.Count(ctx, a.span())
	if err != nil || a.Picked.Messages == 0 {
		a.Picked = Picked{}
		return false, waiting(err)
	}
	_, err = Parse(a.Path())
	return true, err
}

// group returns a complete group, and the mark of its queue.
func (s *Source) group(ctx context.Context, a *Address) (g wire.QueueGroup, mark string, err error) {
	v, err := s.queues.Show(ctx, a.Queue)
	if err != nil {
		return g, "", waiting(err)
	}
	if a.Group == AnyGroup {
		g, err = s.anyGroup(ctx, a.Queue, v.Mark)
		return g, v.Mark, err
	}
	all, err := s.queues.Groups(ctx, wire.QueueSpan{Queue: a.Queue, Mark: v.Mark, Group: a.Group})
	switch {
	case err != nil:
		return g, "", waiting(err)
	case len(all) == 0:
		return g, "", transfer.Errorf(transfer.KindMissing, "there is no group %s in the queue %s", a.Group, a.Queue)
	case len(all) > 1:
		return g, "", transfer.Errorf(transfer.KindConflict, "several have put a group %s into the queue %s: %s and %s", a.Group, a.Queue, all[0].Writer, all[1].Writer)
	case !all[0].Complete:
		return g, "", transfer.Errorf(transfer.KindMissing, "the group %s in the queue %s is not complete: %d messages of it are there", a.Group, a.Queue, all[0].Messages).
			WithHint("send it when the last one has come")
	}
	return all[0], v.Mark, nil
}

// A Watch examines one queue, for a user that may read it.
type Watch struct {
	s    *Source
	of   Address
	Mark string // of the present queue
}

// Watch begins to examine a queue. The address must pick no messages.
func (s *Source) Watch(ctx context.Context, of Address) (*Watch, error) {
	if err := s.may.Check(transfer.AuthSource, of.permitPath()); err != nil {
		return nil, err
	}
	v, err := s.queues.Show(ctx, of.Queue)
	return &Watch{s, of, v.Mark}, waiting(err)
}

// New returns the messages with numbers greater than after, as the path of a source with exactly these. Without
// messages, its Picked is zero.
func (w *Watch) New(ctx context.Context, after uint64) (Address, error) {
	a := w.of
	a.After = after
	_, err := w.s.pickNew(ctx, &a)
	return a, err
}

// Complete returns the complete groups.
func (w *Watch) Complete(ctx context.Context) (all []wire.QueueGroup, err error) {
	all, err = w.s.queues.Groups(ctx, wire.QueueSpan{Queue: w.of.Queue, Mark: w.Mark})
	return slices.DeleteFunc(all, func(g wire.QueueGroup) bool { return !g.Complete }), waiting(err)
}

// Group returns the messages of a group, as the path of a source with them.
func (w *Watch) Group(ctx context.Context, g wire.QueueGroup) (Address, error) {
	a := w.of
	err := w.s.pickGroup(ctx, &a, w.Mark, &g)
	return a, err
}

// anyGroup returns the complete group with the earliest last message.
func (s *Source) anyGroup(ctx context.Context, queue transfer.QueueName, mark string) (g wire.QueueGroup, err error) {
	all, err := s.queues.Groups(ctx, wire.QueueSpan{Queue: queue, Mark: mark})
	if err != nil {
		return g, waiting(err)
	}
	for _, other := range all {
		if other.Complete && (!g.Complete || other.Last < g.Last) {
			g = other
		}
	}
	if !g.Complete {
		return g, transfer.Errorf(transfer.KindMissing, "there is no complete group in the queue %s", queue).WithHint("send it when the last message of one has come")
	}
	return g, nil
}

// Files opens the messages of a queue.
func (s *Source) Files(transfer.Location) place.Files { return files{s} }

type files struct{ s *Source }

func (f files) Close() {}

func (f files) Open(p transfer.Path, _ bool) (place.File, error) {
	a, err := Parse(p)
	if err == nil {
		err = f.s.pick(context.Background(), &a)
	}
	if err != nil {
		return nil, err
	}
	return &file{of: a, queues: f.s.queues, pieces: f.s.queues.Reader(a.span(), 0), began: time.Now()}, nil
}

// A file reads picked messages one after another. It remembers the beginnings of pieces, so that a new epoch need not
// read it from its beginning.
type file struct {
	of     Address
	queues Reader
	pieces wire.QueuePieces
	began  time.Time

	out      []byte // the rest of the present piece, with its delimiter
	position        // after out
	skip     int64  // bytes after out that were read before
	marks    []mark
	markGap  int64 // least distance between two marks, in bytes
}

// A position is a position of reading in a file.
type position struct {
	at       int64  // in the file
	messages uint64 // messages that were begun
	bytes    uint64 // their bytes
}

// A mark is the beginning of a piece.
type mark struct {
	position
	number uint64
	offset int // in the message
}

// maxMarks bounds the marks of a file. For more, the distance between them grows.
const maxMarks = 1024

func (f *file) Facts() place.Facts {
	return place.Facts{Version: f.of.version(), Size: f.of.size(), Mode: 0o644, Mtime: f.began.UnixNano(), Allocated: f.of.size(), RealPath: f.of.permitPath()}
}

func (f *file) Form() (known *transfer.Form, dataset bool, err error) { return nil, false, nil }

func (f *file) Close() error {
	f.pieces.Close()
	return nil
}

func (f *file) Read(b []byte) (int, error) {
	for len(f.out) == 0 {
		if err := f.advance(); err != nil {
			return 0, err
		}
	}
	n := copy(b, f.out)
	f.out = f.out[n:]
	return n, nil
}

// Carried implements place.Carried.
func (f *file) Carried() {}

// Wait returns nil if Read does not block.
func (f *file) Wait() <-chan struct{} {
	if len(f.out) > 0 {
		return nil
	}
	return f.pieces.Wait()
}

// advance reads the next piece. At the end it returns io.EOF.
func (f *file) advance() error {
	p, err := f.pieces.Next()
	switch kind := transfer.KindOf(err); {
	case err == io.EOF:
		return f.whole()
	case kind == transfer.KindMissing || kind == transfer.KindConflict:
		return f.changed()
	case err != nil:
		return waiting(err)
	}
	f.mark(&p)
	if p.Offset == 0 {
		f.messages++
	}
	f.out = f.of.delimited(&p, f.messages == 1)
	f.at, f.bytes = f.at+int64(len(f.out)), f.bytes+uint64(len(p.Data))
	n := min(f.skip, int64(len(f.out)))
	f.skip, f.out = f.skip-n, f.out[n:]
	return nil
}

// mark remembers the beginning of a piece.
func (f *file) mark(p *wire.QueuePiece) {
	near := func(m, before mark) bool { return m.at < before.at+f.markGap }
	if len(f.marks) == maxMarks {
		f.markGap = 2 * f.at / maxMarks
		f.marks = slices.CompactFunc(f.marks, func(before, m mark) bool { return near(m, before) })
	}
	m := mark{f.position, p.Number, p.Offset}
	if n := len(f.marks); n == 0 || !near(m, f.marks[n-1]) {
		f.marks = append(f.marks, m)
	}
}

// SeekTo goes back to an offset that was read, and requests the rest from the queue manager.
func (f *file) SeekTo(at int64) bool {
	read := f.at - int64(len(f.out)) + f.skip
	if at == read {
		return true
	}
	n := sort.Search(len(f.marks), func(n int) bool { return f.marks[n].at > at }) - 1
	if at > read || n < 0 {
		return false
	}
	m := f.marks[n]
	f.pieces.Close()
	span := f.of.span()
	span.First = m.number
	f.pieces, f.position, f.skip, f.marks, f.out = f.queues.Reader(span, m.offset), m.position, at-m.at, f.marks[:n+1], nil
	return true
}

// whole returns io.EOF if all picked messages have been read.
func (f *file) whole() error {
	if f.messages != f.of.Picked.Messages || f.bytes != f.of.Picked.Bytes {
		return f.changed()
	}
	return io.EOF
}

func (f *file) changed() error {
	return transfer.Errorf(transfer.KindChanging, "another program takes messages out of the queue %s: of %d that were there %d are left", f.of.Queue, f.of.Picked.Messages, f.messages)
}

// Unchanged reads the rest, for example messages without content.
func (f *file) Unchanged() error {
	for len(f.out) == 0 {
		switch err := f.advance(); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
	return f.changed()
}

// version returns the picked messages as a version.
func (a *Address) version() transfer.Version {
	b := []byte{versionFormat}
	for _, n := range []uint64{a.Picked.Last, a.Picked.Messages, a.Picked.Bytes} {
		b = binary.AppendUvarint(b, n)
	}
	return transfer.Version(append(b, a.Picked.Mark...))
}

// readVersion is the inverse of version, without the group and the writer.
func readVersion(v transfer.Version) (p Picked, err error) {
	b := []byte(v)
	bad := len(b) == 0 || b[0] != versionFormat
	for _, into := range []*uint64{&p.Last, &p.Messages, &p.Bytes} {
		if bad {
			break
		}
		n, size := binary.Uvarint(b[1:])
		if bad = size <= 0; !bad {
			*into, b = n, b[size:]
		}
	}
	if bad || p.Last == 0 || len(b) < 2 {
		return p, transfer.Errorf(transfer.KindVersion, "the version of the messages of a queue is in a format that is not known")
	}
	p.Mark = string(b[1:])
	return p, nil
}

// MayDelete allows the removal of messages from any queue.
func (s *Source) MayDelete(*place.WalkRequest) error { return nil }

// AsideName returns an unused name: messages are removed from their queue in one step.
func (s *Source) AsideName(id transfer.ID, item uint64) string { return fmt.Sprintf("%s/%d", id, item) }

// Delete removes the sent messages from the queue, if all of them are there. If an earlier call may have removed them,
// they may also be missing.
func (s *Source) Delete(p transfer.Path, v transfer.Version, _ string, again bool) error {
	a, err := Parse(p)
	if err != nil {
		return err
	}
	sent, err := readVersion(v)
	if err != nil {
		return err
	}
	sent.Writer, sent.Group = a.Picked.Writer, a.Picked.Group
	a.Picked = sent
	if !again {
		if err := s.may.Check(transfer.AuthDeleteSource, a.permitPath()); err != nil {
			return err
		}
	}

	ctx := context.Background()
	n, bytes, err := s.queues.Count(ctx, a.span())
	switch kind := transfer.KindOf(err); {
	case kind == transfer.KindMissing || kind == transfer.KindConflict:
		if again {
			return nil // they were removed with the queue
		}
		return transfer.Errorf(transfer.KindMissing, "the queue %s was removed since its messages were sent", a.Queue)
	case err != nil:
		return waiting(err)
	case n == 0 && again:
		return nil
	case n == 0:
		return transfer.Errorf(transfer.KindMissing, "the messages that were sent are not in the queue %s any more", a.Queue)
	case again && a.After > 0 && n < sent.Messages: // an earlier call has removed some, one by one
	case n != sent.Messages || bytes != sent.Bytes:
		return transfer.Errorf(transfer.KindChanging, "of the %d messages of the queue %s that were sent %d are there, and stay: another program takes them, too", sent.Messages, a.Queue, n)
	}
	failpoint.Hit("messages.before_take")
	if err := s.queues.Take(ctx, a.span()); err != nil {
		return waiting(err)
	}
	failpoint.Hit("messages.after_take")
	return nil
}

// DropForm does nothing: messages have no sidecars.
func (s *Source) DropForm(transfer.Path) error { return nil }
