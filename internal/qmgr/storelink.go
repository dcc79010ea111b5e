package qmgr

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Ready makes the connection for bulk data, where there is none.
func (s *StoreAt) Ready(ctx context.Context) error {
	_, err := s.c.bulk.ready(ctx)
	return err
}

// DataReceived returns how many bytes have come on the data connection, which shares the link with the one for stored data.
func (s *StoreAt) DataReceived() int64 {
	if sock := s.c.data.Socket.Load(); sock != nil {
		return sock.In.Load()
	}
	return 0
}

// storeErrand has the queue manager do a task with the store, and passes each of its answers to take.
func storeErrand(ctx context.Context, l *link.Link, self string, t streams.StoreTask, answers int, size int64, take func(res streams.StoreResult, data []byte) error) error {
	body, err := json.Marshal(errands.Errand{V: 1, Op: errands.OpStore, Store: &t})
	if err != nil {
		return err
	}
	q := link.Conversation{Subject: wire.AskSubject(wire.Manager, self), Self: self, Data: l.Base.Packer.Pack(body), Answers: answers, Bytes: size}
	return l.Converse(ctx, q, func(answer *nats.Msg) (last bool, err error) {
		res, data, err := readStoreAnswer(errands.Unpacked(answer.Data))
		if err != nil {
			return true, err
		}
		return !res.More, take(res, data)
	})
}

// readStoreAnswer reads an answer of storeErrand.
func readStoreAnswer(answer []byte) (streams.StoreResult, []byte, error) {
	var res errands.Result
	head, data := errands.CutLine(answer)
	if err := json.Unmarshal(head, &res); err != nil || res.V != 1 || res.Error == nil && res.Store == nil {
		return streams.StoreResult{}, nil, transfer.Errorf(transfer.KindVersion, "the queue manager's answer about its store cannot be read")
	}
	if res.Error != nil {
		return streams.StoreResult{}, nil, res.Error
	}
	return *res.Store, data, nil
}

// errReceiptOverdue is the error of a wait for a receipt that has lasted too long.
var errReceiptOverdue = errors.New("it does not say whether it has stored a message")
