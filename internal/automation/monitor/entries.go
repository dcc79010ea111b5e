package monitor

import (
	"errors"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A monitorEntries is the part of the ledger for one monitor: its record, its counts, its history and its triggers.
type monitorEntries struct {
	services *duty.Services
	name     string
}

// errChanged ends work for an earlier definition.
var errChanged = errors.New("the monitor is another by now")

// A trigger is the result of a poll for some files: a request, or the reason why there is none.
type trigger struct {
	files   []file
	request *transfer.Request
	refused error // the reason why there is no request
	at      time.Time
	id      transfer.ID
}

// load reads the record of the monitor, or nil if it has been removed.
func (b *monitorEntries) load() (*record, error) {
	return ledger.Read(b.services.Ledger, func(t *ledger.Tx) (*record, error) { return drawerOf(t).Load(b.name) })
}

// unchanged returns errChanged if the monitor is not that of a record any more.
func (b *monitorEntries) unchanged(d drawer, rec *record) error {
	now, err := d.Load(b.name)
	if err == nil && (now == nil || now.Generation != rec.Generation) {
		err = errChanged
	}
	return err
}

// status reads the counts.
func (b *monitorEntries) status() (Status, error) {
	return ledger.Read(b.services.Ledger, func(t *ledger.Tx) (st Status, err error) {
		st, _, err = load[Status](drawerOf(t), statusKey(b.name))
		return st, err
	})
}

// history returns a cursor before the first file.
func (b *monitorEntries) history() *cursor {
	return &cursor{l: b.services.Ledger, prefix: historyPrefix(b.name)}
}

// entryOf returns the present entry of a file, or nil if the history has none.
func (b *monitorEntries) entryOf(key string) (e *entry, err error) {
	err = b.services.Ledger.View(func(t *ledger.Tx) error {
		data := drawerOf(t).Get(historyPrefix(b.name) + key)
		if data == nil {
			return nil
		}
		is, err := decodeEntry(data)
		e = &is
		return err
	})
	return e, err
}

// record stores results of a poll in one transaction: changes of the history, the triggers to be submitted, with their
// IDs, and the refused ones. rec is the record that the poll is for.
func (b *monitorEntries) record(rec *record, marks []known, triggers []*trigger) error {
	return b.services.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if err := b.unchanged(d, rec); err != nil {
			return err
		}
		for n := range marks {
			if err := b.recordMark(d, &marks[n]); err != nil {
				return err
			}
		}
		if len(triggers) == 0 {
			return nil
		}
		st, _, err := load[Status](d, statusKey(b.name))
		if err != nil {
			return err
		}
		for _, tr := range triggers {
			if err := b.recordTrigger(t, rec, &st, tr); err != nil {
				return err
			}
		}
		st.Fired = rec.Condition.Kind == ConditionNoMatch
		return save(d, statusKey(b.name), &st)
	})
}

// recordMark changes an entry of the history. If another trigger, or the end of a transfer, has changed the entry since
// it was read, that change stays.
func (b *monitorEntries) recordMark(d drawer, e *known) error {
	key := historyPrefix(b.name) + e.key
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

func (b *monitorEntries) recordTrigger(t *ledger.Tx, rec *record, st *Status, tr *trigger) error {
	d := drawerOf(t)
	st.Triggers++
	st.Files += uint64(len(tr.files))
	st.Last = tr.at
	l := &Logged{N: st.Triggers, Time: tr.at, Transfer: tr.id, State: StateRecorded, Files: len(tr.files)}
	for n, f := range tr.files {
		if n == 0 {
			l.File = f.Path
		}
		e := entry{identity: identityOf(&f.Found), transfer: tr.id, after: f.after, tries: f.tries}
		if err := d.Put(historyPrefix(b.name)+fileKey(f.Rel), e.encode()); err != nil {
			return err
		}
	}
	if tr.refused != nil {
		return b.refuse(t, rec.Principal, st, l, tr.refused)
	}
	st.Transfer = tr.id
	if err := b.log(d, l); err != nil {
		return err
	}
	if err := b.follow(d, tr); err != nil {
		return err
	}
	return save(d, numbered(pendingPrefix(b.name), l.N), pending{l.N, rec.Origin, *tr.request})
}

// follow registers a trigger's files for Follow.
func (b *monitorEntries) follow(d drawer, tr *trigger) error {
	if len(tr.files) == 0 || !tr.files[0].isFile() {
		return nil
	}
	f := &tr.files[0]
	return save(d, followedKey(tr.id), followed{b.name, transfer.Path(strings.TrimSuffix(string(f.Path), string(f.Rel)))})
}

// refuse records that a trigger will not be submitted.
func (b *monitorEntries) refuse(t *ledger.Tx, principal string, st *Status, l *Logged, why error) error {
	st.Refused++
	l.State, l.Error = StateRefused, transfer.AsError(why)
	text := "monitor " + b.name + " submits nothing for " + l.File.String() + ": " + l.Error.Error()
	err := b.services.Note(t, audit.Record{Event: audit.Warning, Role: audit.RoleSource, Source: b.services.Agent, Principal: principal, Code: l.Error.Kind.Code(),
		Text:    strings.ToValidUTF8(text[:min(len(text), maxNote)], ""),
		Figures: audit.Figures{Kept: &audit.Kept{Kind: audit.KeptMonitor, Name: b.name, Done: audit.MonitorFailed}}})
	return errors.Join(err, b.log(drawerOf(t), l))
}

// maxNote bounds the audit text of a refused trigger, in bytes.
const maxNote = 8 << 10

// log stores a trigger for display, and removes the one that is too old.
func (b *monitorEntries) log(d drawer, l *Logged) error {
	if l.N > maxLogged {
		if err := d.Delete(numbered(logPrefix(b.name), l.N-maxLogged)); err != nil {
			return err
		}
	}
	return save(d, numbered(logPrefix(b.name), l.N), l)
}

// fired records whether the condition nomatch has triggered. rec is the record that the poll is for.
func (b *monitorEntries) fired(rec *record, has bool) error {
	return b.services.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if err := b.unchanged(d, rec); err != nil {
			return err
		}
		st, _, err := load[Status](d, statusKey(b.name))
		if err != nil {
			return err
		}
		st.Fired = has
		return save(d, statusKey(b.name), &st)
	})
}
