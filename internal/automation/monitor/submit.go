package monitor

import (
	"context"
	"errors"
	"io"
	"strings"

	"ferry/internal/audit"
	"ferry/internal/content/textfile"
	"ferry/internal/ledger"
	"ferry/internal/place/local/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// record stores the results of the poll in one transaction: the history, the triggers to be submitted, with their IDs,
// and the refused ones.
func (p *poll) record() error {
	return p.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if err := p.current(d); err != nil {
			return err
		}
		for n := range p.marks {
			if err := p.recordMark(d, &p.marks[n]); err != nil {
				return err
			}
		}
		if len(p.group) == 0 {
			return nil
		}
		st, _, err := load[Status](d, statusKey(p.name))
		if err != nil {
			return err
		}
		for _, tr := range p.group {
			if err := p.recordTrigger(t, d, &st, tr); err != nil {
				return err
			}
		}
		st.Fired = p.rec.Condition.Kind == ConditionNoMatch
		return save(d, statusKey(p.name), &st)
	})
}

// recordMark changes an entry of the history. If another trigger, or the end of a transfer, has changed the entry since
// it was read, that change stays.
func (p *poll) recordMark(d drawer, e *known) error {
	key := historyPrefix(p.name) + e.key
	data := d.Get(key)
	if data == nil {
		return nil
	}
	is, err := decodeEntry(data)
	switch {
	case err != nil && e.damaged != nil:
		return d.Delete(key)
	case err != nil || e.damaged != nil || is.transfer != e.transfer:
		return nil
	case e.gone == dropped:
		return d.Delete(key)
	}
	is.gone, is.identity = e.gone, e.identity
	return d.Put(key, is.encode())
}

// current returns errChanged if the monitor has changed since the poll began.
func (p *poll) current(d drawer) error {
	rec, err := d.Load(p.name)
	if err == nil && (rec == nil || rec.Generation != p.rec.Generation) {
		err = errChanged
	}
	return err
}

func (p *poll) recordTrigger(t *ledger.Tx, d drawer, st *Status, tr *trigger) error {
	st.Triggers++
	st.Files += uint64(len(tr.files))
	st.Last = tr.at
	l := &Logged{N: st.Triggers, Time: tr.at, Transfer: tr.id, State: StateRecorded, Files: len(tr.files)}
	for n, f := range tr.files {
		if n == 0 {
			l.File = f.Path
		}
		e := entry{identity: identityOf(&f.Found), transfer: tr.id, after: f.after, tries: f.tries}
		if err := d.Put(historyPrefix(p.name)+fileKey(f.Rel), e.encode()); err != nil {
			return err
		}
	}
	if tr.refused != nil {
		return refused(p.monitors, t, d, p.rec.Principal, p.name, st, l, tr.refused)
	}
	st.Transfer = tr.id
	if err := logged(d, p.name, l); err != nil {
		return err
	}
	if err := p.follow(d, tr); err != nil {
		return err
	}
	return save(d, numbered(pendingPrefix(p.name), l.N), pending{l.N, p.rec.Origin, *tr.request})
}

// refused records that a trigger will not be submitted.
func refused(m *monitors, t *ledger.Tx, d drawer, principal, name string, st *Status, l *Logged, why error) error {
	st.Refused++
	l.State, l.Error = StateRefused, transfer.AsError(why)
	text := "monitor " + name + " submits nothing for " + l.File.String() + ": " + l.Error.Error()
	err := m.Note(t, audit.Record{Event: audit.Warning, Role: audit.RoleSource, Source: m.Agent, Principal: principal, Code: l.Error.Kind.Code(),
		Text:    strings.ToValidUTF8(text[:min(len(text), maxNote)], ""),
		Figures: audit.Figures{Kept: &audit.Kept{Kind: audit.KeptMonitor, Name: name, Done: audit.MonitorFailed}}})
	return errors.Join(err, logged(d, name, l))
}

// maxNote bounds the audit text of a refused trigger, in bytes.
const maxNote = 8 << 10

// final reports whether an error of a submission is permanent, so that the trigger is refused. Other errors concern the
// agent, and pass.
func final(err error) bool {
	switch transfer.KindOf(err) {
	case transfer.KindUsage, transfer.KindTooLarge, transfer.KindMalformed, transfer.KindVersion, transfer.KindNotBuilt,
		transfer.KindDenied, transfer.KindConflict, transfer.KindUnknownAgent, transfer.KindOutsideRoot, transfer.KindWrongType,
		transfer.KindMissing, transfer.KindExists, transfer.KindUnreadable, transfer.KindUnwritable:
		return true
	}
	return false
}

// pageTriggers is the number of triggers that are submitted before their results are stored.
const (
	pageTriggers = 64
	pageBytes    = 4 << 20 // of their requests
)

// A result is the result of a submission.
type result struct {
	pending
	err error // nil, or final
}

