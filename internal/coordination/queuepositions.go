package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/qmgr"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	queuesFile = "queues.json"
	// queuesEvery is between two looks at the application queues, and queuesLimit is the time for one.
	queuesEvery = 5 * time.Second
	queuesLimit = 30 * time.Second
	// lostShown is for how long the queue manager is called degraded for a queue that was lost.
	lostShown = time.Hour
)

// A queuePositions records the position of each application queue, in a file of coordination: a queue manager that has lost
// its directory has no record of its queues.
type queuePositions struct {
	path   string
	queues interface {
		Marks(context.Context) ([]wire.QueueView, error)
	}
	now    func() time.Time
	record func(text string) error                         // puts a loss into the audit log
	tell   func(ctx context.Context, finding string) error // has the queue manager called degraded

	mu     sync.Mutex
	known  queueRecord
	doubts map[transfer.QueueName]string // losses that the last look has found: the next look confirms them
}

// A queueRecord is the file.
type queueRecord struct {
	V      int                                  `json:"v"`
	Queues map[transfer.QueueName]queuePosition `json:"queues"`
	Lost   []lostQueue                          `json:"lost,omitempty"` // in the last hour
}

// A queuePosition is how far a queue has come.
type queuePosition struct {
	Mark     string `json:"mark"`
	Last     uint64 `json:"last"` // number of the newest message that there ever was
	Messages uint64 `json:"messages"`
}

type lostQueue struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// watchQueues looks at the application queues until ctx ends.
func watchQueues(ctx context.Context, s *Service) {
	b := s.queues
	t := s.cfg.Clock.NewTimer(queuesEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
		look, cancel := context.WithTimeout(ctx, queuesLimit)
		if err := b.look(look); err != nil && ctx.Err() == nil {
			s.quiet.Warn("look at the application queues failed", "error", err)
		}
		cancel()
		t.Reset(queuesEvery)
	}
}

// newQueuePositions reads the positions of a service, before anything can change it.
func newQueuePositions(s *Service) *queuePositions {
	b := &queuePositions{path: filepath.Join(s.cfg.Dir, queuesFile), queues: qmgr.QueuesOf(s.conn), now: s.cfg.Clock.Now,
		record: func(text string) error {
			s.cfg.Log.Error("messages of an application queue are lost", "error", text)
			return s.log.AppendOwn(audit.Record{Event: audit.Warning, Text: text})
		},
		tell: func(ctx context.Context, finding string) error { return qmgr.Notice(ctx, s.conn, finding) }}
	if err := b.load(); err != nil {
		s.cfg.Log.Warn("read record of application queues failed", "path", b.path, "error", err)
	}
	return b
}

func (b *queuePositions) load() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &b.known)
	}
	if err == nil && b.known.V != 1 {
		b.known, err = queueRecord{}, transfer.Errorf(transfer.KindVersion, "it is of version %d", b.known.V)
	}
	return err
}

// save writes the positions where they have changed. b.mu is held.
func (b *queuePositions) save(now queueRecord) error {
	now.V = 1
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if before, _ := json.Marshal(b.known); string(before) == string(data) {
		return nil
	}
	if err = keyfile.Replace(b.path, data); err == nil {
		b.known = now
	}
	return err
}

// look compares the queues with the recorded positions. A loss counts when two looks have found it: a cluster that
// elects a leader may report less for a moment.
func (b *queuePositions) look(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	views, err := b.queues.Marks(ctx)
	if err != nil {
		return err
	}
	now := queueRecord{Queues: map[transfer.QueueName]queuePosition{}}
	for _, v := range views {
		now.Queues[v.Queue] = queuePosition{v.Mark, v.Last, v.Messages}
	}
	for _, l := range b.known.Lost {
		if b.now().Sub(l.At) < lostShown {
			now.Lost = append(now.Lost, l)
		}
	}

	doubts := map[transfer.QueueName]string{}
	for _, queue := range slices.Sorted(maps.Keys(b.known.Queues)) {
		was := b.known.Queues[queue]
		is, there := now.Queues[queue]
		text := describeLoss(queue, was, is, there)
		switch {
		case text == "":
		case b.doubts[queue] == "":
			doubts[queue], now.Queues[queue] = text, was
		default:
			if err := b.record(text); err != nil {
				return err
			}
			now.Lost = append(now.Lost, lostQueue{text, b.now()})
		}
	}
	b.doubts = doubts
	if err := b.save(now); err != nil {
		return err
	}
	for _, l := range now.Lost {
		if err := b.tell(ctx, l.Text); err != nil {
			return err
		}
	}
	return nil
}

// describeLoss describes the loss of a queue; "" for none.
func describeLoss(queue transfer.QueueName, was, is queuePosition, there bool) string {
	switch {
	case !there:
		return fmt.Sprintf("the queue %s has gone from the queue manager, with its messages: it had come to message %d, and %s were in it", queue, was.Last, count(was.Messages))
	case is.Mark != was.Mark:
		return fmt.Sprintf("the queue %s was made anew outside Ferry: it had come to message %d, and %s were in it", queue, was.Last, count(was.Messages))
	case is.Last < was.Last:
		return fmt.Sprintf("the queue %s went back from message %d to message %d: the messages in between are lost, and messages that were taken may come again", queue, was.Last, is.Last)
	}
	return ""
}

func count(messages uint64) string {
	if messages == 1 {
		return "1 message"
	}
	return fmt.Sprint(messages, " messages")
}

// removing forgets a queue while it is removed by way of coordination. Where that fails the next look finds it again.
func (b *queuePositions) removing(queue transfer.QueueName, remove func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.change(func(all map[transfer.QueueName]queuePosition) { delete(all, queue) }); err != nil {
		return err
	}
	return remove()
}

// change saves the positions with other queues. b.mu is held.
func (b *queuePositions) change(f func(map[transfer.QueueName]queuePosition)) error {
	now := queueRecord{Queues: maps.Clone(b.known.Queues), Lost: b.known.Lost}
	f(now.Queues)
	return b.save(now)
}
