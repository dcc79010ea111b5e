package qmgr

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// StreamStore holds ferry.store.>, the chunk messages of stored delivery. They stay until their destination has stored
// their data, or until their source withdraws them. The stream is made at its first use. It is not synced: agents
// detect messages lost in a power cut and send them again.
const StreamStore Stream = roles.StreamStore

// Limits of StreamStore.
const (
	// DefaultMaxStored is the size of the store in bytes without a setting.
	DefaultMaxStored = 3584 << 20
	// MinMaxStored is the smallest setting.
	MinMaxStored = 64 << 20
	// MaxStoredMessage is the size of the largest message, its subject and headers apart.
	MaxStoredMessage = wire.MaxStored

	storedOverhead = 1 << 10  // of a message in the stream: its subject, and room
	storeListMost  = 512      // entries of one look
	storeListOfOne = 64       // of them for one agent at the other side, if there are others
	storeMalformed = 64       // malformed subjects that one look removes
	storeLook      = 32 << 10 // bytes of a look, compressed
	storeReadMost  = 8 << 20  // bytes of one reading
	storeAhead     = 8        // messages that one reading fetches at once
	storeIdle      = time.Hour

	// A look lists subjects, and each message may have its own. The looks of one agent list the subjects of other
	// agents, too: the server needs a second or two for the largest number. So the number of messages is bounded by the
	// store's bytes for each of them on the average.
	storeMessage     = 64 << 10
	storeMessagesMin = 1 << 10
	storeMessagesMax = 1 << 17
	storeAckWait     = 10 * time.Second // for a receipt
)

// storeConfig returns the stream of a queue manager that may store so many bytes.
//
// A transfer may have a quarter of it, by the number of its messages: so many of the largest ones are a quarter. The
// queue manager itself refuses further messages from any sender.
func storeConfig(most int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 string(StreamStore),
		Description:          "Ferry: chunk messages of stored delivery",
		Subjects:             []string{"ferry.store.>"},
		Retention:            jetstream.LimitsPolicy,
		Storage:              jetstream.FileStorage,
		Replicas:             1,
		MaxConsumers:         maxConsumers,
		MaxMsgs:              min(max(most/storeMessage, storeMessagesMin), storeMessagesMax),
		MaxMsgsPerSubject:    max(most/4/(MaxStoredMessage+storedOverhead), 8),
		DiscardNewPerSubject: true,
		MaxBytes:             most,
		MaxMsgSize:           MaxStoredMessage + storedOverhead,
		Discard:              jetstream.DiscardNew,
		Duplicates:           duplicateWindow,
		PersistMode:          jetstream.AsyncPersistMode,
	}
}

// A Shelf holds the messages of one epoch of a transfer in StreamStore.
type Shelf struct {
	From, To transfer.AgentName
	ID       transfer.ID
	Epoch    uint32
	Messages uint64
}

func (s *Shelf) subject() string { return wire.StoreSubject(s.To, s.From, s.ID, s.Epoch) }

// A StoreView is the part of StreamStore that one agent sees.
type StoreView struct {
	Mark    string  // names the stream: two agents with one mark are at one store
	Shelves []Shelf // of the agent, oldest transfers first; an incomplete list if there are very many
	Used    int64   // bytes at most that the agent's own messages take, as their source
	Share   int64   // limit of Used

	At string // token of the queue manager that has the store; empty: the agent's own
	// Ledger is the mark of the ledger that has the destination's name there (of Outgoing); empty: none has it.
	Ledger string
}

// Operations of a storeTask.
const (
	storeIncoming = "incoming" // a look at the messages that wait for the agent
	storeOutgoing = "outgoing" // a look at the agent's sent messages, before it sends more
	storeSent     = "sent"     // the same, later: it makes no store
	storeRead     = "read"     // read bytes of a shelf
	storeReader   = "reader"   // make the reader of a shelf, for whole messages
	storeTrim     = "trim"     // messages that the agent has taken are removed
	storePurge    = "purge"    // messages that the agent has sent are removed
	storeClear    = "clear"    // the messages of a member, and those that wait for it, are removed
)

