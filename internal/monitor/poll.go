package monitor

import (
	"context"
	"strings"
	"time"

	"ferry/internal/failpoint"
	"ferry/internal/localfs"
	"ferry/internal/transfer"
)

// What is recorded in one transaction, at most.
const (
	groupTriggers = 256
	groupFiles    = 1000
)

// A file that is gone stays in the history for keptGone, so that a share that is empty for a while does
// not have all of it sent again. That is halved for each goneMost files that are gone.
const (
	keptGone = 7 * 24 * time.Hour
	goneMost = 100_000
)

// maxSightings is how many files may wait, in memory, for the condition unchanged; others begin
// when there is room.
const maxSightings = 100_000

// sightings are the files that are watched for a change, by fileKey.
type sightings struct {
	files   map[string]*sighting
	counted time.Time // when a poll last counted
	polls   uint64
}

// A sighting is a file that stays in one state, for so many polls.
type sighting struct {
	identity
	same int64
	poll uint64 // the last that has seen it
}

// A poll is one look at a directory.
type poll struct {
	*runner
	ctx     context.Context
	rec     *record
	now     time.Time
	counts  bool // for the condition unchanged: an interval has passed since the last one that did
	history *cursor
	matcher
	form *form // of trigger files; nil: none

	batch   []file
	group   []*trigger
	files   int // of the group
	marks   []known
	unread  []string // keys of directories of which nothing is known
	problem error    // of a directory or file; the last one
	matched int
	gone    int
	dirs    []string
}

// A trigger is what is about to be recorded.
type trigger struct {
	files   []file
	request *transfer.Request
	refused error // why there is none
	at      time.Time
	id      transfer.ID
}

// poll looks at the directory once, and records and submits what it finds. The error is why it could
// not do all.
func (r *runner) poll(ctx context.Context, rec *record) error {
	select {
	case r.scans <- struct{}{}:
		defer func() { <-r.scans }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p := &poll{runner: r, ctx: ctx, rec: rec, now: r.Clock.Now(), history: newCursor(r.Ledger, r.name)}
	if err := p.prepare(); err != nil {
		return err
	}
	if err := p.scan(); err != nil {
		return err
	}
	if err := p.finish(); err != nil {
		return err
	}
	p.done()
	return p.problem
}

func (p *poll) prepare() (err error) {
	if p.rec.onQueue() {
		p.listen(nil)
		return nil
	}
	if p.matcher, err = p.rec.matcher(); err != nil {
		return err
	}
	if t := p.rec.TriggerFile; t != nil {
		if p.form, err = t.form(); err != nil {
			return err
		}
	}
	p.polls++
	if p.counts = p.counted.IsZero() || p.now.Sub(p.counted) >= time.Duration(p.rec.Poll); p.counts {
		p.counted = p.now
	}
	if p.rec.Condition.Kind == ConditionUnchanged {
		p.listen(nil) // a poll that comes early counts for nothing
	} else {
		p.listen(p.wants)
	}
	return nil
}

func (p *poll) scan() error {
	if p.rec.onQueue() {
		return p.look()
	}
	place, _ := p.FS.Place().For(transfer.Files, p.Permit(p.rec.Principal)).(localfs.Local)
	err := place.Scan(p.ctx, localfs.ScanRequest{Dir: p.rec.Dir.Path, Levels: p.rec.Levels, Want: p.wants, Entered: func(real string) {
		if len(p.dirs) < maxWatched {
			p.dirs = append(p.dirs, real)
		}
	}}, p.found)
	if transfer.KindOf(err) == transfer.KindMissing {
		err = transfer.Errorf(transfer.KindMissing, "the directory %s is not there", p.rec.Dir).WithHint("the monitor looks for it again; nothing is forgotten meanwhile")
	}
	return err
}

// found takes what the scan comes upon.
func (p *poll) found(f *localfs.Found) error {
	key := fileKey(f.Rel)
	if f.Err != nil {
		p.unread, p.problem = append(p.unread, key), f.Err
		return nil
	}
	p.matched++
	if p.rec.Condition.Kind == ConditionNoMatch {
		return nil
	}
	is := identity{f.Inode, f.Size, f.Mtime}
	e, err := p.before(key)
	switch {
	case err != nil:
		return err
	case e != nil && e.identity == is:
		if e.gone != 0 {
			e.gone = 0
			return p.mark(*e)
		}
		return nil
	case !p.meets(key, is):
		return nil
	}
	if p.batch = append(p.batch, file{Found: *f}); len(p.batch) == p.rec.Batch {
		return p.trigger()
	}
	return nil
}

// before is what the history has of a file. What it has of others before that is gone.
func (p *poll) before(key string) (*known, error) {
	for {
		e, err := p.history.peek()
		if err != nil || e == nil || e.key > key {
			return nil, err
		}
		p.history.next()
		if e.key == key {
			return e, nil
		}
		if err := p.missing(*e); err != nil {
			return nil, err
		}
	}
}

// missing takes a file of the history that was not found.
func (p *poll) missing(e known) error {
	for _, dir := range p.unread {
		if e.key == dir || strings.HasPrefix(e.key, dir+"\x00") {
			return nil
		}
	}
	p.gone++
	switch {
	case e.gone == 0:
		e.gone = p.now.Unix()
	case p.now.Unix()-e.gone > int64(p.keeps().Seconds()):
		e.gone = dropped
	default:
		return nil
	}
	return p.mark(e)
}

// dropped is the gone of an entry that is to be deleted.
const dropped = -1

// keeps is for how long files that are gone are kept, by how many there were at the last poll.
func (r *runner) keeps() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keptGone >> min(r.state.Gone/goneMost, 30)
}

