//go:build linux

package commit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/faulty"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
	localsource "ferry/internal/place/local/source"
	"ferry/internal/transfer"
)

var transferID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

const incarnation = 7

// An agent makes the disk calls of the two agents of a transfer, in their order. A round is one run of the receiver's
// epoch and, once every item is decided, of the source's deletions. Only the journal outlives a crash.
type agent struct {
	w    *work
	mem  *faulty.Memory
	disk *faulty.Disk
	j    *faulty.Journal
	boot string

	src, dst *local.FS
	land     *land.Landing
	group    []place.Pending
	open     *land.Partial
	failures int

	named map[string]int // number of times each final name was given
	taken map[string]int // number of times the consumer took each
	wrong []string       // observations that violate an invariant

	others others
}

var errWait = errors.New("the transfer waits")

// start begins a process on a file system and a journal.
func start(w *work, m *faulty.Memory, state faulty.JournalState, boot string) *agent {
	a := &agent{w: w, mem: m, disk: faulty.NewDisk(m), boot: boot, named: map[string]int{}, taken: map[string]int{}}
	a.j = faulty.NewJournal(a.disk, m, state)
	a.disk.Before, a.disk.After = a.before, a.after
	return a
}

func (a *agent) openFS() (err error) {
	if a.dst != nil {
		return nil
	}
	open := func(root string) (*local.FS, error) {
		return local.Open(local.Config{Roots: []string{root}, StateDirs: []string{"/state"}, Incarnation: incarnation, Disk: a.disk,
			Boot: a.boot, Digest: digest.ByName, GroupSync: a.w.one})
	}
	if a.src == nil {
		if a.src, err = open("/src"); err != nil {
			return err
		}
	}
	if a.dst, err = open("/dst"); err != nil {
		return err
	}
	a.land = a.dst.Land(place.LandConfig{Transfer: transferID, Generation: 1, Durable: a.w.durable(), Journal: a.j, Destination: place.Destination{IfExists: a.w.exists, Resolution: transfer.Resolution{Base: "/dst", Into: true}}})
	return nil
}

// stop closes all files and directories, as at the end of a process.
func (a *agent) stop() {
	a.letGo()
	if a.land != nil {
		a.land.Close()
	}
	for _, f := range []*local.FS{a.src, a.dst} {
		if f != nil {
			f.Close()
		}
	}
}

// letGo ends an epoch. Temporaries with a resume point stay.
func (a *agent) letGo() {
	for _, p := range a.group {
		if p.Part != nil {
			p.Part.Close()
		}
	}
	a.group = nil
	if a.open != nil {
		a.open.Close()
	}
	a.open = nil
}

// round runs as far as it can. The error is the transfer's reason for waiting.
func (a *agent) round() error {
	if err := a.openFS(); err != nil {
		return err
	}
	err := a.settle()
	for redo := 0; err == nil; redo++ {
		var again bool
		if again, err = a.epoch(); !again {
			break
		}
		if redo > 20 {
			return fmt.Errorf("the transfer goes round in circles")
		}
	}
	a.letGo()
	if err != nil {
		return err
	}
	if err := a.sweep(); err != nil {
		return err
	}
	return a.deletions()
}

