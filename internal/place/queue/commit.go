package queue

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ferry/internal/place"
	"ferry/internal/sys/dirsync"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// stores is the number of attempts to store a batch before the item waits.
const stores = 3

// An intent has the data that decide an item after a crash.
type intent struct {
	To       string        `json:"to"`    // the DEST
	Mark     string        `json:"mark"`  // of the queue
	Stage    string        `json:"stage"` // the file that keeps the item
	Name     transfer.Path `json:"name"`
	Messages int           `json:"messages"`
}

// intentFormat begins an intent; JSON follows.
const intentFormat = 1

// maxIntent bounds the length of an intent, in bytes.
const maxIntent = 64 << 10

func (in *intent) bytes() []byte { return append([]byte{intentFormat}, wire.Marshal(in)...) }

func readIntent(b []byte) (in intent, to Address, err error) {
	if len(b) > 1 && len(b) <= maxIntent && b[0] == intentFormat && json.Unmarshal(b[1:], &in) == nil {
		if to, err = Parse(transfer.Path(in.To)); err == nil && in.Messages > 0 && in.Messages <= maxMessages && in.Mark != "" && filepath.Base(in.Stage) == in.Stage && strings.Trim(in.Stage, ".") != "" {
			return in, to, nil
		}
	}
	return in, to, transfer.Errorf(transfer.KindVersion, "an intent of a queue is in a format that is not known")
}

// finish checks that the queue can take all messages of a file, counts them, and makes the file durable if the transfer
// is.
func (p *part) finish(name transfer.Path) (intent, error) {
	if err := p.l.permitted(); err != nil {
		return intent{}, err
	}
	v, err := p.l.t.view(p.l.to.Queue)
	if transfer.KindOf(err) == transfer.KindMissing {
		return intent{}, err
	}
	if err != nil {
		return intent{}, err
	}
	if v.MaxBytes > 0 && p.at > v.MaxBytes { // it would wait for ever, together with other files of its group
		return intent{}, transfer.Errorf(transfer.KindUnwritable, "the queue %s may have %s, and the file has %s", p.l.to.Queue, transfer.FormatBytes(v.MaxBytes), transfer.FormatBytes(p.at)).
			WithHint("make the queue anew with a larger --max-bytes, or send the file to another one")
	}
	if left := v.MaxBytes - int64(v.Bytes); v.MaxBytes > 0 && p.at > left { // half of it would be stored, and wait
		return intent{}, transfer.Errorf(transfer.KindNoSpace, "the queue %s has room for %s, and the file has %s", p.l.to.Queue, transfer.FormatBytes(max(left, 0)), transfer.FormatBytes(p.at)).
			WithHint("it goes on as messages are taken out of it; `ferry queue show` has its limit")
	}
	in := intent{To: string(p.l.to.Path()), Mark: v.Mark, Stage: p.name, Name: name}
	if in.Messages, err = newSplitter(p.l.to.Split, wire.MaxQueueMessage, io.NewSectionReader(p.File, 0, p.at)).count(); err != nil {
		return in, err
	}
	if p.l.cfg.Durable {
		err = p.Sync()
	}
	return in, err
}