// A storeTask is one operation of an agent on its own part of StreamStore.
type storeTask struct {
	Do    string      `json:"do"`
	Peer  string      `json:"peer,omitempty"` // token of the agent at the other side
	ID    transfer.ID `json:"id,omitzero"`
	Epoch uint32      `json:"epoch,omitempty"` // of a purge: the first one that stays
	From  uint64      `json:"from,omitempty"`  // number in the stream: first message to read, or to keep; 0: keep none
	Begin int         `json:"begin,omitempty"` // of a reading: bytes to skip of the message From
	Most  int         `json:"most,omitempty"`  // of a reading: bytes that are wanted
	Piece int         `json:"piece,omitempty"` // of a reading: bytes of one answer at most
	At    string      `json:"at,omitempty"`    // token of the queue manager that does the task; empty: this one (outgoing: the peer's)
}

// A storeResult is the result of a storeTask.
type storeResult struct {
	Mark    string       `json:"mark,omitempty"`
	Shelves []storeShelf `json:"shelves,omitempty"`
	Used    int64        `json:"used,omitempty"`
	Share   int64        `json:"share,omitempty"`
	Gone    uint64       `json:"gone,omitempty"`
	At      string       `json:"at,omitempty"`
	Ledger  string       `json:"ledger,omitempty"` // of an outgoing look: mark of the ledger that has the peer's name

	// Of a reading, which has several answers. The bytes of the parts are behind the answer.
	Parts []storePart `json:"parts,omitempty"`
	More  bool        `json:"more,omitempty"`  // another answer follows
	Spent bool        `json:"spent,omitempty"` // nothing is stored behind the parts

	read func(ctx context.Context, answer func(storeResult, []byte)) error // gives the answers of a reading
}

// A storePart describes bytes of a message of a shelf.
type storePart struct {
	Number uint64 `json:"n"` // of the message in the stream
	Size   int    `json:"s"` // of the message
	Begin  int    `json:"b,omitempty"`
	Len    int    `json:"l"`
}

// A storeShelf is the encoded form of a Shelf.
type storeShelf struct {
	Peer     string      `json:"peer"`
	ID       transfer.ID `json:"id"`
	Epoch    uint32      `json:"epoch"`
	Messages uint64      `json:"messages"`
}

// store does a task for the holder of a token. Every subject of the task has that token as its source (a purge, a look
// at sent messages) or as its destination (all others).
func (l library) store(ctx context.Context, self string, t storeTask) (res storeResult, err error) {
	if t.Do == storeClear {
		return res, l.clear(ctx, self)
	}
	var s jetstream.Stream
	if t.Do == storeOutgoing {
		s, err = l.storeStream(ctx)
	} else if s, err = l.js().Stream(ctx, string(StreamStore)); errors.Is(err, jetstream.ErrStreamNotFound) && t.Do != storeRead && t.Do != storeReader {
		return res, nil // the store was never used
	}
	if err != nil {
		return res, err
	}

	name, err := wire.AgentOf(self)
	if err != nil {
		return res, err
	}
	var peer transfer.AgentName
	if t.Peer != "" {
		if peer, err = wire.AgentOf(t.Peer); err != nil {
			return res, err
		}
	} else if t.Do != storeIncoming && t.Do != storeOutgoing && t.Do != storeSent {
		return res, transfer.Errorf(transfer.KindUsage, "nobody is named at the other side of what is stored")
	}

	info := s.CachedInfo()
	res.Mark = info.Created.UTC().Format(time.RFC3339Nano)
	in, out := Shelf{From: peer, To: name, ID: t.ID, Epoch: t.Epoch}, Shelf{From: name, To: peer, ID: t.ID}
	switch t.Do {
	case storeIncoming:
		err = res.look(ctx, s, wire.AllStored(name), 3)
	case storeOutgoing, storeSent:
		if err = res.look(ctx, s, wire.AllStoredBy(name), 2); err == nil {
			res.Share = info.Config.MaxBytes / 2
		}
		if t.Do == storeOutgoing { // the source needs the sum only
			res.Shelves = nil
		}
		if err == nil && t.Do == storeOutgoing && peer != "" {
			res.Ledger, err = l.ledgerOf(ctx, peer)
		}
	case storeRead:
		res.Mark = ""
		res.read = func(ctx context.Context, answer func(storeResult, []byte)) error {
			return readShelf(ctx, s, in.subject(), &t, answer)
		}
	case storeReader:
		err = l.makeReader(ctx, self, in.subject(), t.From)
	case storeTrim:
		err = purgeStored(ctx, s, in.subject(), t.From)
	case storePurge:
		res.Gone, err = purgeBelow(ctx, s, &out, t.Epoch)
	default:
		err = transfer.Errorf(transfer.KindUsage, "nothing that is stored can be had done %.40q", t.Do)
	}
	return res, err
}

