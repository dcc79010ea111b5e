package qmgr

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A remoteAdmin is a streams.Admin that has the queue manager do everything. It may ask only for its own name.
type remoteAdmin struct {
	self        string     // its name, ConnConfig.Self
	control     *link.Link // for errands without much data
	bulk        *bulk      // for the others
	registering *registering
}

// remoteAdminOf returns a remoteAdmin on the connections of a Conn.
func remoteAdminOf(c *Conn) remoteAdmin {
	return remoteAdmin{c.cfg.Self, c.control, &c.bulk, &c.registering}
}

func (a remoteAdmin) ask(ctx context.Context, e errands.Errand) (res errands.Result, err error) {
	return a.askOn(ctx, a.control, e, nil, nil)
}

// askOn asks on one of the connections, with data behind the errand. some, if it is not nil, is called with the part of
// the answer that has arrived, once it has more than the data behind it.
func (a remoteAdmin) askOn(ctx context.Context, l *link.Link, e errands.Errand, behind []byte, some func(*errands.Result)) (res errands.Result, err error) {
	e.V = 1
	body, err := json.Marshal(e)
	if err != nil {
		return res, err
	}
	if len(behind) > 0 {
		body = append(append(body, '\n'), behind...)
	}
	head := 0 // bytes of it; 0: it has not come yet
	read := func(data []byte) error {
		if head == 0 {
			if head = bytes.IndexByte(data, '\n'); head < 0 {
				head = len(data)
			}
			if err := json.Unmarshal(data[:head], &res); err != nil || res.V != 1 {
				return transfer.Errorf(transfer.KindVersion, "the queue manager's answer to %q cannot be read", e.Op)
			}
		}
		if res.Queue != nil {
			res.Queue.Behind = data[min(head+1, len(data)):]
		}
		return nil
	}
	partly := func(g *errands.AnswerAssembly) error {
		if head == 0 && bytes.IndexByte(g.Data, '\n') < 0 {
			return nil
		}
		err := read(g.Data)
		if err == nil {
			some(&res)
		}
		return err
	}
	if some == nil {
		partly = nil
	}
	data, err := l.Ask(ctx, wire.AskSubject(wire.Manager, a.self), body, streams.APITimeout, partly)
	if err != nil {
		return res, err
	}
	if err := read(data); err != nil {
		return res, err
	}
	if res.Error != nil {
		return res, res.Error
	}
	return res, nil
}

func (a remoteAdmin) Durable(ctx context.Context, q streams.Queue) (d streams.Durable, err error) {
	if now, ok := errands.QueueNamed(q.Durable); !ok || now.Stream != q.Stream || now.Filter != q.Filter {
		return d, transfer.Errorf(transfer.KindInternal, "the queue %+v is none that the queue manager knows", q)
	}
	res, err := a.ask(ctx, errands.Errand{Op: errands.OpDurable, Durable: q.Durable, Idle: q.Idle})
	if res.Durable != nil {
		d = *res.Durable
	}
	return d, err
}

func (a remoteAdmin) ReaderPosition(ctx context.Context, q streams.Queue) (s streams.ReaderPosition, err error) {
	res, err := a.ask(ctx, errands.Errand{Op: errands.OpReaderPosition, Durable: q.Durable})
	if res.ReaderPosition != nil {
		s = *res.ReaderPosition
	}
	return s, err
}

func (a remoteAdmin) Forget(ctx context.Context, name string, _ []streams.Queue) error {
	_, err := a.askOwn(ctx, name, errands.Errand{Op: errands.OpForget})
	return err
}

func (a remoteAdmin) Owner(ctx context.Context, name string) (o streams.Owner, err error) {
	res, err := a.askOwn(ctx, name, errands.Errand{Op: errands.OpOwner})
	if res.Owner != nil {
		o = *res.Owner
	}
	return o, err
}

func (a remoteAdmin) SetOwner(ctx context.Context, name string, o streams.Owner) (revision uint64, err error) {
	res, err := a.askOwn(ctx, name, errands.Errand{Op: errands.OpSetOwner, Owner: &o})
	if res.Owner != nil {
		revision = res.Owner.Revision
	}
	return revision, err
}

// askOwn asks for an operation that is allowed only for the asker's own name.
func (a remoteAdmin) askOwn(ctx context.Context, name string, e errands.Errand) (res errands.Result, err error) {
	if name != a.self {
		return res, transfer.Errorf(transfer.KindDenied, "%s may not have the queue manager do %q for %s", a.self, e.Op, name)
	}
	return a.ask(ctx, e)
}

func (a remoteAdmin) AgentsWithoutReader(ctx context.Context) ([]string, error) {
	res, err := a.ask(ctx, errands.Errand{Op: errands.OpAgentsWithoutReader})
	return res.Tokens, err
}

func (a remoteAdmin) Purge(ctx context.Context, tokens []string) (gone uint64, err error) {
	for part := range slices.Chunk(tokens, errands.MaxAgentsWithoutReader) {
		res, err := a.ask(ctx, errands.Errand{Op: errands.OpPurge, Tokens: part})
		gone += res.Gone
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}
