package audit

import (
	"os"
	"path/filepath"

	"ferry/internal/failpoint"
	"ferry/internal/transfer"
)

// moved are the files that have lost their path: they were removed, renamed or
// replaced under a writer, which goes on with the ones that it has open. A path
// that cannot be looked at is not among them.
func (l *Log) moved() (names []string, err error) {
	for _, f := range []struct {
		name string
		file
	}{{recordsName, l.records}, {indexName, l.index.f}, {hashesName, l.hashes.f}} {
		mine, err := f.Stat()
		if err != nil {
			return nil, err
		}
		named, err := os.Stat(filepath.Join(l.dir, f.name))
		if os.IsNotExist(err) || err == nil && !os.SameFile(mine, named) {
			names = append(names, f.name)
		}
	}
	return names, nil
}

// Check reports whether the log was taken away: its files have lost their paths.
// That is final, and nothing is appended any more.
func (l *Log) Check() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.usable(); err != nil {
		return l.gone
	}
	return l.atPath()
}

// atPath is Check for one who appends. It is made behind the syncs, before anybody
// is told that the log has something.
func (l *Log) atPath() error {
	if err := l.fenced(); err != nil {
		return err
	}
	names, err := l.moved()
	if err != nil || len(names) == 0 || failpoint.Planted("state-dir-not-watched") {
		return nil // what is wrong with an open file the next write tells
	}
	l.gone = transfer.Errorf(transfer.KindInternal, "the audit log was taken away: %s was removed, renamed or replaced", filepath.Join(l.dir, names[0])).
		WithHint("put its directory back as it was, then start coordination again; agents keep their records until it has them")
	l.failed = l.gone
	return l.gone
}

// Fence has the log ask, before each append and before it says that one is durable,
// whether it is still this process's. An error of KindAlive is final.
func (l *Log) Fence(may func() error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.may = may
}

// fenced asks. The caller holds l.writing.
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
