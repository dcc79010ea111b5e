package monitor

import (
	"sync"
	"time"

	"ferry/internal/transfer"
)

// stamps gives the triggers of an agent their times.
type stamps struct {
	mu   sync.Mutex
	last time.Time
}

// next returns the time of a trigger in milliseconds. It never returns the same time twice while the agent runs, so
// that a name made of the time is unique.
func (s *stamps) next(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = now.Truncate(time.Millisecond)
	if !now.After(s.last) {
		now = s.last.Add(time.Millisecond)
	}
	s.last = now
	return now
}

// A maker makes the triggers of a poll out of files.
type maker struct {
	rec    *record
	host   host
	now    time.Time
	stamps *stamps
	form   *form // of trigger files; nil: none
}

// triggers makes a trigger of several files. If a single file is the reason why they cannot be submitted, that file
// becomes a refused trigger of its own, and the others become one trigger. problem is the reason why a trigger file
// cannot be read now: the next poll finds it again.
func (m *maker) triggers(files []file) (all []*trigger, problem error) {
	t := &trigger{files: files, at: m.stamps.next(m.now), id: transfer.NewID(m.now)}
	s := &triggerVariables{agent: m.host.services.Agent, monitor: m.rec.Name, transfer: t.id, now: t.at, files: files, defaults: m.rec.Defaults}
	var lines []line
	if m.form != nil {
		content, err := m.host.triggerFile(&files[0])
		if err != nil {
			return nil, err
		}
		lines, t.refused = m.form.lines(content)
	}
	if t.refused == nil {
		t.refused = givenUp(files)
	}
	if t.refused == nil {
		t.request, t.refused = m.rec.request(s, lines)
	}
	if t.refused == nil || len(files) <= 1 {
		return []*trigger{t}, nil
	}
	var fit []file
	for n := range files {
		one := *s
		one.files = files[n : n+1]
		if _, err := m.rec.request(&one, nil); err == nil {
			fit = append(fit, files[n])
			continue
		}
		refused, err := m.triggers(files[n : n+1])
		if err != nil {
			return all, err
		}
		all = append(all, refused...)
	}
	switch {
	case len(fit) == 0:
		return all, nil
	case len(fit) == len(files):
		return append(all, t), nil
	}
	rest, err := m.triggers(fit)
	return append(all, rest...), err
}

// givenUp returns the reason why messages with only failed transfers do not trigger any more. They stay in the queue.
func givenUp(files []file) error {
	for n := range files {
		f := &files[n]
		switch {
		case f.tries <= maxRetries:
		case f.isFile():
			return transfer.Errorf(transfer.KindReplaced, "%d transfers of %s have ended because the file was another version when it was opened, and the directory shows the same version", f.tries, f.Path).
				WithHint("look at the file system: an open file has another identity there; `ferry monitor clear` has everything sent again")
		default:
			return transfer.Errorf(transfer.KindTimeout, "%d transfers of %s have failed; the messages stay in the queue", f.tries, f.Path).
				WithHint("`ferry monitor clear` has all that is in the queue sent again, when the reason is gone")
		}
	}
	return nil
}
