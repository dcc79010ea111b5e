package audit

import (
	"path/filepath"

	"ferry/internal/transfer"
)

// Check reports whether the log was taken away: its files are no longer at their paths. That is final, and nothing is
// appended any more.
func (l *Log) Check() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.usable(); err != nil {
		return l.gone
	}
	return l.atPath()
}

// atPath is Check during an append. It runs after the syncs, before the log reports the records as durable.
func (l *Log) atPath() error {
	if err := l.fenced(); err != nil {
		return err
	}
	names, err := l.files.moved()
	if err != nil || len(names) == 0 {
		return nil // the next write reports a problem of an open file
	}
	l.gone = transfer.Errorf(transfer.KindInternal, "the audit log was taken away: %s was removed, renamed or replaced", filepath.Join(l.files.dir, names[0])).
		WithHint("put its directory back as it was, then start coordination again; agents keep their records until it has them")
	l.failed = l.gone
	return l.gone
}

// Fence sets a function that the log calls before each append, and again before it reports the append as durable. may
// returns an error if this process may no longer own the log. An error of KindAlive is final.
func (l *Log) Fence(may func() error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.may = may
}

// fenced calls may. The caller holds l.writing.
func (l *Log) fenced() error {
	if l.may == nil {
		return nil
	}
	err := l.may()
	if transfer.KindOf(err) == transfer.KindAlive {
		l.gone, l.failed = err, err
	}
	return err
}
