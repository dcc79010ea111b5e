package monitor

// A poll is one read of a directory or queue. It compares the files with the history, and makes triggers of those that
// trigger.
type poll struct {
	rec     *record
	host    host
	book    *monitorEntries
	compare *comparison
	collect *collector
	maker   *maker
	batch   []file
	matched int
	held    bool  // the monitor is ordered, and one of its transfers is running or just being recorded
	problem error // of a directory or file; the last one
}

// add adds a file to the batch. A full batch is a trigger.
func (p *poll) add(f file) error {
	if p.batch = append(p.batch, f); len(p.batch) == p.rec.Batch {
		return p.trigger()
	}
	return nil
}

// trigger makes triggers of the files of the batch. The next poll finds files again that cannot be read now.
func (p *poll) trigger() error {
	files := p.batch
	p.batch = nil
	if p.held {
		return nil
	}
	p.held = p.rec.Ordered
	all, problem := p.maker.triggers(files)
	if problem != nil {
		p.problem = problem
	}
	for _, t := range all {
		if err := p.collect.add(t); err != nil {
			return err
		}
	}
	return nil
}

// finish handles the rest of the batch and of the history after the directory is read.
func (p *poll) finish() error {
	if p.rec.Condition.Kind == ConditionNoMatch {
		return p.none()
	}
	if err := p.compare.rest(); err != nil {
		return err
	}
	if len(p.batch) > 0 {
		if err := p.trigger(); err != nil {
			return err
		}
	}
	return p.collect.flush()
}

// none triggers if no file matches, only once until a file exists again. If a directory was not read, that is unknown.
func (p *poll) none() error {
	st, err := p.book.status()
	switch {
	case err != nil:
		return err
	case p.matched > 0 && st.Fired:
		return p.book.fired(p.rec, false)
	case p.matched > 0 || st.Fired || len(p.compare.unread) > 0:
		return nil
	}
	if err := p.trigger(); err != nil {
		return err
	}
	return p.collect.flush()
}

// unread records a directory beneath the watched one that could not be read.
func (p *poll) unread(key string, why error) {
	p.compare.unread = append(p.compare.unread, key)
	p.problem = why
}
