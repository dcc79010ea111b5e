package qmgr

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Relieve removes commands from each stream of commands that is more than half full. It removes those for agents that
// have never read any, and that keep does not know by their tokens: no agent reads them, and they take the room of
// others. It returns the number of removed messages.
func (c *Conn) Relieve(ctx context.Context, keep func(token string) bool) (gone uint64, err error) {
	if !c.control.up.Load() {
		return 0, c.away()
	}

	tokens, err := c.keeper.strangers(ctx)
	if tokens = slices.DeleteFunc(tokens, keep); err == nil && len(tokens) > 0 {
		gone, err = c.keeper.purge(ctx, tokens)
	}
	return gone, c.explain(err, "the streams of commands", 0)
}

// clear removes the messages of a member from the streams, and for an agent also those that wait for it. Its audit
// records and its messages in application queues stay.
func (l library) clear(ctx context.Context, token string) (err error) {
	if token == "" || len(token) > maxToken || !isPrintable(token) || strings.ContainsAny(token, ".*>") {
		return transfer.Errorf(transfer.KindUsage, "%.80q is the token of no member", token)
	}
	doomed := map[Stream][]string{StreamCommand: {"ferry.command.*." + token}, StreamControl: {"ferry.control.*." + token}}
	if name, bad := wire.AgentOf(token); bad == nil && name.Token() == token { // users have small letters
		for _, q := range []Queue{Commands(name), Controls(name)} {
			doomed[q.Stream] = append(doomed[q.Stream], q.Filter)
		}
		doomed[StreamStore] = []string{wire.AllStored(name), wire.AllStoredBy(name)}
	}
	for stream, subjects := range doomed {
		s, failed := l.js().Stream(ctx, string(stream))
		if errors.Is(failed, jetstream.ErrStreamNotFound) {
			continue
		}
		for _, subject := range subjects {
			if failed == nil {
				failed = purgeStored(ctx, s, subject, 0)
			}
		}
		err = errors.Join(err, failed)
	}
	return err
}
