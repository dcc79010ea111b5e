// Package store is an agent's part of stored delivery: it stores data for other agents in the store of a queue manager,
// reads the data that is stored for its own agent, and removes data that is not needed any more.
package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"ferry/internal/lane/stored"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/receiver"
	"ferry/internal/sender"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of stored delivery.
const (
	storeTry    = 30 * time.Second // at most; a question is given up earlier when no byte comes
	storeSlice  = 2 * time.Second  // of an epoch, while others wait
	storeLater  = 4 * time.Second  // until a transfer that could take no message is tried again
	storeTake   = 20 * time.Second // for a message, on a disk that hangs: then other epochs have their turn
	storeActive = time.Second      // between two looks while messages come, at least
	storeSeldom = 5 * time.Second  // and at most
	storeIdle   = time.Minute      // for so long after the last of it
	storeLooks  = 5 * time.Minute  // between two looks while none come
	storeSweeps = 10 * time.Minute // between two sweeps
	storeRetry  = 2 * time.Second
	storeFar    = 15 * time.Second
	mostLooks   = 4096
	mostLists   = 512 // entries; a look at more may not have shown all
	roomLookAge = time.Second
	whereTry    = time.Second // for coordination's answer where a destination is
)

// Config is the configuration of a Client.
type Config struct {
	Agent    transfer.AgentName
	Conn     *qmgr.Conn
	Ledger   *ledger.Ledger
	Memory   *wire.Memory
	Waits    int         // transfers that may wait for room without a slot
	Compared func() bool // reports whether the agent has compared its ledger with coordination's log in this run
	Context  context.Context
	Clock    clock.Clock
	Log      *slog.Logger
}

// A Client is an agent's part of the store of its queue manager. It stores data for other agents, reads data for this
// one, and removes data that is not needed any more. It is sender.Store and receiver.Store.
type Client struct {
	cfg   Config
	at    *qmgr.StoreAt
	read  chan struct{} // there may be something to read
	trim  chan struct{} // there is something to trim
	tidy  chan struct{} // there may be something to sweep
	waits chan struct{} // a token for each transfer that waits for room without a slot

	mu    sync.Mutex
	mark  string                             // of the store, and
	seen  bool                               // whether it was looked for
	looks map[wire.StoredEpoch]*wire.Message // OPENs that wait for a reading of their epochs
	trims map[wire.StoredEpoch]uint64        // first number that stays; MaxUint64: none does
	left  map[leftover]leaving               // is to go from the store

	asking sync.Mutex          // held while is asked how much is ours
	rooms  map[string]roomView // by the queue manager that has the store

	owing map[string]bool // queue managers that may have stored data of earlier processes
}

// A leftover is the data of a transfer in the store of a queue manager.
type leftover struct {
	at string
	id transfer.ID
}

// A leaving is the part of a leftover that is to be removed.
type leaving struct {
	to     transfer.AgentName
	before uint32 // epochs
}

// A roomView is an answer to the question whether an agent may store more.
type roomView struct {
	err    error
	looked time.Time
}

var (
	_ sender.Store   = (*Client)(nil)
	_ receiver.Store = (*Client)(nil)
)

// New returns the client of an agent.
func New(cfg Config) *Client {
	return &Client{cfg: cfg, at: qmgr.StoreOf(cfg.Conn, cfg.Agent), read: make(chan struct{}, 1), trim: make(chan struct{}, 1), tidy: make(chan struct{}, 1), waits: make(chan struct{}, cfg.Waits),
		looks: map[wire.StoredEpoch]*wire.Message{}, trims: map[wire.StoredEpoch]uint64{}, left: map[leftover]leaving{}, rooms: map[string]roomView{}, owing: map[string]bool{}}
}

// Start runs the client's loops by run, until the context ends. Data is read once may returns; false ends that loop.
func (s *Client) Start(run func(func()), recv *receiver.Receiver, may func() bool) {
	run(s.trimLoop)
	run(s.sweepLoop)
	run(newReader(s, recv, may).loop)
}

// Compared reports whether the agent has compared its ledger with coordination's log in this run.
func (s *Client) Compared() bool { return s.cfg.Compared() }

// Again has all epochs read: the connection is new.
func (s *Client) Again() {
	wake.Up(s.read)
	wake.Up(s.trim)
	wake.Up(s.tidy)
}

