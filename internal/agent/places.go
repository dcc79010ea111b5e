package agent

import (
	"context"
	"errors"
	"path/filepath"

	"ferry/internal/localfs"
	"ferry/internal/messages"
	"ferry/internal/place"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
)

// queuesDir is where in an agent's state directory files are kept that arrive for queues.
const queuesDir = "queues"

// newPlaces are the local files of an agent, and the application queues of its queue manager.
func newPlaces(fs *localfs.FS, conn *qmgr.Conn, dir string) bothPlaces {
	queues := qmgr.QueuesOf(conn)
	return bothPlaces{fs.Place(), messages.NewSource(queues), messages.NewTarget(queues, filepath.Join(dir, queuesDir))}
}

// bothPlaces sends what has the path of a queue to queues, and all else to local files.
type bothPlaces struct {
	localfs.Local
	from *messages.Source
	to   *messages.Target
}

var (
	_ place.Source         = bothPlaces{}
	_ place.Target         = bothPlaces{}
	_ place.Deleter        = bothPlaces{}
	_ place.Releaser       = bothPlaces{}
	_ place.OverlapChecker = bothPlaces{}
	_ place.Examiner       = bothPlaces{}
	_ place.FileBudget     = bothPlaces{}
)

func (b bothPlaces) For(may place.Permit) place.Source {
	return bothPlaces{b.Local.For(may).(localfs.Local), b.from.For(may).(*messages.Source), b.to}
}

// queued reports whether the sources of a walk are queues. All are, or none is: a walk goes through one place.
func queued(w *place.WalkRequest) (bool, error) {
	if w.Base != "" || len(w.Args) == 0 {
		return false, nil // names beneath a directory
	}
	first := w.Args[0].Source
	for n := range w.Args {
		if err := oneKind(first, w.Args[n].Source); err != nil {
			return false, err
		}
	}
	return messages.Is(first), nil
}

// oneKind refuses two sources of which one is a queue.
func oneKind(a, b transfer.Path) error {
	if messages.Is(a) == messages.Is(b) {
		return nil
	}
	return transfer.Errorf(transfer.KindUsage, "%s and %s cannot be sent by one request: one is a queue, the other one is not", a, b).
		WithHint("send them one after the other")
}

// onePlace refuses a request whose sources are files and queues, or whose files are to become messages
// together: each is stored by itself.
func onePlace(q *transfer.Request, rest []transfer.RequestItem) error {
	into := messages.Is(q.Dest)
	for _, items := range [][]transfer.RequestItem{q.Items, rest} {
		for n := range items {
			into = into || messages.Is(items[n].Dest)
			if q.Base != "" {
				continue // names beneath a directory
			}
			if err := oneKind(q.Items[0].Source, items[n].Source); err != nil {
				return err
			}
		}
	}
	if into && q.Together {
		return transfer.Errorf(transfer.KindUsage, "--together is for files that get names, and messages of a queue have none").WithHint("leave out --together")
	}
	return nil
}

func (b bothPlaces) Walk(ctx context.Context, w place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	of, err := queued(&w)
	switch {
	case err != nil:
		return 0, err
	case of:
		return b.from.Walk(ctx, w, emit)
	}
	return b.Local.Walk(ctx, w, emit)
}

func (b bothPlaces) Expands(p transfer.Path) (several, unnamed bool) {
	if messages.Is(p) {
		return b.from.Expands(p)
	}
	return b.Local.Expands(p)
}

func (b bothPlaces) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	if messages.Is(p) {
		return b.from.StatDir(p)
	}
	return b.Local.StatDir(p)
}

func (b bothPlaces) Files(first transfer.Path) place.Files {
	if messages.Is(first) {
		return b.from.Files(first)
	}
	return b.Local.Files(first)
}

func (b bothPlaces) MayDelete(w *place.WalkRequest) error {
	of, err := queued(w)
	switch {
	case err != nil:
		return err
	case of:
		return b.from.MayDelete(w)
	}
	return b.Local.MayDelete(w)
}

func (b bothPlaces) Delete(p transfer.Path, v transfer.Version, aside string, again bool) error {
	if messages.Is(p) {
		return b.from.Delete(p, v, aside, again)
	}
	return b.Local.Delete(p, v, aside, again)
}

