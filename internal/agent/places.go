package agent

import (
	"context"
	"errors"
	"path/filepath"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/place/local"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// queuesDir is the directory for files that arrive for queues, in an agent's state directory.
const queuesDir = "queues"

// newPlaces are the local files of an agent, and the application queues of its queue manager.
func newPlaces(fs *local.FS, conn *qmgr.Conn, l *ledger.Ledger, clk clock.Clock, dir string) bothPlaces {
	from := queuesFrom(conn)
	to := func(principal string) placequeue.Writer { return qmgr.QueuesFor(conn, principal) }
	return bothPlaces{fs.Place(), from, &heldBook{ledger: l, from: from, clock: clk}, placequeue.NewTarget(to, filepath.Join(dir, queuesDir))}
}

// queuesFrom are the application queues as a source.
func queuesFrom(conn *qmgr.Conn) *placequeue.Source {
	return placequeue.NewSource(func(principal string) placequeue.Reader { return qmgr.QueuesFor(conn, principal) })
}

// bothPlaces are local files and queues. A request, and each DEST, says which of them it means.
type bothPlaces struct {
	local.Local
	from *placequeue.Source
	held *heldBook
	to   *placequeue.Target
}

var (
	_ place.Source     = bothPlaces{}
	_ place.Target     = bothPlaces{}
	_ place.FileBudget = bothPlaces{}
	_ place.Examiner   = queueSource{}
	_ place.Archiver   = queueSource{}
	_ place.Releaser   = queueSource{}
	_ place.Actor      = bothPlaces{}
)

// As is the places with errands of queues in the name of a principal.
func (b bothPlaces) As(principal string) place.Source {
	b.from = b.from.As(principal)
	return b
}

func (b bothPlaces) For(of transfer.Place, may place.Permit) place.Source {
	files := b.Local.For(of, may).(local.Local)
	if of != transfer.Queues {
		return files
	}
	return queueSource{b.from.For(of, may).(*placequeue.Source), b.held, files, files}
}

// queueSource is the queues for one request. Its triggers check files.
type queueSource struct {
	*placequeue.Source
	held *heldBook
	place.Examiner
	place.FileBudget
}

func (queueSource) MayArchive(*place.WalkRequest, transfer.Path) error { return noArchive() }

func (queueSource) Archive(transfer.Path, transfer.Version, string, transfer.Path, bool) (transfer.Path, error) {
	return "", noArchive()
}

func noArchive() error {
	return transfer.Errorf(transfer.KindUsage, "messages cannot be archived").WithHint("leave out --archive; --delete-source takes messages out of their queue")
}

// CheckOverlap finds none where DEST is a queue: files that are read and messages that are stored are never the same.
func (b bothPlaces) CheckOverlap(w *place.WalkRequest, dest transfer.Location, several bool) error {
	if dest.Place == transfer.Queues {
		return nil
	}
	return b.Local.CheckOverlap(w, dest, several)
}

// target is the place of a DEST.
func (b bothPlaces) target(of transfer.Place) place.Target {
	if of == transfer.Queues {
		return b.to
	}
	return b.Local
}

func (b bothPlaces) Resolve(dest transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	return b.target(dest.Place).Resolve(dest, several, may)
}

func (b bothPlaces) Resolved(res transfer.Resolution, may place.Permit) (transfer.Resolution, error) {
	return b.target(res.Place).Resolved(res, may)
}

func (b bothPlaces) Ready(at transfer.Resolution) error { return b.target(at.Place).Ready(at) }

func (b bothPlaces) Free(at transfer.Resolution) (int64, error) { return b.target(at.Place).Free(at) }

func (b bothPlaces) Land(cfg place.LandConfig) place.Landing {
	l := &bothLandings{local: b.Local.Land(cfg), queue: b.to.Land(cfg)}
	return l.choose(cfg.Resolution)
}

// bothLandings land the items of one transfer, those of one destination in Landing.
type bothLandings struct {
	place.Landing
	local, queue place.Landing
}

func (l *bothLandings) choose(at transfer.Resolution) *bothLandings {
	if l.Landing = l.local; at.Place == transfer.Queues {
		l.Landing = l.queue
	}
	return l
}

func (l *bothLandings) At(to place.Destination) place.Landing {
	other := &bothLandings{local: l.local.At(to), queue: l.queue.At(to)}
	return other.choose(to.Resolution)
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

// Tidy has each place remove its leftovers.
func (l *bothLandings) Tidy(dirs []transfer.Path, some bool) error {
	var files, queues []transfer.Path
	for _, d := range dirs {
		if placequeue.Holds(d) {
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