// Store names the store for a destination, for a source.
func (s *Client) Store(ctx context.Context, to transfer.AgentName) (sender.StoreName, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTry)
	defer cancel()
	v, err := s.at.Outgoing(ctx, to)
	return sender.StoreName{Mark: v.Mark, At: v.At, Ledger: v.Ledger}, err
}

// Reaches returns an error of KindNotBuilt for a destination that is present at another queue manager, in a network
// without identities: the queue managers there hand on no stored data. Coordination says where the destination is. A
// destination that is away may come back here. For it there is no error, nor where coordination does not answer, or the
// queue manager is not Ferry's: the destination then refuses the transfer.
func (s *Client) Reaches(ctx context.Context, to transfer.AgentName) error {
	conn := s.cfg.Conn
	if conn.Identity() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTry)
	defer cancel()
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskKnown, Agent: to})
	data, err := conn.Request(ctx, wire.AskSubject(wire.Coordination, s.cfg.Agent.Token()), ask, whereTry+4*conn.Delay())
	if err != nil {
		return nil
	}
	ans, err := wire.DecodeAnswer(data)
	if err != nil || ans.Known == nil || ans.Known.Manager == "" || ans.Known.Manager == cmp.Or(conn.Facts().Cluster, conn.Facts().ServerName) {
		return nil
	}
	names, err := qmgr.Neighbours(ctx, conn)
	if err != nil || slices.Contains(names, ans.Known.Manager) {
		return nil
	}
	return transfer.Errorf(transfer.KindNotBuilt, "--delivery stored does not reach %s: it is at queue manager %s, %s is at %s, and this network has no identities",
		to, ans.Known.Manager, s.cfg.Agent, conn.Facts().ServerName).
		WithHint("send it without --delivery stored, or start the queue managers without --insecure")
}

// Lane makes the lane of an epoch.
func (s *Client) Lane(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, epoch uint32, acked func(n uint64)) sender.StoredLane {
	return stored.New(ctx, stored.Config{Publish: stored.Through(s.at, at), Subject: wire.StoreSubject(to, s.cfg.Agent, id, epoch),
		Memory: s.cfg.Memory, Clock: s.cfg.Clock, Room: func(ctx context.Context) error { return s.hasRoom(ctx, at) }, Acked: acked})
}

// hasRoom returns the reason why this agent may not store more at a queue manager at present: it has its share.
func (s *Client) hasRoom(ctx context.Context, at string) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	room := s.rooms[at]
	if now := s.cfg.Clock.Now(); now.Sub(room.looked) >= roomLookAge {
		ctx, cancel := context.WithTimeout(ctx, storeTry)
		defer cancel()
		v, err := s.at.OutgoingAt(ctx, at)
		if err == nil && v.Used > v.Share {
			err = transfer.Errorf(transfer.KindNoSpace, "%s has its share of the queue manager's store: %s", s.cfg.Agent, transfer.FormatBytes(v.Share)).
				WithHint("it goes on as destinations take the stored data")
		}
		room = roomView{err, now}
		s.rooms[at] = room
	}
	return room.err
}

// Purge removes the epochs of a transfer before a given one.
func (s *Client) Purge(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, before uint32) error {
	ctx, cancel := context.WithTimeout(ctx, storeTry)
	defer cancel()
	return s.at.Purge(ctx, at, to, id, before)
}

// Release has the data that is left of a transfer in a store removed.
func (s *Client) Release(at string, to transfer.AgentName, id transfer.ID, before uint32) {
	s.mu.Lock()
	key := leftover{at, id}
	if len(s.left) < mostLooks { // of more the sweep finds those that are left
		s.left[key] = leaving{to, max(before, s.left[key].before)}
	}
	s.mu.Unlock()
	wake.Up(s.tidy)
}

// BeginWait lets as many transfers wait for room without a slot as there are slots. It reports whether one more may wait.
func (s *Client) BeginWait() bool {
	select {
	case s.waits <- struct{}{}:
		return true
	default:
		return false
	}
}

// EndWait is the end of such a wait.
func (s *Client) EndWait() { <-s.waits }