// Release ends that messages are held for a transfer. Files are not held.
func (b bothPlaces) Release(id transfer.ID, sources []transfer.Path) error {
	return b.from.Release(id, sources)
}

func (b bothPlaces) DropForm(p transfer.Path) error {
	if messages.Is(p) {
		return b.from.DropForm(p)
	}
	return b.Local.DropForm(p)
}

// MayArchive refuses to move messages: there is no directory for them.
func (b bothPlaces) MayArchive(w *place.WalkRequest, dir transfer.Path) error {
	of, err := queued(w)
	switch {
	case err != nil:
		return err
	case of || messages.Is(dir):
		return transfer.Errorf(transfer.KindUsage, "messages cannot be archived, and files not in a queue").WithHint("leave out --archive; --delete-source takes messages out of their queue")
	}
	return b.Local.MayArchive(w, dir)
}

// CheckOverlap finds none where a queue is at one end: what is read of it was there before.
func (b bothPlaces) CheckOverlap(w *place.WalkRequest, dest transfer.Path, several bool) error {
	of, err := queued(w)
	if err != nil || of || messages.Is(dest) {
		return err
	}
	return b.Local.CheckOverlap(w, dest, several)
}

func (b bothPlaces) Resolve(dest transfer.Path, several bool) (transfer.Resolution, error) {
	if messages.Is(dest) {
		return b.to.Resolve(dest, several)
	}
	return b.Local.Resolve(dest, several)
}

func (b bothPlaces) Resolved(res transfer.Resolution) (transfer.Resolution, error) {
	if messages.Is(res.Base) {
		return b.to.Resolved(res)
	}
	return b.Local.Resolved(res)
}

func (b bothPlaces) Ready(base transfer.Path) error {
	if messages.Is(base) {
		return b.to.Ready(base)
	}
	return b.Local.Ready(base)
}

func (b bothPlaces) Free(base transfer.Path) (int64, error) {
	if messages.Is(base) {
		return b.to.Free(base)
	}
	return b.Local.Free(base)
}

func (b bothPlaces) Land(cfg place.LandConfig) place.Landing {
	l := &bothLandings{local: b.Local.Land(cfg), queue: b.to.Land(cfg)}
	return l.choose(cfg.Resolution.Base)
}

// bothLandings land the items of one transfer, those of one destination in Landing.
type bothLandings struct {
	place.Landing
	local, queue place.Landing
}

func (l *bothLandings) choose(base transfer.Path) *bothLandings {
	if l.Landing = l.local; messages.Is(base) {
		l.Landing = l.queue
	}
	return l
}

func (l *bothLandings) At(to place.Destination) place.Landing {
	other := &bothLandings{local: l.local.At(to), queue: l.queue.At(to)}
	return other.choose(to.Resolution.Base)
}

// Commit decides those of a group that go to local files, and then those that go to queues.
func (l *bothLandings) Commit(ctx context.Context, group []place.Pending) (done []transfer.Outcome, err error) {
	var files, msgs []place.Pending
	for _, p := range group {
		at := l
		if p.At != nil {
			at = p.At.(*bothLandings)
			p.At = at.Landing
		}
		if at.Landing == at.queue {
			msgs = append(msgs, p)
		} else {
			files = append(files, p)
		}
	}
	if len(files) > 0 {
		done, err = l.local.Commit(ctx, files)
	}
	if len(msgs) > 0 && err == nil {
		var more []transfer.Outcome
		more, err = l.queue.Commit(ctx, msgs)
		done = append(done, more...)
	}
	return done, err
}

// Tidy has each place look where it may have left something.
func (l *bothLandings) Tidy(dirs []transfer.Path, some bool) error {
	var files, queues []transfer.Path
	for _, d := range dirs {
		if messages.Is(d) {
			queues = append(queues, d)
		} else {
			files = append(files, d)
		}
	}
	var err error
	if len(queues) > 0 {
		err = l.queue.Tidy(queues, some)
	}
	return errors.Join(l.local.Tidy(files, some), err)
}

func (l *bothLandings) Close() error { return errors.Join(l.local.Close(), l.queue.Close()) }