// ledgerOf returns the mark of the ledger that has an agent's name, from the agent's own entry; empty: none has it.
func (l library) ledgerOf(ctx context.Context, name transfer.AgentName) (string, error) {
	o, err := l.owner(ctx, name.Token())
	if err != nil {
		return "", err
	}
	var holder struct {
		Mark string `json:"mark"`
	}
	if len(o.Value) > 0 && json.Unmarshal(o.Value, &holder) != nil {
		return "", nil // the agent writes it again
	}
	return holder.Mark, nil
}

// storeStream returns the stream, and makes it if it is missing. If a smaller or an older server refuses the
// configuration, the stream is smaller, or synced.
func (l library) storeStream(ctx context.Context) (jetstream.Stream, error) {
	s, err := l.js().Stream(ctx, string(StreamStore))
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, err
	}
	most := cmp.Or(l.maxStored, DefaultMaxStored)
	for {
		s, err = l.createStore(ctx, storeConfig(most))
		switch api := (*jetstream.APIError)(nil); {
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return l.js().Stream(ctx, string(StreamStore))
		case errors.As(err, &api) && isFull(api) && most > MinMaxStored && l.maxStored == 0:
			most = max(most/4, MinMaxStored)
		default:
			return s, err
		}
	}
}

// createStore makes the stream: in a cluster with as many replicas as the others have. A stream that is not synced
// cannot have them. If members are away it is synced all the same, so that it can be given them later.
func (l library) createStore(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := l.createReplicated(ctx, cfg)
	if !tooFew(err) {
		return s, err
	}
	if !noCluster(err) {
		cfg.PersistMode = jetstream.DefaultPersistMode
	}
	if s, err = l.js().CreateStream(ctx, cfg); err != nil && persistMode(err) {
		cfg.PersistMode = jetstream.DefaultPersistMode
		s, err = l.js().CreateStream(ctx, cfg)
	}
	return s, err
}

// persistMode reports whether a server does not take a stream because of its PersistMode.
func persistMode(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (strings.Contains(api.Description, "persist") || strings.Contains(api.Description, "unknown field"))
}

// createReplicated makes the stream with as many replicas as those of a whole cluster have, or not at all.
func (l library) createReplicated(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	cfg.Replicas, cfg.PersistMode = replicas, jetstream.DefaultPersistMode
	return l.js().CreateStream(ctx, cfg)
}

// fitStore gives the stream its configured size. If there is none, create makes it.
func (l library) fitStore(ctx context.Context, create func(context.Context, jetstream.StreamConfig) (jetstream.Stream, error)) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	want := storeConfig(l.maxStored)
	s, err := l.js().Stream(ctx, string(StreamStore))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = create(ctx, want)
	}
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxBytes == want.MaxBytes && cfg.MaxMsgs == want.MaxMsgs {
		return nil
	}
	cfg.MaxBytes, cfg.MaxMsgs, cfg.MaxMsgsPerSubject = want.MaxBytes, want.MaxMsgs, want.MaxMsgsPerSubject
	_, err = l.js().UpdateStream(ctx, cfg)
	return err
}