// Commit stores the files of a group in the queue, one after another, each of them completely.
func (l *landing) Commit(_ context.Context, group []place.Pending) (done []transfer.Outcome, err error) {
	var decided []transfer.Outcome
	var intents []transfer.Intent
	for n := range group {
		p := &group[n]
		o := p.Outcome
		if part, ok := p.Part.(*part); ok && o.Err == nil {
			in, err := part.finish(p.Name)
			if p.Together {
				err = transfer.Errorf(transfer.KindUsage, "files do not become messages of the queue %s together", part.l.to.Queue)
			}
			if transfer.KindOf(err).Waits() {
				return nil, err
			}
			if err == nil {
				item := wire.QueueItem{Queue: part.l.to.Queue, Transfer: l.cfg.Transfer, Item: o.Item}
				o.Path = (&Address{Queue: item.Queue, Group: item.Group()}).Path()
				intents = append(intents, transfer.Intent{Outcome: o, Place: in.bytes()})
				continue
			}
			o.Err = transfer.AsError(err)
			part.Discard() // or RemoveLeftovers removes it
		}
		decided = append(decided, o)
	}

	if len(intents) > 0 {
		if err := l.keepNames(); err != nil {
			return nil, err
		}
		if err := l.cfg.Journal.Committing(intents); err != nil {
			return nil, err
		}
	}

	failpoint.Hit("messages.after_committing")
	var pending *place.PendingError
	var full *fullError
	var again []uint64
	for _, in := range intents {
		v, o, err := l.settled(in)
		switch {
		case errors.As(err, &full):
			again = append(again, o.Item)
		case err != nil && pending == nil:
			pending = &place.PendingError{Err: err}
			fallthrough
		case err != nil:
			pending.Intents = append(pending.Intents, in)
		case v == place.Redo:
			return nil, transfer.Errorf(transfer.KindInternal, "the arrived data for %s is gone", in.Outcome.Path)
		default:
			decided = append(decided, o)
		}
	}

	if len(decided) > 0 {
		if err := l.cfg.Journal.Committed(decided); err != nil {
			return nil, errors.Join(err, asError(pending))
		}
	}
	l.cleanUp(group, decided)
	if len(again) > 0 {
		if err := l.cfg.Journal.Again(again); err != nil {
			return decided, errors.Join(asError(pending), err)
		}
		if pending == nil {
			return decided, full.err
		}
	}
	return decided, asError(pending)
}

// A fullError reports that a queue has no room for an item, and none of its messages is stored yet. Such an item is not
// COMMITTING any more: a transfer that is cancelled or abandoned while it waits for room must not arrive later.
type fullError struct{ err error }

func (e *fullError) Error() string { return e.err.Error() }
func (e *fullError) Unwrap() error { return e.err }

func asError(e *place.PendingError) error {
	if e == nil {
		return nil
	}
	return e
}

// keepNames makes the names of the arrived files as durable as their contents, because the intent refers to them.
func (l *landing) keepNames() error {
	if !l.cfg.Durable {
		return nil
	}
	if err := dirsync.Sync(l.t.dir, filepath.Dir(l.t.dir)); err != nil {
		return unstaged(err)
	}
	return nil
}

// cleanUp removes the stored copies of items with a recorded outcome.
func (l *landing) cleanUp(group []place.Pending, decided []transfer.Outcome) {
	stored := map[uint64]bool{}
	for _, o := range decided {
		stored[o.Item] = o.Err == nil
	}
	items := map[transfer.QueueName][]uint64{}
	for n := range group {
		part, ok := group[n].Part.(*part)
		if item := group[n].Outcome.Item; ok && stored[item] {
			part.Discard()
			items[part.l.to.Queue] = append(items[part.l.to.Queue], item)
		} else if ok {
			l.left.Store(true)
		}
	}
	failpoint.Hit("messages.before_settle")
	for queue, of := range items {
		if l.settle(queue, of) != nil {
			l.left.Store(true)
		}
	}
}

// Recover stores the remaining messages of an item. The receipt, which is stored together with the messages, shows the
// stored ones: they are not stored again, even if a consumer has taken them.
func (l *landing) Recover(it transfer.Intent, _ string) (place.Verdict, transfer.Outcome, error) {
	v, o, err := l.settled(it)
	if errors.As(err, new(*fullError)) {
		return place.Redo, o, nil
	}
	return v, o, err
}