// Look has the epoch of an OPEN read.
func (s *Client) Look(at wire.StoredEpoch, open *wire.Message) {
	s.mu.Lock()
	if open != nil && (len(s.looks) < mostLooks || s.looks[at] != nil) {
		s.looks[at] = open
	}
	s.mu.Unlock()
	wake.Up(s.read)
}

// Trim has data removed that is not needed any more: numbers below below, or all where it is 0.
func (s *Client) Trim(at wire.StoredEpoch, below uint64) {
	if below == 0 {
		below = math.MaxUint64
	}
	s.mu.Lock()
	s.trims[at] = max(s.trims[at], below)
	s.mu.Unlock()
	wake.Up(s.trim)
}

// Mark names the store, as it was seen last.
func (s *Client) Mark() (mark string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark, s.seen
}

// trimLoop removes stored data that the receiver has taken.
func (s *Client) trimLoop() {
	for s.await(s.trim, storeSweeps) {
		s.mu.Lock()
		trims := s.trims
		s.trims = map[wire.StoredEpoch]uint64{}
		s.mu.Unlock()
		for at, below := range trims {
			if err := s.trimNow(at, below); err != nil {
				s.Trim(at, below)
				s.cfg.Log.Debug("cannot trim the stored data; will retry", "transfer", at.ID, "error", err)
				s.await(nil, storeRetry)
			}
		}
	}
}

func (s *Client) trimNow(at wire.StoredEpoch, below uint64) error {
	ctx, cancel := context.WithTimeout(s.cfg.Context, storeTry)
	defer cancel()
	if below == math.MaxUint64 {
		below = 0
	}
	return s.at.Trim(ctx, at, below)
}

// await waits until it is poked, or for d; it reports false when the agent ends.
func (s *Client) await(poked <-chan struct{}, d time.Duration) bool {
	t := s.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-poked:
	case <-t.C():
	case <-s.cfg.Context.Done():
	}
	return s.cfg.Context.Err() == nil
}

// Owes notes queue managers that have stored data of earlier processes, before sweepLoop begins.
func (s *Client) Owes(stores []string) {
	for _, at := range stores {
		s.owing[at] = true
	}
}

// sweepLoop removes the stored data of transfers that are over, and that of earlier epochs.
func (s *Client) sweepLoop() {
	for {
		pause := storeSweeps
		if err := s.sweepOnce(); err != nil {
			s.cfg.Log.Debug("cannot sweep the stored data; will retry", "error", err)
			if pause = storeRetry; transfer.KindOf(err) == transfer.KindUnreachable { // a channel may be down for long
				pause = storeFar
			}
		}
		if !s.await(s.tidy, pause) {
			return
		}
	}
}

func (s *Client) sweepOnce() error {
	s.mu.Lock()
	left := maps.Clone(s.left)
	s.mu.Unlock()
	var failed error
	for at := range s.owing {
		if err := s.sweepStore(at); err != nil {
			failed = errors.Join(failed, err) // the store of another queue manager may be out of reach for long
		} else {
			delete(s.owing, at)
		}
	}
	for key, l := range left {
		if err := s.Purge(s.cfg.Context, key.at, l.to, key.id, l.before); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if key.at != "" {
			s.owing[key.at] = true // the next sweep finds data that was in flight
		}
		s.mu.Lock()
		if s.left[key] == l {
			delete(s.left, key)
		}
		s.mu.Unlock()
	}
	return errors.Join(failed, s.sweepStore(""))
}

// sweepStore removes from the store of a queue manager the data that no transfer of the ledger needs.
func (s *Client) sweepStore(at string) error {
	ctx, cancel := context.WithTimeout(s.cfg.Context, storeTry)
	defer cancel()
	v, err := s.at.Sent(ctx, at)
	if err != nil {
		return err
	}
	for _, e := range v.Epochs {
		rec, err := ledger.SourceOf(s.cfg.Ledger, e.ID)
		if err != nil {
			return err
		}
		before := uint32(math.MaxUint32)
		if rec != nil && !rec.State.Final() && !rec.Cancel && rec.Request.Destination == e.To {
			before = rec.Epoch
		}
		if e.Epoch >= before {
			continue
		}
		if err := s.Purge(ctx, at, e.To, e.ID, before); err != nil {
			return err
		}
	}
	return nil
}
