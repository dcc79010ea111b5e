package faulty

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Land prepares a landing of objects.
func (o *Objects) Land(cfg place.LandConfig) place.Landing {
	return &objectLanding{o: o, cfg: cfg, label: fmt.Sprintf("%x-%x-%s-", o.Incarnation, cfg.Generation, cfg.Transfer), left: new(atomic.Bool)}
}

func (l *objectLanding) At(to place.Destination) place.Landing {
	other := *l
	other.cfg.Destination = to
	return &other
}

type objectLanding struct {
	o     *Objects
	cfg   place.LandConfig
	label string // prefix of this transfer's labels; an item's number follows
	left  *atomic.Bool
}

func (l *objectLanding) of(item uint64) string { return fmt.Sprint(l.label, item, "-") }

func (l *objectLanding) Path(name transfer.Path) transfer.Path {
	if l.cfg.Resolution.Into {
		return transfer.Path(path.Join(string(l.cfg.Resolution.Base), string(name)))
	}
	_, below, _ := strings.Cut(string(name), "/")
	return transfer.Path(path.Join(string(l.cfg.Resolution.Base), below))
}

// Locate returns a location without directories: the transfer's label finds the leftovers of all items.
func (l *objectLanding) Locate(name, _ transfer.Path) (place.Location, error) {
	at := place.Location{Name: name, TempDirs: []transfer.Path{transfer.Path(l.o.Scratch)}}
	if l.cfg.IfExists == transfer.IfExistsRename {
		return at, transfer.Errorf(transfer.KindUsage, "an object store does not give objects other names than were asked for")
	}
	if name == "." {
		return at, nil
	}
	return at, errors.Join(mayBeKey(name), mayBeKey(l.Path(name)))
}

func (l *objectLanding) Look(name transfer.Path, mtime, _ int64) (target transfer.Path, err error) {
	_, err = l.condition(name, mtime)
	return l.Path(name), err
}

// condition returns the condition for an object to get its key, from the present state, or an error if it cannot have
// it.
func (l *objectLanding) condition(name transfer.Path, mtime int64) (condition, error) {
	key := l.Path(name)
	if err := mayBeKey(key); err != nil {
		return condition{}, err
	}
	is, _, err := l.o.Session.head(string(key))
	switch {
	case errors.Is(err, ErrNoSuchKey):
		return condition{}, nil
	case err != nil:
		return condition{}, unknownEffect("head", key, err)
	case l.cfg.IfExists == transfer.IfExistsOverwrite, l.cfg.IfExists == transfer.IfExistsUpdate && is.Modified.UnixNano() < mtime:
		return condition{match: is.ETag}, nil
	}
	return condition{}, errNameTaken(l.cfg.IfExists, key)
}

func errNameTaken(words string, key transfer.Path) *transfer.Error {
	if words == transfer.IfExistsSkip || words == transfer.IfExistsUpdate {
		return transfer.Errorf(transfer.KindSkipped, "%s is there already", key)
	}
	return transfer.Errorf(transfer.KindExists, "%s already exists", key)
}

// permitted checks an object against the rights of the transfer's principal.
func (l *objectLanding) permitted(key transfer.Path) error {
	err := l.cfg.May.Check(transfer.AuthDest, "/"+string(key))
	if err == nil && (l.cfg.IfExists == transfer.IfExistsOverwrite || l.cfg.IfExists == transfer.IfExistsUpdate) {
		err = l.cfg.May.Check(transfer.AuthOverwrite, "/"+string(key))
	}
	return err
}

func (l *objectLanding) Create(item uint64, s place.Staging) (place.Part, error) {
	if err := l.permitted(l.Path(s.Name)); err != nil {
		return nil, err
	}
	if _, err := l.condition(s.Name, s.Mtime); err != nil {
		return nil, err
	}
	key := l.Path(s.Name)
	id, err := l.o.Session.begin(string(key), l.of(item))
	if err != nil {
		l.left.Store(true) // it may be there all the same
		return nil, unknownEffect("begin", key, err)
	}
	return &objectPart{l: l, item: item, key: key, id: id}, nil
}

