package agent

import (
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

// newPlaces returns the places of an agent: its local files, and the application queues of its queue manager. A further
// place is one more Route.
func newPlaces(fs *local.FS, conn *qmgr.Conn, l *ledger.Ledger, clk clock.Clock, dir string) (*place.Router, *holds) {
	from := queuesFrom(conn)
	held := &holds{ledger: l, from: from, clock: clk}
	to := func(principal string) placequeue.Writer { return qmgr.QueuesFor(conn, principal) }
	files := fs.Place()
	return place.NewRouter(files,
		place.Route{Of: transfer.Queues, Source: queueSource{from, held, files, files}, Target: placequeue.NewTarget(to, filepath.Join(dir, queuesDir)), Holds: placequeue.Holds},
	), held
}

// queuesFrom are the application queues as a source.
func queuesFrom(conn *qmgr.Conn) *placequeue.Source {
	return placequeue.NewSource(func(principal string) placequeue.Reader { return qmgr.QueuesFor(conn, principal) })
}

var (
	_ place.Examiner = queueSource{}
	_ place.Archiver = queueSource{}
	_ place.Releaser = queueSource{}
	_ place.Actor    = queueSource{}
)

// queueSource is the queues as a source. The triggers of its requests check files.
type queueSource struct {
	*placequeue.Source
	holds          *holds
	place.Examiner // the local files, with the rights of the request
	place.FileBudget
}

// As returns the queues with operations in the name of a principal.
func (q queueSource) As(principal string) place.Source {
	q.Source = q.Source.As(principal)
	return q
}

// For returns the queues for one request, with the rights of a principal to messages and to files.
func (q queueSource) For(of transfer.Place, may place.Permit) place.Source {
	files := q.Examiner.(local.Local).For(transfer.Files, may).(local.Local)
	return queueSource{q.Source.For(of, may).(*placequeue.Source), q.holds, files, files}
}

func (queueSource) MayArchive(*place.WalkRequest, transfer.Path) error { return noArchive() }

func (queueSource) Archive(transfer.Path, transfer.Version, string, transfer.Path, bool) (transfer.Path, error) {
	return "", noArchive()
}

func noArchive() error {
	return transfer.Errorf(transfer.KindUsage, "messages cannot be archived").WithHint("leave out --archive; --delete-source takes messages out of their queue")
}
