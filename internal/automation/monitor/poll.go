package monitor

import (
	"context"
	"path"
	"strings"
	"time"

	"ferry/internal/place/local"
	"ferry/internal/place/local/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Limits of one transaction.
const (
	groupTriggers = 256
	groupFiles    = 1000
)

// A missing file stays in the history for keptGone, so that a share that is empty for a while does not make Ferry send
// all its files again. The time is halved for each goneMost missing files.
const (
	keptGone = 7 * 24 * time.Hour
	goneMost = 100_000
)

// A poll is one read of a directory or queue.
type poll struct {
	*runner
	ctx     context.Context
	rec     *record
	now     time.Time
	counts  bool // for the condition unchanged: an interval has passed since the last poll that counted
	history *cursor
	matcher
	form *form // of trigger files; nil: none

	batch   []file
	group   []*trigger
	files   int // of the group
	marks   []known
	unread  []string // keys of directories that were not read, so that their files are unknown
	problem error    // of a directory or file; the last one
	matched int
	gone    int
	dirs    []string
	held    bool          // the monitor is ordered, and one of its transfers is running or just being recorded
	next    time.Duration // time until the first waiting file may be complete; 0: none waits
}

// A trigger is a trigger that the poll will record.
type trigger struct {
	files   []file
	request *transfer.Request
	refused error // the reason why there is no request
	at      time.Time
	id      transfer.ID
}

// poll reads the directory once, and records and submits the triggers that it finds. The error is the reason why it
// could not do all. next is the time until a waiting file may be complete, or 0 if none waits.
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
	if p.rec.OnQueue() {
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

// notified reports whether a notification makes the next poll come earlier. An early poll does not count for the
// condition unchanged.
func (p *poll) notified() bool {
	return p.watcher != nil && !p.rec.OnQueue() && !p.rec.Exact && p.rec.Condition.Kind != ConditionUnchanged
}

func (p *poll) scan() error {
	if p.rec.OnQueue() {
		return p.look()
	}
	place, _ := p.FS.Place().For(transfer.Files, p.Permit(p.rec.Principal)).(local.Local)
	scan := func() error {
		return place.Scan(p.ctx, walk.ScanRequest{Dir: p.rec.Dir.Path, Levels: p.rec.Levels, Want: p.wants, Entered: func(real string) {
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

// await watches the nearest existing directory above the monitor's missing one, and reports whether there is one. A
// notice of the next directory on the path makes the next poll come earlier.
func (p *poll) await(place local.Local) bool {
	for missing, up := "", string(p.rec.Dir.Path); missing != up; {
		missing, up = up, path.Dir(up)
		real := ""
		ctx, stop := context.WithCancel(p.ctx)
		place.Scan(ctx, walk.ScanRequest{Dir: transfer.Path(up), Want: func(string) bool { return false }, Entered: func(at string) {
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

// found handles a file of the scan.
func (p *poll) found(f *walk.Found) error {
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

// there records that a file of the history exists again.
func (p *poll) there(e *known) error {
	if e.gone == 0 {
		return nil
	}
	e.gone = 0
	return p.mark(*e)
}

// before returns the history entry of a file. It handles the entries before that as missing files.
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

// unreadable forgets a damaged entry. The entry does not show whether this version of the file was sent: if the file
// exists, it is sent again, so that none is lost.
func (p *poll) unreadable(e known) error {
	p.Log.Error("read entry in history of monitor failed; the file is sent again if it is there", "monitor", p.name,
		"file", transfer.Path(strings.ReplaceAll(e.key, "\x00", "/")), "error", e.damaged)
	e.gone = dropped
	return p.mark(e)
}

// missing handles a file of the history that was not found.
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

// dropped is the value of gone for an entry to be deleted.
const dropped = -1

// keeps returns the time that missing files stay in the history, by their number at the last poll.
func (r *runner) keeps() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keptGone >> min(r.state.Gone/goneMost, 30)
}

// mark records a change of the history.
func (p *poll) mark(e known) error {
	if p.marks = append(p.marks, e); len(p.marks) < groupFiles {
		return nil
	}
	return p.flush()
}

// meets reports whether a file meets the condition.
func (p *poll) meets(key string, f *walk.Found, is identity) bool {
	c := p.rec.Condition
	switch {
	case c.Kind == ConditionUnchanged:
		return p.unchanged(key, is, c.Value)
	case c.Kind == ConditionSize && is.size < c.Value:
		return false
	}
	return p.settled(key, f, is)
}

// trigger makes a trigger of the files of the batch. The next poll finds files again that cannot be read now.
func (p *poll) trigger() error {
	files := p.batch
	p.batch = nil
	if p.held {
		return nil
	}
	p.held = p.rec.Ordered
	return p.together(files)
}

// together makes a trigger of several files. If a single file is the reason why they cannot be submitted, that file
// becomes a refused trigger of its own, and the others are submitted.
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

// flush records the group and the changes of the history, and submits the triggers.
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

// finish handles the rest of the batch and of the history after the directory is read.
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

// none triggers if no file matches, only once until a file exists again. If a directory was not read, that is unknown.
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

// done records the results of a complete poll.
func (p *poll) done() {
	for key, s := range p.sightings.files {
		if s.poll != p.polls {
			delete(p.sightings.files, key) // it is gone, or has triggered
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