func (l *objectLanding) Reopen(item uint64, s place.Staging, point []byte) (place.Part, error) {
	at, err := parseObjectPoint(point)
	if err != nil {
		return nil, err
	}

	l.left.Store(true) // the number of tails is unknown here
	p := &objectPart{l: l, item: item, key: l.Path(s.Name), id: at.id}
	tags, _, err := l.o.Session.parts(string(p.key), at.id)
	switch {
	case errors.Is(err, ErrNoSuchUpload) || err == nil && (len(tags) < at.parts || hashOf(tags[:at.parts]) != at.tags):
		return nil, transfer.Errorf(transfer.KindMissing, "the uploaded parts of %s are gone", p.key)
	case err != nil:
		return nil, unknownEffect("parts", p.key, err)
	}

	p.tags = tags[:at.parts]
	if at.tail == 0 {
		p.sent = at.offset
		return p, nil
	}

	tail, err := l.o.Session.get(p.tailKey(at.parts))
	switch {
	case errors.Is(err, ErrNoSuchKey) || err == nil && (int64(len(tail.Data)) < at.tail || hashOf([]string{string(tail.Data[:at.tail])}) != at.sum):
		return nil, transfer.Errorf(transfer.KindMissing, "the last bytes that were uploaded of %s are not there any more", p.key)
	case err != nil:
		return nil, unknownEffect("get", p.key, err)
	}

	p.sent, p.buf = at.offset-at.tail, append([]byte(nil), tail.Data[:at.tail]...)
	return p, nil
}

func (l *objectLanding) Drop(item uint64, _ transfer.Path) error { return l.abort(l.of(item)) }

// RemoveLeftovers aborts this transfer's uploads, and removes the tails of their parts.
func (l *objectLanding) RemoveLeftovers(_ []transfer.Path, some bool) error {
	if !some && !l.left.Load() {
		return nil
	}
	return l.abort(l.label)
}

func (l *objectLanding) Close() error { return nil }

// abort removes uploads and tails with labels that begin with label.
func (l *objectLanding) abort(label string) error {
	all, err := l.o.Session.uploadsOf(label)
	if err != nil {
		return unknownEffect("uploads", transfer.Path(label), err)
	}

	for _, u := range all {
		if err := l.o.Session.abort(u.ID); err != nil {
			return unknownEffect("abort", transfer.Path(u.Key), err)
		}
	}

	prefix := l.o.Scratch + ".ferry-" + label
	for after, more := "", true; more; {
		keys, _, again, err := l.o.Session.list(prefix, after)
		if err != nil {
			return unknownEffect("list", transfer.Path(prefix), err)
		}
		for _, key := range keys {
			if err := l.o.Session.remove(key, ""); err != nil {
				return unknownEffect("delete", transfer.Path(key), err)
			}
			after = key
		}
		more = again
	}
	return nil
}

// An objectIntent has the data to decide an upload after a crash.
type objectIntent struct {
	id    string
	tags  []string // of its parts
	match string   // the tag of the object that it replaces; empty: none
	words string   // treatment of an existing object of the key: one of transfer.IfExists…
}

// intentFormat begins an intent. Its fields follow, each after its length.
const intentFormat = 1