// settle decides the items that the last process left in COMMITTING.
func (a *agent) settle() error {
	state := a.j.State()
	for item := range uint64(a.w.items()) {
		in := state.Items[item].Intent
		if in == nil {
			continue
		}
		verdict, out, err := a.land.Recover(*in, a.boot)
		switch {
		case err != nil:
			return err
		case verdict == place.Redo:
			err = a.j.Forget(item)
		default:
			err = a.j.Committed([]transfer.Outcome{out})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// epoch sends the undecided items. It reports again if an item has to begin again.
func (a *agent) epoch() (again bool, err error) {
	for item := range a.w.items() {
		if it := a.j.State().Items[uint64(item)]; it.Outcome != nil || it.Intent != nil {
			continue
		}
		if item >= len(a.w.files) {
			a.group = append(a.group, place.Pending{Name: transfer.Path(a.w.itemName(item)), Mode: 0o750, Mtime: 1e18,
				Outcome: transfer.Outcome{Item: uint64(item), Type: transfer.ItemDir}})
		} else {
			switch redo, err := a.file(item); {
			case err != nil:
				return false, err
			case redo:
				again = true
				continue
			}
		}
		if len(a.group) >= a.w.closes() {
			if redo, err := a.commit(); err != nil {
				return false, err
			} else if redo {
				again = true
			}
		}
	}
	if len(a.group) > 0 {
		redo, err := a.commit()
		return again || redo, err
	}
	return again, nil
}

// commit ends the group.
func (a *agent) commit() (redo bool, err error) {
	group := a.group
	a.group = nil
	for n := range group {
		// The remaining items of a set that was COMMITTING as a whole continue one by one.
		group[n].Together = a.w.set && len(group) == a.w.items()
	}
	_, err = a.land.Commit(context.Background(), group)
	var failed *place.SyncError
	if errors.As(err, &failed) && transfer.KindOf(err) != transfer.KindNoSpace {
		return a.failed(err)
	}
	if pending := (*place.PendingError)(nil); errors.As(err, new(*place.AgainError)) && !errors.As(err, &pending) {
		return true, nil
	}
	return false, err
}

// failed handles a failed sync: the transfer sends the group again, and waits after three failures.
func (a *agent) failed(err error) (redo bool, _ error) {
	if a.failures++; a.failures >= 3 {
		a.failures = 0
		return false, fmt.Errorf("%w: cannot make files durable: %w", errWait, err)
	}
	return true, nil
}

// failedForGood records that an item has failed for good.
func (a *agent) failedForGood(item int, err error) (redo bool, _ error) {
	if transfer.KindOf(err).Waits() {
		return false, err
	}
	out := []transfer.Outcome{a.failure(item, transfer.AsError(err))}
	if a.gathers() {
		out = append(out, a.broken(item, transfer.SetFailed(out[0].Path, out[0].Err))...)
		a.letGo()
	}
	return false, a.j.Committed(out)
}

func (a *agent) failure(item int, err *transfer.Error) transfer.Outcome {
	name := transfer.Path(a.w.itemName(item))
	kind := transfer.ItemFile
	if item >= len(a.w.files) {
		kind = transfer.ItemDir
	}
	return transfer.Outcome{Item: uint64(item), Type: kind, Source: source(a.w.itemName(item)), Path: a.land.Target(name), Err: err}
}

// gathers reports whether the items get their names together and none is decided or COMMITTING. In this state the
// failure of one item fails all.
func (a *agent) gathers() bool {
	state := a.j.State()
	for item := range uint64(a.w.items()) {
		if it := state.Items[item]; it.Outcome != nil || it.Intent != nil {
			return false
		}
	}
	return a.w.set
}

// broken returns the failures of all items of a set except the given one, which caused them.
func (a *agent) broken(item int, why *transfer.Error) (all []transfer.Outcome) {
	for n := range a.w.items() {
		if n != item {
			o := a.failure(n, nil)
			o.Err = transfer.OfSet(o.Path, why)
			all = append(all, o)
		}
	}
	return all
}

// file sends one file into the group.
func (a *agent) file(item int) (redo bool, err error) {
	name := transfer.Path(a.w.itemName(item))
	src, err := a.src.OpenSource(source(a.w.itemName(item)))
	if err != nil {
		return a.failedForGood(item, err)
	}
	defer src.Close()
	if err := a.j.NoteDir(a.land.Dirs(name)[0]); err != nil {
		return false, err
	}
	if a.w.library != "" {
		if err := a.j.NoteDir("/dst"); err != nil { // where the library's attributes lie
			return false, err
		}
	}
	s := &sending{agent: a, item: item, src: src, size: src.Size(), allocated: src.Size()}
	if a.w.files[item].sparse {
		s.allocated = s.size / 2
	}
	if redo, err := s.begin(name); redo || err != nil || a.open == nil {
		return redo, err
	}
	if redo, err := s.data(); redo || err != nil || a.open == nil {
		return redo, err
	}
	return s.end(name)
}

// A sending is one file in flight.
type sending struct {
	*agent
	item            int
	src             *localsource.Source
	size, allocated int64
	at, safe        int64
	run             *digest.Running
}

// begin continues from the recorded resume point, or makes a new temporary.
func (s *sending) begin(name transfer.Path) (redo bool, err error) {
	pt := s.j.State().Items[uint64(s.item)].Point
	if pt == nil || !pt.Durable && pt.Boot != s.boot || pt.Version != s.src.Version() {
		if pt != nil { // the point must not apply to the new temporary
			if err := s.j.Forget(uint64(s.item)); err != nil {
				return false, err
			}
		}
		p, err := s.land.Create(uint64(s.item), name, s.size, s.allocated)
		if err != nil {
			return s.failedForGood(s.item, err)
		}
		s.open, s.run = p, digest.NewRunning(digest.XXH3, nil)
		return false, nil
	}
	p, err := s.land.Reopen(uint64(s.item), name, pt.Place, s.size, s.allocated)
	switch {
	case transfer.KindOf(err).Waits():
		return false, err
	case err != nil:
		return true, s.j.Forget(uint64(s.item))
	}
	s.open, s.at, s.safe = p, pt.Source, pt.Source
	s.run = digest.Resume(digest.XXH3, nil, pt.Prefix, nil)
	if p.Offset() != pt.Source {
		s.see("%s goes on at %d, and its resume point says %d", name, p.Offset(), pt.Source)
	}
	return false, nil
}

// data reads the source to its end.
func (s *sending) data() (redo bool, err error) {
	b := make([]byte, s.w.chunk)
	for s.at < s.size {
		n, err := s.src.ReadAt(b[:min(int64(len(b)), s.size-s.at)], s.at)
		if err != nil && err != io.EOF {
			s.letGoOpen()
			return s.failedForGood(s.item, err)
		}
		if n == 0 {
			return false, fmt.Errorf("the source ends at %d", s.at)
		}
		if err := s.put(b[:n]); err != nil {
			if transfer.KindOf(err) == transfer.KindNoSpace {
				return false, errors.Join(err, s.pause())
			}
			s.letGoOpen()
			return s.failedForGood(s.item, err)
		}
		if s.w.check > 0 && s.at < s.size && s.at-s.safe >= s.w.check {
			if redo, err := s.checkpoint(); redo || err != nil {
				return redo, err
			}
		}
	}
	if err := s.src.Unchanged(); err != nil {
		s.letGoOpen()
		return s.failedForGood(s.item, err)
	}
	return false, nil
}

func (s *sending) put(b []byte) (err error) {
	if len(strings.Trim(string(b), "\x00")) == 0 {
		if err = s.open.Skip(int64(len(b))); err == nil {
			s.run.Zeros(int64(len(b)))
		}
	} else if err = s.open.Write(b); err == nil {
		s.run.Write(b)
	}
	if err == nil {
		s.at += int64(len(b))
	}
	return err
}

// letGoOpen discards the open temporary.
func (s *sending) letGoOpen() {
	s.open.Discard()
	s.open = nil
}

// pause makes the received data a resume point, for a transfer that waits.
func (s *sending) pause() error {
	if s.at <= s.safe || s.at == 0 {
		return nil
	}
	_, err := s.checkpoint()
	return err
}

// checkpoint makes the written data durable, then records a resume point.
func (s *sending) checkpoint() (redo bool, err error) {
	err = s.open.Sync()
	if err == nil {
		err = s.j.Point(faulty.JournalPoint{Boot: s.boot, Durable: s.w.durable(), Point: transfer.Point{Item: uint64(s.item),
			Source: s.at, Prefix: s.run.Prefix(), Version: s.src.Version()}, Place: s.open.Point()})
	}
	if err == nil {
		s.safe = s.at
		return false, nil
	}
	s.letGoOpen()
	if ferr := s.j.Forget(uint64(s.item)); ferr != nil {
		return false, ferr
	}
	if transfer.KindOf(err) == transfer.KindNoSpace {
		return false, err
	}
	return s.failed(err)
}

// end puts the file into the group.
func (s *sending) end(name transfer.Path) (redo bool, err error) {
	if s.run.Rebased() { // the whole file is read back here, so that the sequence of reads is always the same
		s.run = digest.Resume(digest.XXH3, nil, s.run.Prefix(), s.open)
		s.run.End()
		<-s.run.Done()
	}
	sum := ""
	if err := s.run.Err(); err == nil {
		sum = s.run.Content()
	} else {
		s.letGoOpen()
		if errors.Is(err, digest.ErrPrefix) {
			return true, s.j.Forget(uint64(s.item))
		}
		return false, err
	}
	s.open.Sidecar = s.w.sidecarOf(s.item)
	s.group = append(s.group, place.Pending{Part: s.open, Sum: sum, Mode: s.src.Mode(), Mtime: s.src.Mtime(), Name: name,
		Outcome: transfer.Outcome{Item: uint64(s.item), Type: transfer.ItemFile, Source: source(s.w.itemName(s.item)), Size: s.size,
			Digest: sum, Version: s.src.Version()}})
	s.open = nil
	return false, nil
}

func (a *agent) sweep() error {
	return a.land.Sweep(slices.Sorted(maps.Keys(a.j.State().Dirs)))
}

// deletions removes the sources that have arrived.
func (a *agent) deletions() error {
	if !a.w.del && !a.w.archive {
		return nil
	}
	for item := range uint64(len(a.w.files)) {
		state := a.j.State()
		out := state.Items[item].Outcome
		d, known := state.Deletes[item]
		if out == nil || !out.OK() || !out.Taken.Certain() || d.Done {
			continue
		}
		if !known {
			d = faulty.JournalDelete{Source: out.Source, Version: out.Version, Aside: disk.AsideName(incarnation, transferID, item)}
			if err := a.j.Deleting(item, d); err != nil {
				return err
			}
		}
		var err error
		if a.w.archive {
			_, err = a.src.Place().Archive(d.Source, d.Version, d.Aside, source("done/"+a.w.itemName(int(item))), known)
		} else if known {
			err = a.src.FinishDelete(d.Source, d.Version, d.Aside)
		} else {
			err = a.src.DeleteSource(d.Source, d.Version, d.Aside, nil)
		}
		if transfer.KindOf(err).Waits() {
			return err
		}
		if d.Done = true; err != nil {
			d.Warning = err.Error()
		}
		if err := a.j.Deleting(item, d); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) see(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}