// mark has the history changed.
func (p *poll) mark(e known) error {
	if p.marks = append(p.marks, e); len(p.marks) < groupFiles {
		return nil
	}
	return p.flush()
}

// meets reports whether a file meets the condition.
func (p *poll) meets(key string, is identity) bool {
	c := p.rec.Condition
	switch c.Kind {
	case ConditionSize:
		return is.size >= c.Value
	case ConditionUnchanged:
		return p.unchanged(key, is, c.Value)
	}
	return true
}

func (p *poll) unchanged(key string, is identity, wanted int64) bool {
	s := p.sightings.files[key]
	switch {
	case s == nil && len(p.sightings.files) >= maxSightings:
		return false
	case s == nil:
		if p.sightings.files == nil {
			p.sightings.files = map[string]*sighting{}
		}
		s = &sighting{identity: is}
		p.sightings.files[key] = s
	case s.identity != is:
		s.identity, s.same = is, 0
	case p.counts:
		s.same++
	}
	s.poll = p.polls
	return s.same >= wanted
}

// trigger makes one of the files that are together. What cannot be read now the next poll finds again.
func (p *poll) trigger() error {
	files := p.batch
	p.batch = nil
	return p.together(files)
}

// together has files trigger. Where one of several alone is the reason why nothing can be submitted for all, it triggers for itself,
// and is refused, and the others go.
func (p *poll) together(files []file) error {
	t := &trigger{files: files, at: p.stamp(p.now), id: transfer.NewID(p.now)}
	s := &setting{agent: p.Agent, monitor: p.name, transfer: t.id, now: t.at, files: files, defaults: p.rec.Defaults}
	var lines []line
	if p.form != nil {
		content, err := p.read(&files[0])
		if err != nil {
			p.problem = err
			return nil
		}
		lines, t.refused = p.form.lines(content)
	}
	if t.refused == nil {
		t.refused = givenUp(files)
	}
	if t.refused == nil {
		t.request, t.refused = p.rec.request(s, lines)
	}
	if t.refused != nil && len(files) > 1 {
		var fit []file
		for n := range files {
			one := *s
			one.files = files[n : n+1]
			if _, err := p.rec.request(&one, nil); err == nil {
				fit = append(fit, files[n])
			} else if err := p.together(files[n : n+1]); err != nil {
				return err
			}
		}
		if len(fit) == 0 {
			return nil
		}
		if len(fit) < len(files) {
			return p.together(fit)
		}
	}
	p.group = append(p.group, t)
	if p.files += len(files); len(p.group) < groupTriggers && p.files < groupFiles {
		return nil
	}
	return p.flush()
}

// flush records what there is, and submits it.
func (p *poll) flush() error {
	if len(p.group)+len(p.marks) == 0 {
		return nil
	}
	failpoint.Hit("monitor.before_record")
	if err := p.record(); err != nil {
		return err
	}
	submit := len(p.group) > 0
	p.group, p.marks, p.files = nil, nil, 0
	if !submit {
		return nil
	}
	failpoint.Hit("monitor.after_record")
	return p.drain(p.ctx, p.rec)
}

// finish takes what is left when the directory is read.
func (p *poll) finish() error {
	if p.rec.Condition.Kind == ConditionNoMatch {
		return p.none()
	}
	for {
		e, err := p.history.peek()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		p.history.next()
		if err := p.missing(*e); err != nil {
			return err
		}
	}
	if len(p.batch) > 0 {
		if err := p.trigger(); err != nil {
			return err
		}
	}
	return p.flush()
}

// none triggers where no file matches, once until one has been there. Where a directory was not
// read, that is not known.
func (p *poll) none() error {
	st, err := p.status()
	switch {
	case err != nil:
		return err
	case p.matched > 0 && st.Fired:
		return p.fired(false)
	case p.matched > 0 || st.Fired || len(p.unread) > 0:
		return nil
	}
	if err := p.trigger(); err != nil {
		return err
	}
	return p.flush()
}

// done notes what a whole poll has seen.
func (p *poll) done() {
	for key, s := range p.sightings.files {
		if s.poll != p.polls {
			delete(p.sightings.files, key) // it has gone, or has triggered
		}
	}
	watching := p.watcher != nil && !p.rec.onQueue() && p.rec.Condition.Kind != ConditionUnchanged
	if watching {
		p.watcher.Watch(p.runner, p.dirs)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Polled = p.Clock.Now()
	p.state.Took = p.state.Polled.Sub(p.now)
	p.state.Matched, p.state.Gone, p.state.Skipped, p.state.Watched = p.matched, p.gone, len(p.unread), watching
}