func (in objectIntent) bytes() []byte {
	b := []byte{intentFormat}
	for _, s := range []string{in.id, strings.Join(in.tags, " "), in.match, in.words} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func parseObjectIntent(b []byte) (in objectIntent, err error) {
	f := objectFields{b: b}
	if f.byte() != intentFormat {
		f.bad = true
	}
	id, tags, match, words := f.text(), f.text(), f.text(), f.text()
	if f.bad || len(f.b) > 0 {
		return in, transfer.Errorf(transfer.KindVersion, "an intent of an object store is in a format that is not known")
	}
	return objectIntent{id, strings.Fields(tags), match, words}, nil
}

// Commit completes the uploads of a group. All parts of all uploads are stored before the first is completed.
func (l *objectLanding) Commit(_ context.Context, group []place.Pending) (done []transfer.Outcome, err error) {
	defer func() {
		if err != nil { // there may be tails of parts unknown to Recover
			l.left.Store(true)
		}
	}()
	var decided []transfer.Outcome
	var intents []transfer.Intent
	for n := range group {
		p := &group[n]
		o := p.Outcome
		if part, ok := p.Part.(*objectPart); ok && o.Err == nil {
			o.Path = part.key
			in, err := part.finish(p.Name, p.Mtime)
			if transfer.KindOf(err).Waits() {
				return nil, err
			}
			if err == nil {
				intents = append(intents, transfer.Intent{Outcome: o, Place: in.bytes()})
				continue
			}
			o.Err = transfer.AsError(err)
			if err := part.Discard(); err != nil {
				l.left.Store(true)
			}
		}
		decided = append(decided, o)
	}

	if len(intents) > 0 {
		if err := l.cfg.Journal.Committing(intents); err != nil {
			return nil, err
		}
	}

	var pending *place.PendingError
	for _, in := range intents {
		v, o, err := l.Recover(in, "") // the intent includes the destination's options
		switch {
		case err != nil && pending == nil:
			pending = &place.PendingError{Err: err}
			fallthrough
		case err != nil:
			pending.Intents = append(pending.Intents, in)
		case v == place.Redo:
			return nil, transfer.Errorf(transfer.KindInternal, "an upload of %s cannot be completed", in.Outcome.Path)
		default:
			decided = append(decided, o)
		}
	}

	if len(decided) > 0 {
		if err := l.cfg.Journal.Committed(decided); err != nil {
			return nil, errors.Join(err, pendingOr(pending))
		}
	}

	l.cleanUp(group)
	return decided, pendingOr(pending)
}

func pendingOr(e *place.PendingError) error {
	if e == nil {
		return nil
	}
	return e
}

// cleanUp removes the tails of completed uploads.
func (l *objectLanding) cleanUp(group []place.Pending) {
	for n := range group {
		if part, ok := group[n].Part.(*objectPart); ok && part.dropTails() != nil {
			l.left.Store(true)
		}
	}
}

// Recover completes an upload that still exists. If it is gone, it was completed if its key has the expected tag.
// Otherwise its end is unknown.
func (l *objectLanding) Recover(intent transfer.Intent, _ string) (place.Verdict, transfer.Outcome, error) {
	o := intent.Outcome
	if o.Type == transfer.ItemDir {
		return place.Done, o, nil
	}

	in, err := parseObjectIntent(intent.Place)
	if err != nil {
		return 0, o, err
	}

	for tries := 0; ; tries++ {
		err := l.o.Session.complete(in.id, in.tags, condition{match: in.match})
		switch {
		case err == nil:
			return place.Done, o, nil
		case errors.Is(err, ErrNoSuchUpload):
			return l.gone(in, o)
		case errors.Is(err, ErrInvalidPart), errors.Is(err, ErrEntityTooSmall):
			return place.Redo, o, nil
		case !errors.Is(err, ErrPrecondition):
			return 0, o, unknownEffect("complete", o.Path, err)
		}
		if in.words != transfer.IfExistsOverwrite || tries == 5 {
			o.Err = errNameTaken(in.words, o.Path)
			l.left.Store(true)
			return place.Refused, o, nil
		}
		is, _, err := l.o.Session.head(string(o.Path))
		if err != nil && !errors.Is(err, ErrNoSuchKey) {
			return 0, o, unknownEffect("head", o.Path, err)
		}
		in.match = is.ETag
	}
}

func (l *objectLanding) gone(in objectIntent, o transfer.Outcome) (place.Verdict, transfer.Outcome, error) {
	is, _, err := l.o.Session.head(string(o.Path))
	switch {
	case err != nil && !errors.Is(err, ErrNoSuchKey):
		return 0, o, unknownEffect("head", o.Path, err)
	case err == nil && is.ETag == etagOf(in.tags):
		return place.Done, o, nil
	}
	o.Err = transfer.Errorf(transfer.KindMoved, "the upload of %s is gone, and something else is there: whether it arrived is not known", o.Path)
	return place.Moved, o, nil
}