// Times of a member of a cluster that fits its store to the configured size.
const (
	fitEvery = time.Second
	fitSaid  = 30 // attempts after which the failure is logged
)

// fitStoreSoon does fitStore for a member of a cluster, until it succeeds or ctx ends. The stream is made when all
// members are there: one that is made before has one replica, and keeps it.
func (l library) fitStoreSoon(ctx context.Context, log *slog.Logger) {
	for tries := 1; ; tries++ {
		err := l.fitStore(ctx, l.createReplicated)
		if err == nil {
			return
		}
		if tries == fitSaid {
			log.Warn("the store for stored delivery does not have the size of --max-stored yet; trying on", "error", err)
		}
		if sleep(ctx, fitEvery, nil) {
			return
		}
	}
}

// raiseStore gives the stream its replicas, if it was made while a member of the cluster was away.
func (l library) raiseStore(ctx context.Context) {
	if s, err := l.js().Stream(ctx, string(StreamStore)); err == nil {
		l.raise(ctx, s) // tried again at the next look
	}
}

// look lists the shelves of a filter. The peer is the token at a place of their subjects.
func (res *storeResult) look(ctx context.Context, s jetstream.Stream, filter string, peerAt int) error {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return err
	}

	var all []storeShelf
	malformed := 0
	for subject, n := range info.State.Subjects {
		if n == 0 {
			continue
		}
		res.Used += int64(n) * (MaxStoredMessage + storedOverhead)
		at, err := wire.ReadStore(subject)
		if err != nil { // no agent reads a malformed subject
			if malformed++; malformed <= storeMalformed {
				if err := purgeStored(ctx, s, subject, 0); err != nil {
					return err
				}
			}
			continue
		}
		all = append(all, storeShelf{Peer: strings.Split(subject, ".")[peerAt], ID: at.Transfer, Epoch: at.Epoch, Messages: n})
	}
	slices.SortFunc(all, func(a, b storeShelf) int {
		return cmp.Or(strings.Compare(a.ID.String(), b.ID.String()), cmp.Compare(a.Epoch, b.Epoch))
	})

	// A peer with very many shelves does not displace the others.
	count, rest := map[string]int{}, []storeShelf(nil)
	for _, sh := range all {
		if count[sh.Peer]++; count[sh.Peer] <= storeListOfOne {
			res.Shelves = append(res.Shelves, sh)
		} else {
			rest = append(rest, sh)
		}
	}
	res.Shelves = append(res.Shelves, rest...)
	res.Shelves = res.Shelves[:min(len(res.Shelves), storeListMost)]
	return nil
}

// makeReader replaces an agent's reader by one for one subject. It acknowledges nothing: the agent trims the messages
// that it has taken.
func (l library) makeReader(ctx context.Context, self, subject string, from uint64) error {
	cfg := jetstream.ConsumerConfig{
		Durable:            roles.DurableStore + self,
		FilterSubject:      subject,
		DeliverPolicy:      jetstream.DeliverAllPolicy,
		AckPolicy:          jetstream.AckNonePolicy,
		MaxRequestMaxBytes: maxPull,
		InactiveThreshold:  storeIdle,
		MemoryStorage:      true, // its reader states its position each time
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	if err := l.js().DeleteConsumer(ctx, string(StreamStore), cfg.Durable); err != nil && !missing(err) {
		return err
	}
	_, err := l.js().CreateConsumer(ctx, string(StreamStore), cfg)
	return err
}

// readShelf returns Most bytes of a shelf, from the byte Begin of the message From on, in answers of Piece bytes at
// most. An answer is sent when the next bytes are there, because the last answer must be marked as the last one.
func readShelf(ctx context.Context, s jetstream.Stream, filter string, t *storeTask, answer func(storeResult, []byte)) error {
	left, piece := min(t.Most, storeReadMost), min(t.Piece, MaxStoredMessage)
	if left <= 0 || piece <= 0 || t.Begin < 0 {
		return transfer.Errorf(transfer.KindUsage, "a reading of %d bytes in pieces of %d is none", t.Most, t.Piece)
	}

	var res storeResult
	var data []byte
	for next, ahead := max(t.From, 1), 1; ; {
		some, err := getMessages(ctx, s, filter, next, ahead)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			res.Spent = true
			answer(res, data)
			return nil
		}
		ahead = min(2*len(some), storeAhead, left/(MaxStoredMessage+1)+1)
		for _, m := range some {
			at := 0
			if m.Sequence == t.From {
				at = min(t.Begin, len(m.Data))
			}
			for whole := false; !whole; {
				if len(data) >= piece {
					res.More = true
					answer(res, data)
					res, data = storeResult{}, nil
				}
				n := min(len(m.Data)-at, piece-len(data), left)
				res.Parts = append(res.Parts, storePart{m.Sequence, len(m.Data), at, n})
				data = append(data, m.Data[at:at+n]...)
				at, left = at+n, left-n
				if left <= 0 {
					answer(res, data)
					return nil
				}
				whole = at == len(m.Data)
			}
			next = m.Sequence + 1
		}
	}
}

