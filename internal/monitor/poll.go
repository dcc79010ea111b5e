package monitor

import (
	"context"
	"path"
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
	held    bool          // the monitor is ordered, and a transfer of it is under way, or is recorded just now
	next    time.Duration // until the first file that waits may be complete; 0: none waits
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
// next is how long it is until a file that waits may be complete; 0: none waits.
func (r *runner) poll(ctx context.Context, rec *record, held bool) (next time.Duration, err error) {
	select {
	case r.scans <- struct{}{}:
		defer func() { <-r.scans }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	p := &poll{runner: r, ctx: ctx, rec: rec, now: r.Clock.Now(), history: newCursor(r.Ledger, r.name), held: held}
	if err := p.prepare(); err != nil {
		return 0, err
	}
	if err := p.scan(); err != nil {
		return 0, err
	}
	if err := p.finish(); err != nil {
		return 0, err
	}
	p.done()
	return p.next, p.problem
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
	p.begin()
	if p.counts = p.counted.IsZero() || p.now.Sub(p.counted) >= time.Duration(p.rec.Poll); p.counts {
		p.counted = p.now
	}
	if p.notified() {
		p.listen(p.wants)
	} else {
		p.listen(nil)
	}
	return nil
}

// notified reports whether a notification brings a poll forward. With the condition unchanged one that comes early
// counts for nothing.
func (p *poll) notified() bool {
	return p.watcher != nil && !p.rec.onQueue() && !p.rec.Exact && p.rec.Condition.Kind != ConditionUnchanged
}

func (p *poll) scan() error {
	if p.rec.onQueue() {
		return p.look()
	}
	place, _ := p.FS.Place().For(transfer.Files, p.Permit(p.rec.Principal)).(localfs.Local)
	scan := func() error {
		return place.Scan(p.ctx, localfs.ScanRequest{Dir: p.rec.Dir.Path, Levels: p.rec.Levels, Want: p.wants, Entered: func(real string) {
			if len(p.dirs) < maxWatched {
				p.dirs = append(p.dirs, real)
			}
		}}, p.found)
	}
	err := scan()
	if transfer.KindOf(err) == transfer.KindMissing && len(p.dirs) == 0 && p.notified() && p.await(place) {
		err = scan() // it may have been made before the watch
	}
	if transfer.KindOf(err) == transfer.KindMissing {
		err = transfer.Errorf(transfer.KindMissing, "the directory %s is not there", p.rec.Dir).WithHint("the monitor looks for it again; nothing is forgotten meanwhile")
	}
	return err
}

// await watches the nearest directory above the monitor's, which is missing, and reports whether there is one. A notice of
// the next directory on the way brings the next poll forward.
func (p *poll) await(place localfs.Local) bool {
	for missing, up := "", string(p.rec.Dir.Path); missing != up; {
		missing, up = up, path.Dir(up)
		real := ""
		ctx, stop := context.WithCancel(p.ctx)
		place.Scan(ctx, localfs.ScanRequest{Dir: transfer.Path(up), Want: func(string) bool { return false }, Entered: func(at string) {
			real = at
			stop() // its names do not matter
		}}, p.found)
		stop()
		if real == "" {
			continue
		}
		p.mu.Lock()
		p.wanted, p.awaited = nil, path.Join(real, path.Base(missing))
		p.mu.Unlock()
		p.watcher.Watch(p.runner, []string{real})
		return true
	}
	return false
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
	is := identityOf(f)
	e, err := p.before(key)
	if err != nil {
		return err
	}
	if e != nil && e.identity == is && !e.again {
		return p.there(e)
	}
	if !p.meets(key, f, is) || p.held {
		return nil
	}
	one := file{Found: *f}
	switch {
	case e == nil:
	case e.again && e.identity == is:
		one.tries = e.tries + 1
	case !e.again && e.differsInCtime(is):
		if known, err := p.sentBefore(e, f, is); known || err != nil {
			return err
		}
	}
	if p.batch = append(p.batch, one); len(p.batch) == p.rec.Batch {
		return p.trigger()
	}
	return nil
}

// there notes that a file of the history is there, where it was gone.
func (p *poll) there(e *known) error {
	if e.gone == 0 {
		return nil
	}
	e.gone = 0
	return p.mark(*e)
}

// before is what the history has of a file. What it has of others before that is gone.
func (p *poll) before(key string) (*known, error) {
	for {
		e, err := p.history.peek()
		if err != nil || e == nil || e.key > key {
			return nil, err
		}
		p.history.next()
		if e.key == key && e.damaged != nil {
			return nil, p.unreadable(*e)
		}
		if e.key == key {
			return e, nil
		}
		if err := p.missing(*e); err != nil {
			return nil, err
		}
	}
}

// unreadable forgets a damaged entry. It does not tell whether this version of the file was sent: if the file is there, it
// is sent again, so that none is lost.
func (p *poll) unreadable(e known) error {
	p.Log.Error("read entry in history of monitor failed; the file is sent again if it is there", "monitor", p.name,
		"file", transfer.Path(strings.ReplaceAll(e.key, "\x00", "/")), "error", e.damaged)
	e.gone = dropped
	return p.mark(e)
}

// missing takes a file of the history that was not found.
func (p *poll) missing(e known) error {
	if e.damaged != nil {
		return p.unreadable(e)
	}
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
func (p *poll) meets(key string, f *localfs.Found, is identity) bool {
	c := p.rec.Condition
	switch {
	case c.Kind == ConditionUnchanged:
		return p.unchanged(key, is, c.Value)
	case c.Kind == ConditionSize && is.size < c.Value:
		return false
	}
	return p.settled(key, f, is)
}

// trigger makes one of the files that are together. What cannot be read now the next poll finds again.
func (p *poll) trigger() error {
	files := p.batch
	p.batch = nil
	if p.held {
		return nil
	}
	p.held = p.rec.Ordered
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
	watching := p.notified()
	switch {
	case watching:
		p.watcher.Watch(p.runner, p.dirs)
	case p.watcher != nil:
		p.watcher.Watch(p.runner, nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetMoved(watching)
	p.state.Settling = 0
	if p.rec.Settle > 0 {
		p.state.Settling = len(p.sightings.files)
	}
	p.state.Polled = p.Clock.Now()
	p.state.Took = p.state.Polled.Sub(p.now)
	p.state.Matched, p.state.Gone, p.state.Skipped, p.state.Watched = p.matched, p.gone, len(p.unread), watching
}
