package walk

import (
	"cmp"
	"slices"

	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Reader reads the items of an accepted request: those of its head from its ledger entry, and others by parts from
// the ledger. It keeps the last part. It belongs to one goroutine.
type Reader struct {
	ledger  *ledger.Ledger
	Request *transfer.Request
	from    int // the index of the first item of part
	part    []transfer.RequestItem
	starts  []int // of the parts that were read: the indexes of their first items
}

// Item returns the nth request item, counted from 0.
func (a *Reader) Item(n int) (*transfer.RequestItem, error) {
	if n < len(a.Request.Items) {
		return &a.Request.Items[n], nil
	}

	if n < a.from || n >= a.from+len(a.part) {
		k, _ := slices.BinarySearch(a.starts, n+1)
		if k > 0 && a.starts[k-1] != a.from {
			a.from, a.part = a.starts[k-1], nil
		}
	}

	for n >= a.from+len(a.part) {
		if err := a.next(); err != nil {
			a.from, a.part = 0, nil
			return nil, err
		}
	}
	return &a.part[n-a.from], nil
}

// next reads the following part.
func (a *Reader) next() error {
	a.from = max(a.from+len(a.part), len(a.Request.Items))
	var p *transfer.Part
	err := a.ledger.View(func(t *ledger.Tx) (err error) {
		p, err = t.Requests().AcceptedPart(a.Request.ID, a.from)
		return err
	})
	if err != nil {
		return err
	}
	if k := len(a.starts); k == 0 || a.starts[k-1] < a.from {
		a.starts = append(a.starts, a.from)
	}
	a.part, err = p.Read()
	return err
}

// each calls fn for the items from an index on, in order, until it reports false.
func (a *Reader) each(from int, fn func(n int, it *transfer.RequestItem) bool) error {
	for n := from; n < a.Request.Count(); n++ {
		it, err := a.Item(n)
		if err != nil {
			return err
		}
		if !fn(n, it) {
			return nil
		}
	}
	return nil
}

// Reader returns a reader of the items of a transfer's request.
func (c *Config) Reader(rec *ledger.Source) *Reader {
	return &Reader{ledger: c.Ledger, Request: &rec.Request}
}

// A Task is the way in which the files of a request item are sent.
type Task struct {
	Arg     int // the request item; -1: none yet
	To      uint64
	Expect  transfer.Version // of the file to send; empty: any version
	Options transfer.Options
	Dest    transfer.Location
	Method  digest.Method
	Content bool // the form of the content may matter, not only the bytes
}

// Task returns the task for the files of a request item.
func (a *Reader) Task(arg int) (t Task, err error) {
	it, err := a.Item(arg)
	if err != nil {
		return t, err
	}

	t.Arg, t.Expect = arg, it.Expected
	if it.Own() {
		t.To = uint64(arg) + 1
	}

	if t.Options, t.Dest, err = conversion.Effective(a.Request, it); err != nil {
		return t, err
	}

	t.Content = conversion.Involved(&t.Options, it.Source, t.Dest)
	t.Method, err = digest.ParseMethod(t.Options.Checksum)
	return t, err
}

// A CommonDest is the destination of a request's items without a DEST of their own.
type CommonDest struct {
	Dest    transfer.Location // as the destination is to take it; zero: there are no such items
	Several bool              // it must be a directory
}

// add adds an item.
func (c *CommonDest) add(p place.Source, q *transfer.Request, source transfer.Location, first bool) {
	many, unnamed := p.Expands(source)
	c.Several = c.Several || many || !first
	if unnamed || q.Base != "" {
		c.Dest = c.Dest.AsDirectory() // its content goes into DEST, existing or not
	}
}

// CommonDest returns the destination of the items without a DEST of their own.
func (c *Config) CommonDest(a *Reader) (CommonDest, error) {
	return c.commonDest(a.Request, func(fn func(int, *transfer.RequestItem) bool) error { return a.each(0, fn) })
}

// commonDest is CommonDest for a request; each iterates over its items.
func (c *Config) commonDest(q *transfer.Request, each func(func(int, *transfer.RequestItem) bool) error) (CommonDest, error) {
	to := CommonDest{Several: q.Base != ""}
	first := true
	err := each(func(_ int, it *transfer.RequestItem) bool {
		if it.Own() {
			return true
		}
		if first {
			to.Dest = q.Dest
		}
		to.add(c.Place, q, it.Source, first)
		first = false
		return true
	})
	return to, err
}

// target returns the target of an item with a DEST or options of its own, for the destination.
func (c *Config) target(q *transfer.Request, n int, it *transfer.RequestItem) (transfer.Target, error) {
	options, dest, err := conversion.Effective(q, it)
	to := CommonDest{Dest: dest}
	to.add(c.Place, q, it.Source, true)
	options.Recursive = false
	return transfer.Target{N: uint64(n) + 1, Dest: to.Dest, Several: to.Several, Resolved: it.Resolved, Options: options}, err
}

// maxTargets is the default of Config.MaxTargets.
const maxTargets = 32 << 10

// Targets returns the next targets that the destination has not resolved; nil: it has all.
func (c *Config) Targets(a *Reader, after uint64) (*wire.Targets, error) {
	all := &wire.Targets{After: after}
	size := 0
	var failed error
	err := a.each(int(after), func(n int, it *transfer.RequestItem) bool {
		if !it.Own() {
			return true
		}
		if all.More = size > cmp.Or(c.MaxTargets, maxTargets); all.More {
			return false
		}
		var t transfer.Target
		if t, failed = c.target(a.Request, n, it); failed != nil {
			return false
		}
		size += len(wire.Marshal(t))
		all.List = append(all.List, t)
		return true
	})
	if err = cmp.Or(err, failed); err != nil || len(all.List) == 0 {
		return nil, err
	}
	return all, nil
}

// ResolvedAs reports whether the destination has resolved the requested targets, or the first ones of them.
func ResolvedAs(asked *wire.Targets, all []transfer.Resolved) bool {
	if asked == nil || len(all) == 0 || len(all) > len(asked.List) {
		return asked == nil && len(all) == 0
	}
	for n := range all {
		if all[n].N != asked.List[n].N {
			return false
		}
	}
	return true
}

// PutResolved records the resolutions of targets.
func PutResolved(t *ledger.Tx, rec *ledger.Source, all []transfer.Resolved) error {
	if len(all) > 0 {
		rec.Targets = all[len(all)-1].N
	}
	return t.Requests().PutResolved(rec.Request.ID, all)
}

// Resolved reads the resolutions of a transfer's targets.
func Resolved(t *ledger.Tx, id transfer.ID) (all []transfer.Resolved, err error) {
	err = t.Requests().Resolved(id, func(r transfer.Resolved) error {
		all = append(all, r)
		return nil
	})
	return all, err
}

// walkRequest returns the walk of an accepted transfer, once all destinations are known.
func (c *Config) walkRequest(rec *ledger.Source) (w place.WalkRequest, err error) {
	w = c.walkOf(&rec.Request)
	if rec.Request.Removes() {
		w.Taker = rec.Request.ID
	}
	var resolved []transfer.Resolved
	if err = c.Ledger.View(func(t *ledger.Tx) (err error) {
		resolved, err = Resolved(t, rec.Request.ID)
		return err
	}); err != nil {
		return w, err
	}

	here := c.bothEnds(&rec.Request)
	groups := map[transfer.Resolution]*place.Group{}
	group := func(r transfer.Resolution) *place.Group {
		if groups[r] == nil {
			groups[r] = &place.Group{Into: r, Here: here && r.Base != ""}
		}
		return groups[r]
	}
	var all transfer.Resolution
	if rec.Resolution != nil {
		all = *rec.Resolution
	}

	err = c.Reader(rec).each(0, func(n int, it *transfer.RequestItem) bool {
		arg := argumentOf(&rec.Request, it)
		arg.Group = group(all)
		if it.Own() {
			arg.Group = nil
			for len(resolved) > 0 && resolved[0].N <= uint64(n)+1 {
				if arg.Group = group(resolved[0].Resolution); resolved[0].Error != nil {
					arg.Group = &place.Group{} // its files fail there, each by itself
				}
				resolved = resolved[1:]
			}
		}
		w.Args = append(w.Args, arg)
		return true
	})
	return w, err
}

// argumentOf returns the source of a request item as an argument of a walk.
func argumentOf(q *transfer.Request, it *transfer.RequestItem) place.Argument {
	return place.Argument{Source: it.Source, Picked: it.Picked, Recursive: it.Recursive || q.Recursive}
}

// walkOf returns the walk of a request, without its arguments.
func (c *Config) walkOf(q *transfer.Request) place.WalkRequest {
	w := place.WalkRequest{Base: q.Base}
	if q.Retry != nil {
		w.Only = q.Retry.Only
	}
	return w
}

// A Survey is the list of items that a request would send, for a preview.
type Survey struct {
	Walk    place.WalkRequest
	Preview wire.Preview // with its destinations
}

// Survey splits up a request that has all of its items. Items of one DEST form a group.
func (c *Config) Survey(q *transfer.Request) (*Survey, error) {
	s := &Survey{Walk: c.walkOf(q)}
	to, err := c.commonDest(q, func(fn func(int, *transfer.RequestItem) bool) error {
		for n := range q.Items {
			fn(n, &q.Items[n])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	s.Preview.Dest, s.Preview.Several = to.Dest, to.Several
	groups := map[transfer.Location]*place.Group{}
	for n := range q.Items {
		it := &q.Items[n]
		arg := argumentOf(q, it)
		if it.Own() {
			t, err := c.target(q, n, it)
			if err != nil {
				return nil, err
			}
			s.Preview.Targets = append(s.Preview.Targets, t)
			if groups[t.Dest] == nil {
				groups[t.Dest] = &place.Group{}
			}
			arg.Group = groups[t.Dest]
		}
		s.Walk.Args = append(s.Walk.Args, arg)
	}
	return s, nil
}

// checkRemoval returns the reason why the sources cannot be deleted or archived as the request says; nil: they can.
func (c *Config) checkRemoval(q *transfer.Request, items []transfer.RequestItem, w place.WalkRequest) error {
	all := w.Args
	to := map[transfer.Path][]place.Argument{} // by archive; empty: the files to delete
	for n := range items {
		if o := q.Of(&items[n]); o.Removes() {
			to[o.Archive] = append(to[o.Archive], all[n])
		}
	}

	for dir, args := range to {
		w.Args = args
		d, deletes := c.Place.(place.Deleter)
		a, archives := c.Place.(place.Archiver)
		var err error
		switch {
		case dir == "" && deletes:
			err = d.MayDelete(&w)
		case dir != "" && archives:
			err = a.MayArchive(&w, dir)
		default:
			err = transfer.Errorf(transfer.KindUsage, "%s cannot delete or archive its source files", c.Agent).WithHint("leave out --delete-source and --archive")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckItself returns the error of a request that would delete sources in a place without deletion. At an agent that is
// both ends, it also refuses a request that would send a file or directory into or onto itself. items are all items of
// the request.
func (c *Config) CheckItself(q *transfer.Request, items []transfer.RequestItem) error {
	whole := *q
	whole.Items, whole.Rest = items, nil
	s, err := c.Survey(&whole)
	if err != nil {
		return err
	}

	if err := c.checkRemoval(q, items, s.Walk); err != nil {
		return err
	}

	n, ok := c.Place.(place.OverlapChecker)
	if !ok || !c.bothEnds(q) {
		return nil
	}

	shared := s.Walk
	shared.Args = nil
	for k, targets := 0, s.Preview.Targets; k < len(items); k++ {
		if !items[k].Own() {
			shared.Args = append(shared.Args, s.Walk.Args[k])
			continue
		}
		one := s.Walk
		one.Args = s.Walk.Args[k : k+1]
		if err := n.CheckOverlap(&one, targets[0].Dest, targets[0].Several); err != nil {
			return err
		}
		targets = targets[1:]
	}

	if len(shared.Args) == 0 {
		return nil
	}
	return n.CheckOverlap(&shared, s.Preview.Dest, s.Preview.Several)
}