// settled is Recover. If the queue is full and has no message of the item, the error is a *fullError.
func (l *landing) settled(it transfer.Intent) (place.Verdict, transfer.Outcome, error) {
	o := it.Outcome
	if o.Type == transfer.ItemDir {
		return place.Done, o, nil
	}
	in, to, err := readIntent(it.Place)
	if err != nil {
		return 0, o, err
	}
	s := storedItem{queues: l.t.writers(l.cfg.Principal), in: in, to: to, of: o, path: filepath.Join(l.t.dir, in.Stage),
		item: wire.QueueItem{Queue: to.Queue, Transfer: l.cfg.Transfer, Item: o.Item}}
	defer s.close()
	have, err := s.receipt()
	for failures := 0; ; {
		switch kind := transfer.KindOf(err); {
		case kind == transfer.KindMissing || kind == transfer.KindConflict:
			l.left.Store(true)
			o.Err = transfer.Errorf(transfer.KindMoved, "the queue %s was removed while %s was stored: whether it arrived is not known", to.Queue, in.Name)
			return place.Moved, o, nil
		case err != nil:
			return 0, o, waiting(err)
		case have.Last:
			l.left.Store(true)
			return place.Done, o, nil
		case failures == stores:
			return 0, o, s.failed
		}
		var now wire.QueueReceipt
		now, err = s.store(have)
		switch {
		case err == nil:
			have, failures = now, 0
			continue
		case errors.Is(err, errGone) && have.Messages == 0:
			return place.Redo, o, nil
		case errors.Is(err, errGone):
			l.left.Store(true)
			o.Err = transfer.Errorf(transfer.KindMoved, "%d of %d messages of %s are in the queue %s, and the arrived data is gone", have.Messages, in.Messages, in.Name, to.Queue)
			return place.Moved, o, nil
		case transfer.KindOf(err) == transfer.KindNoSpace && have.Messages == 0:
			return 0, o, &fullError{err}
		case transfer.KindOf(err) == transfer.KindNoSpace:
			return 0, o, err
		default:
			s.failed = waiting(err)
			failures++
		}
		have, err = s.receipt()
	}
}

// A storedItem is the state of an item that is being stored in a queue.
type storedItem struct {
	queues Writer
	in     intent
	to     Address
	of     transfer.Outcome
	item   wire.QueueItem
	path   string // of the arrived file
	failed error  // error of the last attempt

	file  *os.File
	split *splitter // of file; nil: it must be opened
	held  *[]byte   // the next message, which did not fit
	given int       // messages that were given out or skipped
}

// errGone reports that the arrived file is missing or has changed.
var errGone = errors.New("the arrived data is gone")

func (s *storedItem) receipt() (wire.QueueReceipt, error) {
	return s.queues.Receipt(context.Background(), s.item, s.in.Mark)
}

// store stores the next messages of an item after the stored ones, and returns the new receipt.
func (s *storedItem) store(have wire.QueueReceipt) (wire.QueueReceipt, error) {
	if err := s.behind(have.Messages); err != nil {
		return have, err
	}
	failpoint.Hit("messages.before_publish")
	now, err := s.queues.Publish(context.Background(), s.item, s.header(), have, s.in.Messages, s.next)
	failpoint.Hit("messages.after_publish")
	return now, err
}

// next returns the next message, if it has no more than most bytes.
func (s *storedItem) next(most int) (data []byte, fits bool, err error) {
	if s.held == nil {
		piece, last, err := s.split.next()
		if err != nil || last != (s.split.n == s.in.Messages) {
			return nil, false, errGone
		}
		s.held = &piece
	}
	data = *s.held
	if len(data) > most {
		return nil, false, nil
	}
	s.held, s.given = nil, s.given+1
	return data, true, nil
}

// behind moves to the end of the first n messages. After a batch that was stored it is there already.
func (s *storedItem) behind(n int) (err error) {
	if s.split != nil && s.given == n {
		return nil
	}
	s.close()
	s.file, err = os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	if err != nil {
		return unstaged(err)
	}
	s.split = newSplitter(s.to.Split, wire.MaxQueueMessage, s.file)
	for s.given = 0; s.given < n; s.given++ {
		if _, _, err := s.split.next(); err != nil {
			return errGone
		}
	}
	return nil
}

func (s *storedItem) close() {
	if s.file != nil {
		s.file.Close()
	}
	s.file, s.split, s.held = nil, nil, nil
}

// header returns the fields that all messages of the item share.
func (s *storedItem) header() map[string]string {
	h := map[string]string{wire.HeaderFile: s.in.Name.String(), wire.HeaderFileSize: strconv.FormatInt(s.of.Size, 10)}
	if s.of.Digest != "" {
		h[wire.HeaderDigest] = s.of.Digest
	}
	return h
}
