package monitor

import (
	"context"
	"path"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A directoryPoll is a poll of a directory.
type directoryPoll struct {
	ctx     context.Context
	poll    *poll
	match   matcher
	arrived *arrivals
	notices *listener
	from    place.Scanner
	dirs    []string // real paths of the directories that were read
}

// notified reports whether a notification makes the next poll come earlier. An early poll does not count for the
// condition unchanged.
func (d *directoryPoll) notified() bool {
	rec := d.poll.rec
	return d.notices.watcher != nil && !rec.Exact && rec.Condition.Kind != ConditionUnchanged
}

// examine examines the directory.
func (d *directoryPoll) examine() (err error) {
	if d.notified() {
		d.notices.listen(d.match.wants)
	} else {
		d.notices.listen(nil)
	}
	if d.from, err = d.poll.host.directories(); err != nil {
		return err
	}
	err = d.scan()
	if transfer.KindOf(err) == transfer.KindMissing && len(d.dirs) == 0 && d.notified() && d.await() {
		err = d.scan() // it may have been made before the watch
	}
	if transfer.KindOf(err) == transfer.KindMissing {
		err = transfer.Errorf(transfer.KindMissing, "the directory %s is not there", d.poll.rec.Dir).WithHint("the monitor looks for it again; nothing is forgotten meanwhile")
	}
	return err
}

func (d *directoryPoll) scan() error {
	rec := d.poll.rec
	return d.from.Scan(d.ctx, place.ScanRequest{Dir: rec.Dir.Path, Levels: rec.Levels, Want: d.match.wants, Entered: func(real string) {
		if len(d.dirs) < maxWatched {
			d.dirs = append(d.dirs, real)
		}
	}}, d.found)
}

// await watches the nearest existing directory above the monitor's missing one, and reports whether there is one. A
// notice of the next directory on the path makes the next poll come earlier.
func (d *directoryPoll) await() bool {
	for missing, up := "", string(d.poll.rec.Dir.Path); missing != up; {
		missing, up = up, path.Dir(up)
		real := ""
		ctx, stop := context.WithCancel(d.ctx)
		d.from.Scan(ctx, place.ScanRequest{Dir: transfer.Path(up), Want: func(string) bool { return false }, Entered: func(at string) {
			real = at
			stop() // its names do not matter
		}}, d.found)
		stop()
		if real == "" {
			continue
		}
		d.notices.await(path.Join(real, path.Base(missing)), real)
		return true
	}
	return false
}

// found handles a file of the scan.
func (d *directoryPoll) found(f *place.Found) error {
	p, key := d.poll, fileKey(f.Rel)
	if f.Err != nil {
		p.unread(key, f.Err)
		return nil
	}
	p.matched++
	if p.rec.Condition.Kind == ConditionNoMatch {
		return nil
	}
	is := identityOf(f)
	e, err := p.compare.before(key)
	if err != nil {
		return err
	}
	if e != nil && e.identity == is && !e.again {
		return p.compare.there(e)
	}
	if !d.arrived.meets(key, f, is) || p.held {
		return nil
	}
	one := file{Found: *f, version: d.from.VersionOf(f)}
	switch {
	case e == nil:
	case e.again && e.identity == is:
		one.tries = e.tries + 1
	case !e.again && e.differsInCtime(is):
		if known, err := d.sentBefore(e, &one); known || err != nil {
			return err
		}
	}
	return p.add(one)
}

// sentBefore reports whether a file that differs only in its time of change has the content that has arrived, so that
// it is not sent. While its transfer is running, that is unknown, and a later poll checks again. A file that has not
// arrived is sent.
func (d *directoryPoll) sentBefore(e *known, f *file) (bool, error) {
	p := d.poll
	over, err := p.host.over(e.transfer)
	if err != nil || !over {
		return true, err
	}
	now, err := p.book.entryOf(e.key) // the transfer may have ended since the history was read
	switch {
	case err != nil:
		return false, err
	case now == nil, now.again, now.sum == "", now.transfer != e.transfer:
		return false, nil
	}
	sum, err := p.host.digest(d.ctx, f.Path, f.version, sumMethods[now.sum[0]])
	if err != nil {
		p.problem = err
		return true, nil
	}
	if packed(sum) != now.sum {
		return false, nil
	}
	e.gone, e.identity = 0, identityOf(&f.Found)
	return true, p.collect.mark(*e)
}
