package qmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Limits of StreamStore.
const (
	storeLook = 32 << 10 // bytes of a look, compressed

	storeAckWait = 10 * time.Second // for a receipt
)

// A StoreView is the part of StreamStore that one agent sees.
type StoreView struct {
	Mark   string        // names the stream: two agents with one mark are at one store
	Epochs []StoredEpoch // of the agent, oldest transfers first; an incomplete list if there are very many
	Used   int64         // bytes at most that the agent's own messages take, as their source
	Share  int64         // limit of Used

	At string // token of the queue manager that has the store; empty: the agent's own
	// Ledger is the mark of the ledger that has the destination's name there (of Outgoing); empty: none has it.
	Ledger string
}

// A StoredEpoch is an epoch in a store, with the number of its messages there.
type StoredEpoch struct {
	wire.StoredEpoch
	Messages uint64
}

func (a remoteAdmin) Store(ctx context.Context, self string, t streams.StoreTask) (res streams.StoreResult, err error) {
	if self != a.self {
		return res, transfer.Errorf(transfer.KindDenied, "%s may not use the part of the store that is of %s", a.self, self)
	}
	err = storeErrand(ctx, a.control, self, t, 1, storeLook, func(r streams.StoreResult, _ []byte) error {
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
	if a, asks := c.admin.(remoteAdmin); asks {
		_, err = a.ask(ctx, errands.Errand{Op: errands.OpClear, Tokens: []string{token}})
	} else {
		_, err = c.admin.Store(ctx, token, streams.StoreTask{Do: streams.StoreClear})
	}
	return c.base.Explain(err, "the streams", 0)
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
	return &StoreAt{c: c, of: of, receipts: &receipts{secret: errands.NewSecret(), listens: map[string]bool{}, waiting: map[uint64]*remoteReceipt{}, came: map[string]time.Time{}}}
}

func (s *StoreAt) task(ctx context.Context, t streams.StoreTask) (streams.StoreResult, error) {
	if !s.c.control.Up.Load() {
		return streams.StoreResult{}, s.c.base.Away()
	}
	res, err := s.c.admin.Store(ctx, s.of.Token(), t)
	return res, s.c.base.Explain(err, "ferry.store", 0)
}

func (s *StoreAt) look(ctx context.Context, t streams.StoreTask) (v StoreView, err error) {
	do := t.Do
	res, err := s.task(ctx, t)
	if err == nil && res.At != "" {
		err = s.listen(res.At)
	}
	if err != nil {
		return v, err
	}
	v = StoreView{Mark: res.Mark, Used: res.Used, Share: res.Share, At: res.At, Ledger: res.Ledger}
	for _, e := range res.Epochs {
		peer, err := wire.AgentOf(e.Peer)
		if err != nil {
			continue
		}
		of := wire.StoredEpoch{From: s.of, To: peer, ID: e.ID, Epoch: e.Epoch}
		if do == streams.StoreIncoming {
			of.From, of.To = peer, s.of
		}
		v.Epochs = append(v.Epochs, StoredEpoch{of, e.Messages})
	}
	return v, nil
}

// Incoming returns the messages that wait for the agent.
func (s *StoreAt) Incoming(ctx context.Context) (StoreView, error) {
	return s.look(ctx, streams.StoreTask{Do: streams.StoreIncoming})
}

// Sent returns the agent's messages that were not taken yet, in the store of a queue manager (StoreView.At).
func (s *StoreAt) Sent(ctx context.Context, at string) (StoreView, error) {
	return s.look(ctx, streams.StoreTask{Do: streams.StoreSent, At: at})
}

// Outgoing looks at the store before messages are sent to an agent, at the agent's present or last known queue manager.
// It returns the sums, without the epochs. The store is made if there is none.
func (s *StoreAt) Outgoing(ctx context.Context, to transfer.AgentName) (StoreView, error) {
	if err := s.Ready(ctx); err != nil { // Put needs it
		return StoreView{}, err
	}
	return s.look(ctx, streams.StoreTask{Do: streams.StoreOutgoing, Peer: to.Token()})
}

// OutgoingAt is Outgoing at a given queue manager.
func (s *StoreAt) OutgoingAt(ctx context.Context, at string) (StoreView, error) {
	return s.look(ctx, streams.StoreTask{Do: streams.StoreOutgoing, At: at})
}

// Purge removes the agent's messages of a transfer in epochs before one, from the store of a queue manager.
func (s *StoreAt) Purge(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, before uint32) error {
	_, err := s.task(ctx, streams.StoreTask{Do: streams.StorePurge, Peer: to.Token(), ID: id, Epoch: before, At: at})
	return err
}

// Trim removes the messages for the agent in an epoch with numbers in the stream less than below. A below of 0 removes
// all of them.
func (s *StoreAt) Trim(ctx context.Context, of wire.StoredEpoch, below uint64) error {
	_, err := s.task(ctx, streams.StoreTask{Do: streams.StoreTrim, Peer: of.From.Token(), ID: of.ID, Epoch: of.Epoch, From: below})
	return err
}

// explainStored adds the remedy to the error of a full store.
func explainStored(c *Conn, err error, subject string, size int) error {
	if err == nil {
		return nil
	}
	api := (*jetstream.APIError)(nil)
	if !errors.As(err, &api) || !streams.IsFull(api) {
		if streams.IsMissing(err) {
			err = fmt.Errorf("there is no store: %w", err)
		}
		return c.base.Explain(err, subject, size)
	}
	if strings.Contains(api.Description, "per subject") {
		return transfer.Errorf(transfer.KindNoSpace, "the queue manager has as much of this transfer as it may: a quarter of its store").
			WithHint("it goes on as the destination takes the stored data")
	}
	return transfer.Errorf(transfer.KindNoSpace, "the store of the queue manager has no room: %s", api.Description).
		WithHint("it goes on as destinations take the stored data; --max-stored of ferry up makes it larger")
}