// drain submits the recorded triggers in order. It ends at the first trigger that has to wait, and returns the reason.
// It submits each trigger as it is in the ledger, and therefore the same request each time.
func (r *runner) drain(ctx context.Context, rec *record) error {
	for {
		page, more, err := r.recorded()
		if err != nil {
			return err
		}
		r.waiting(more)
		if len(page) == 0 {
			return nil
		}
		var done []result
		var stop error
		for n := range page {
			if stop = r.mayGoOn(ctx, rec); stop != nil {
				break
			}
			q := page[n].Request
			_, err := r.Offer(page[n].Origin, &q)
			if err != nil && !final(err) {
				stop = err
				break
			}
			done = append(done, result{page[n], err})
		}
		failpoint.Hit("monitor.before_done")
		if err := r.written(done); err != nil {
			return err
		}
		if stop != nil {
			return stop
		}
	}
}

// mayGoOn returns the reason why no more triggers are submitted now: the agent ends, or the monitor has changed.
func (r *runner) mayGoOn(ctx context.Context, rec *record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := r.load()
	if err == nil && (now == nil || now.Generation != rec.Generation) {
		err = errChanged
	}
	return err
}

// recorded returns the first page of the triggers to be submitted, and their number.
func (r *runner) recorded() (page []pending, all int, err error) {
	size := 0
	err = r.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		for key, value := range d.All(pendingPrefix(r.name), "") {
			all++
			if size += len(value); len(page) > 0 && (len(page) == pageTriggers || size > pageBytes) {
				continue
			}
			one, _, err := load[pending](d, key)
			if err != nil {
				return err
			}
			page = append(page, one)
		}
		return nil
	})
	return page, all, err
}

// written stores the results of triggers.
func (r *runner) written(done []result) error {
	if len(done) == 0 {
		return nil
	}
	return r.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		st, ok, err := load[Status](d, statusKey(r.name))
		if err != nil || !ok {
			return err // the monitor was removed
		}
		for _, one := range done {
			key := numbered(pendingPrefix(r.name), one.N)
			if d.Get(key) == nil {
				continue // removed, and made again
			}
			if err := d.Delete(key); err != nil {
				return err
			}
			l, ok, err := load[Logged](d, numbered(logPrefix(r.name), one.N))
			if err != nil {
				return err
			}
			if !ok {
				l = Logged{N: one.N, Time: one.Request.Submitted, Transfer: one.Request.ID}
			}
			if one.err != nil {
				err = errors.Join(err, d.Delete(followedKey(one.Request.ID)))
			}
			if err != nil {
				return err
			}
			if one.err != nil {
				err = refused(r.monitors, t, d, one.Principal, r.name, &st, &l, one.err)
			} else {
				st.Submitted++
				l.State = StateSubmitted
				err = logged(d, r.name, &l)
			}
			if err != nil {
				return err
			}
		}
		return save(d, statusKey(r.name), &st)
	})
}

// waiting records the number of waiting triggers.
func (r *runner) waiting(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Waiting = n
}

func (r *runner) status() (Status, error) {
	return ledger.Read(r.Ledger, func(t *ledger.Tx) (st Status, err error) {
		st, _, err = load[Status](drawerOf(t), statusKey(r.name))
		return st, err
	})
}

// fired records whether the condition nomatch has triggered.
func (p *poll) fired(has bool) error {
	return p.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if err := p.current(d); err != nil {
			return err
		}
		st, _, err := load[Status](d, statusKey(p.name))
		if err != nil {
			return err
		}
		st.Fired = has
		return save(d, statusKey(p.name), &st)
	})
}

// read reads a trigger file in the state that the poll of its directory has seen. If it has changed, the next poll
// handles it.
func (p *poll) read(f *file) (content []byte, err error) {
	return content, p.readWhole(&f.Found, func(in io.Reader) error {
		if f.Size > textfile.Room(maxTriggerFile) {
			return transfer.Errorf(transfer.KindTooLarge, "trigger file %s has %d bytes; the limit is %d", f.Path, f.Size, maxTriggerFile)
		}
		content, err = io.ReadAll(io.LimitReader(in, textfile.Room(maxTriggerFile)+1))
		return err
	})
}

// readWhole makes fn read a file that was found. If the file is another version when it is opened, or has changed when
// fn has ended, the error is of kind Changing.
func (p *poll) readWhole(f *walk.Found, fn func(io.Reader) error) error {
	files := p.FS.Place().For(transfer.Files, p.Permit(p.rec.Principal)).Files(transfer.File(f.Path))
	defer files.Close()
	in, err := files.Open(f.Path, false)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Facts().Version != f.Version() {
		return transfer.Errorf(transfer.KindChanging, "the file %s has changed since its directory was read", f.Path)
	}
	if err := fn(in); err != nil {
		return err
	}
	return in.Unchanged()
}