// purgeStored removes the messages of a subject below a number; 0: all of them.
func purgeStored(ctx context.Context, s jetstream.Stream, subject string, below uint64) error {
	if below == 0 {
		return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below))
}

// purgeBelow removes the epochs of a transfer below one, each by its name. Messages that arrive meanwhile in that
// epoch, or in a later one, stay.
func purgeBelow(ctx context.Context, s jetstream.Stream, of *Shelf, epoch uint32) (gone uint64, err error) {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(wire.StoreEpochs(of.To, of.From, of.ID)))
	if err != nil {
		return 0, err
	}
	for subject, n := range info.State.Subjects {
		at, err := strconv.ParseUint(wire.LastToken(subject), 10, 32)
		if err == nil && uint32(at) >= epoch {
			continue
		}
		if err := purgeStored(ctx, s, subject, 0); err != nil {
			return gone, err
		}
		gone += n
	}
	return gone, nil
}

// withData returns an answer with bytes of messages behind it: in JSON they would be a third longer.
func withData(res storeResult, data []byte) []byte {
	head := resultOf(errandResult{Store: &res}, nil)
	return append(append(append(make([]byte, 0, len(head)+1+len(data)), head...), '\n'), data...)
}

func cutLine(message []byte) (head, rest []byte) {
	head, rest, _ = bytes.Cut(message, []byte("\n"))
	return head, rest
}

func (a asker) store(ctx context.Context, self string, t storeTask) (res storeResult, err error) {
	if self != a.c.cfg.Self {
		return res, transfer.Errorf(transfer.KindDenied, "%s may not use the part of the store that is of %s", a.c.cfg.Self, self)
	}
	err = a.c.control.storeErrand(ctx, self, t, 1, storeLook, func(r storeResult, _ []byte) error {
		res = r
		return nil
	})
	return res, err
}

// ClearStored removes the messages of a member that the network does not have any more, by its token: requests,
// commands and stored delivery, and for an agent also those that wait for it. Audit records and messages of application
// queues stay. Only coordination and the authority may ask for that. If the agent comes back, its peers send the lost
// messages again.
func ClearStored(ctx context.Context, c *Conn, token string) error {
	var err error
	if a, asks := c.keeper.(asker); asks {
		_, err = a.ask(ctx, errand{Op: opClear, Tokens: []string{token}})
	} else {
		_, err = c.keeper.store(ctx, token, storeTask{Do: storeClear})
	}
	return c.explain(err, "the streams", 0)
}

// A StoreAt is one agent's part of StreamStore. Its operations affect only subjects with the agent's own name.
type StoreAt struct {
	c        *Conn
	of       transfer.AgentName
	receipts *receipts
	reader   storeCursor
}

// StoreOf returns an agent's part of StreamStore.
func StoreOf(c *Conn, of transfer.AgentName) *StoreAt {
	return &StoreAt{c: c, of: of, receipts: &receipts{secret: newSecret(), listens: map[string]bool{}, waiting: map[uint64]*farReceipt{}, came: map[string]time.Time{}}}
}

