package monitor

import (
	"errors"

	"ferry/internal/ledger"
)

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

// recorded returns the first page of the triggers to be submitted, and their number.
func (b *monitorEntries) recorded() (page []pending, all int, err error) {
	size := 0
	err = b.services.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		for key, value := range d.All(pendingPrefix(b.name), "") {
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
func (b *monitorEntries) written(done []result) error {
	if len(done) == 0 {
		return nil
	}
	return b.services.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		st, ok, err := load[Status](d, statusKey(b.name))
		if err != nil || !ok {
			return err // the monitor was removed
		}
		for n := range done {
			if err := b.writeResult(t, &st, &done[n]); err != nil {
				return err
			}
		}
		return save(d, statusKey(b.name), &st)
	})
}

// writeResult stores the result of one trigger, and changes the counts.
func (b *monitorEntries) writeResult(t *ledger.Tx, st *Status, one *result) error {
	d := drawerOf(t)
	key := numbered(pendingPrefix(b.name), one.N)
	if d.Get(key) == nil {
		return nil // removed, and made again
	}
	if err := d.Delete(key); err != nil {
		return err
	}
	if exits := b.services.Exits; exits != nil {
		if err := exits.ForgetTrigger(t, &one.Request); err != nil {
			return err
		}
	}
	l, ok, err := load[Logged](d, numbered(logPrefix(b.name), one.N))
	if err != nil {
		return err
	}
	if !ok {
		l = Logged{N: one.N, Time: one.Request.Submitted, Transfer: one.Request.ID}
	}
	if one.err != nil {
		return errors.Join(d.Delete(followedKey(one.Request.ID)), b.refuse(t, one.Principal, st, &l, one.err))
	}
	st.Submitted++
	l.State = StateSubmitted
	return b.log(d, &l)
}
