package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	deadOnce    = 256 // letters of one removal of an agent
	deadUnknown = 32  // letters for one unknown agent
	// deadBefore is how long before the end of its stream's age a command becomes a dead letter.
	deadBefore = 2 * time.Hour
	// buryTime is how long one removal of messages may keep letters.
	buryTime = APITimeout / 4
)

// buryAll keeps messages with a subject as dead letters, up to a number and for a part of the time of an errand. The
// caller removes the messages with numbers below one; 0: all of them. A message is removed even if it cannot be kept,
// because a removal must not depend on the room for letters. The log has those that were not kept.
func (l Library) buryAll(ctx context.Context, s jetstream.Stream, subject, reason string, most int) (below uint64, err error) {
	keep, cancel := context.WithTimeout(ctx, buryTime)
	defer cancel()
	below = 1
	for tried := 0; ; tried++ {
		m, err := s.GetMsg(ctx, below, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return below, nil
		}
		if err != nil {
			return below, err
		}
		if tried >= most || keep.Err() != nil {
			warn(l, "messages are removed, and not kept as dead letters: there are too many", "subject", subject, "tried", tried, "reason", reason)
			return 0, nil
		}
		if err := l.Bury(keep, m, reason, transfer.ID{}); err != nil {
			warn(l, "a message is removed, and cannot be kept as a dead letter", "subject", m.Subject, "number", m.Sequence, "reason", reason, "error", err)
		}
		below = m.Sequence + 1
	}
}

// buryStored keeps a letter without content for each epoch of stored delivery to an agent. The files are at its source.
// Its bounds are those of buryAll.
func (l Library) buryStored(ctx context.Context, s jetstream.Stream, subject, reason string) error {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return err
	}
	keep, cancel := context.WithTimeout(ctx, buryTime)
	defer cancel()
	for n, epoch := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		if n >= deadUnknown || keep.Err() != nil {
			warn(l, "stored messages are removed without a dead letter: there are too many", "subject", subject, "epochs", len(info.State.Subjects)-n, "reason", reason)
			return nil
		}
		of, err := wire.ReadStore(epoch)
		if err != nil {
			continue
		}
		err = putDead(keep, l, wire.DeadLetter{ID: deadID(epoch, nil), Kind: wire.DeadStored, Agent: of.To.Token(), From: of.From.Token(), Transfer: of.ID,
			Messages: info.State.Subjects[epoch], Stored: time.Now().UTC(), Reason: reason})
		if err != nil {
			warn(l, "stored messages are removed, and a dead letter of them cannot be kept", "subject", epoch, "reason", reason, "error", err)
		}
	}
	return nil
}

// BuryExpiring makes dead letters of the commands that reach the age of their stream within deadBefore. A letter is
// stored before its command is removed. A command that cannot be kept stays, and those behind it are kept.
func (l Library) BuryExpiring(ctx context.Context, now time.Time) (n int, err error) {
	for _, stream := range CommandStreams {
		s, failed := l.JS().Stream(ctx, string(stream))
		if errors.Is(failed, jetstream.ErrStreamNotFound) {
			continue
		}
		if failed == nil {
			var some int
			some, failed = buryExpiring(ctx, l, s, now)
			n += some
		}
		err = errors.Join(err, failed)
	}
	return n, err
}

func buryExpiring(ctx context.Context, l Library, s jetstream.Stream, now time.Time) (n int, err error) {
	age := s.CachedInfo().Config.MaxAge
	if age <= deadBefore {
		return 0, nil
	}
	for next := uint64(1); ; {
		m, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && now.Sub(m.Time) < age-deadBefore {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		next = m.Sequence + 1
		_, agent, _ := deadParts(m.Subject)
		err = l.Bury(ctx, m, fmt.Sprintf("agent %s has not read it for %d days", agent, int(age.Hours()/24)), transfer.ID{})
		if err == nil {
			err = deleteMessage(ctx, s, m.Sequence)
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if err != nil {
			warn(l, "an old message that no agent has read cannot be kept as a dead letter", "subject", m.Subject, "number", m.Sequence, "error", err)
			continue
		}
		n++
	}
}