func (s *StoreAt) task(ctx context.Context, t storeTask) (storeResult, error) {
	if !s.c.control.up.Load() {
		return storeResult{}, s.c.away()
	}
	res, err := s.c.keeper.store(ctx, s.of.Token(), t)
	return res, s.c.explain(err, "ferry.store", 0)
}

func (s *StoreAt) look(ctx context.Context, t storeTask) (v StoreView, err error) {
	do := t.Do
	res, err := s.task(ctx, t)
	if err == nil && res.At != "" {
		err = s.listen(res.At)
	}
	if err != nil {
		return v, err
	}
	v = StoreView{Mark: res.Mark, Used: res.Used, Share: res.Share, At: res.At, Ledger: res.Ledger}
	for _, sh := range res.Shelves {
		peer, err := wire.AgentOf(sh.Peer)
		if err != nil {
			continue
		}
		shelf := Shelf{From: s.of, To: peer, ID: sh.ID, Epoch: sh.Epoch, Messages: sh.Messages}
		if do == storeIncoming {
			shelf.From, shelf.To = peer, s.of
		}
		v.Shelves = append(v.Shelves, shelf)
	}
	return v, nil
}

// Incoming returns the messages that wait for the agent.
func (s *StoreAt) Incoming(ctx context.Context) (StoreView, error) {
	return s.look(ctx, storeTask{Do: storeIncoming})
}

// Sent returns the agent's messages that were not taken yet, in the store of a queue manager (StoreView.At).
func (s *StoreAt) Sent(ctx context.Context, at string) (StoreView, error) {
	return s.look(ctx, storeTask{Do: storeSent, At: at})
}

// Outgoing looks at the store before messages are sent to an agent, at the agent's present or last known queue manager.
// It returns the sums, without the shelves. The store is made if there is none.
func (s *StoreAt) Outgoing(ctx context.Context, to transfer.AgentName) (StoreView, error) {
	if err := s.Ready(ctx); err != nil { // Put needs it
		return StoreView{}, err
	}
	return s.look(ctx, storeTask{Do: storeOutgoing, Peer: to.Token()})
}

// OutgoingAt is Outgoing at a given queue manager.
func (s *StoreAt) OutgoingAt(ctx context.Context, at string) (StoreView, error) {
	return s.look(ctx, storeTask{Do: storeOutgoing, At: at})
}

// Purge removes the agent's messages of a transfer in epochs before one, from the store of a queue manager.
func (s *StoreAt) Purge(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, before uint32) error {
	_, err := s.task(ctx, storeTask{Do: storePurge, Peer: to.Token(), ID: id, Epoch: before, At: at})
	return err
}

// Trim removes the messages for the agent in an epoch with numbers in the stream less than below. A below of 0 removes
// all of them.
func (s *StoreAt) Trim(ctx context.Context, of Shelf, below uint64) error {
	_, err := s.task(ctx, storeTask{Do: storeTrim, Peer: of.From.Token(), ID: of.ID, Epoch: of.Epoch, From: below})
	return err
}

// explainStored adds the remedy to the error of a full store.
func explainStored(c *Conn, err error, subject string, size int) error {
	if err == nil {
		return nil
	}
	api := (*jetstream.APIError)(nil)
	if !errors.As(err, &api) || !isFull(api) {
		if missing(err) {
			err = fmt.Errorf("there is no store: %w", err)
		}
		return c.explain(err, subject, size)
	}
	if strings.Contains(api.Description, "per subject") {
		return transfer.Errorf(transfer.KindNoSpace, "the queue manager has as much of this transfer as it may: a quarter of its store").
			WithHint("it goes on as the destination takes what is stored")
	}
	return transfer.Errorf(transfer.KindNoSpace, "the store of the queue manager has no room: %s", api.Description).
		WithHint("it goes on as destinations take what is stored; --max-stored of ferry up makes it larger")
}
