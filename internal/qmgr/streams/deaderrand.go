package streams

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr/roles"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// StreamDead holds ferry.dead.>, the dead letters. Their subject is ferry.dead.KIND.AGENT.FROM.ID.SIZE. The stream is
// made at its first letter.
const StreamDead Stream = roles.StreamDead

// HeaderStored is the header of a message that was a dead letter and was sent again: the time when it was stored first.
// It keeps the age of a request, and the ID of a document.
const HeaderStored = "Ferry-Stored"

const (
	deadList  = 256 // letters in one answer
	deadAhead = 4   // letters that a list fetches at once, with their content
)

// Operations of a DeadTask.
const (
	DeadKeep   = "keep" // a message of a stream of commands, which can never be delivered
	DeadList   = "list"
	DeadShow   = "show"
	DeadResend = "resend" // the message goes back to its queue
	DeadRemove = "remove"
)

// A DeadTask is one operation on the dead letters.
type DeadTask struct {
	Do       string      `json:"do"`
	Stream   Stream      `json:"stream,omitempty"`  // of a keep
	Number   uint64      `json:"number,omitempty"`  // of a keep: of the message in its stream; of a list: the first one in StreamDead
	Reason   string      `json:"reason,omitempty"`  // of a keep
	Transfer transfer.ID `json:"transfer,omitzero"` // of a keep, where the agent knows it; of a list: only letters about it
	Agent    string      `json:"agent,omitempty"`   // of a list: only letters for the agent with this token
	ID       string      `json:"id,omitempty"`      // of the letter

	// Asker is the token of the asker, which may see its own letters; empty: all letters are read for a list.
	Asker string `json:"-"`
	// May reports whether the asker may see and move a letter; nil: all letters.
	May func(*wire.DeadLetter) bool `json:"-"`
	// Stops reports whether the author of a command may stop the transfer of a request to its agent; nil: all authors.
	Stops func(command, request *wire.DeadLetter) bool `json:"-"`
}

// A DeadResult is the result of a DeadTask.
type DeadResult struct {
	Letters []wire.DeadLetter `json:"letters,omitempty"`
	Next    uint64            `json:"next,omitempty"` // of a list: where the rest begins; 0: it is complete
}

// Dead does a task on the dead letters for the holder of the token self. Only a keep is restricted by that token: an
// agent keeps messages that are for itself.
func (l Library) Dead(ctx context.Context, self string, t DeadTask) (res DeadResult, err error) {
	if t.Do == DeadKeep {
		return res, keepDead(ctx, l, self, &t)
	}
	s, err := l.JS().Stream(ctx, string(StreamDead))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = nil; t.Do != DeadList {
			err = noLetter(t.ID)
		}
		return res, err
	}
	if err != nil {
		return res, err
	}
	if t.Do == DeadList {
		return res, res.listDead(ctx, s, &t)
	}

	letter, number, err := findDead(ctx, s, &t)
	if err != nil {
		return res, err
	}
	switch t.Do {
	case DeadShow:
	case DeadResend:
		if err = notStopped(ctx, s, letter, &t); err == nil {
			err = resendDead(ctx, l, letter, number)
		}
		if err == nil {
			failpoint.Hit("dead.after_resend")
			err = deleteMessage(ctx, s, number)
		}
	case DeadRemove:
		if err = deleteMessage(ctx, s, number); err == nil && letter.Kind == wire.DeadRequest {
			tellRemoved(l, letter, self)
		}
	default:
		err = transfer.Errorf(transfer.KindUsage, "nothing can be done with a dead letter that is called %.40q", t.Do)
	}
	if err == nil && t.Do != DeadShow && l.Log != nil {
		l.Log.Info("dead letter "+map[string]string{DeadResend: "sent again", DeadRemove: "removed"}[t.Do],
			"letter", letter.ID, "kind", letter.Kind, "agent", letter.Agent, "from", letter.From, "transfer", letter.Transfer, "principal", self)
	}
	if t.Do != DeadShow {
		letter.Data = nil
	}
	res.Letters = []wire.DeadLetter{*letter}
	return res, err
}

// tellRemoved reports to coordination, for the author of a removed letter, that its request is withdrawn. Nothing depends
// on it: a transfer that an agent has taken stays as it is.
func tellRemoved(l Library, d *wire.DeadLetter, by string) {
	in := readFacts(d.Data)
	var q transfer.Request
	if in.about.IsZero() && len(in.request) > 0 && json.Unmarshal(in.request, &q) == nil && !q.ID.IsZero() && q.Source != "" {
		l.JS().Conn().Publish(wire.AskSubject(wire.Coordination, d.From), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskQueued, Queued: &transfer.Progress{
			ID: q.ID, State: transfer.Withdrawn, Code: transfer.Withdrawn.Code(), Source: q.Source, Destination: q.Destination, Originator: q.Originator.String(), Job: q.Job,
			Priority: q.Priority, Submitted: q.Submitted, Reason: transfer.Errorf(transfer.KindCancelled, "its dead letter %s was removed by %s", d.ID, by)}}))
	}
}

func noLetter(id string) error {
	return transfer.Errorf(transfer.KindNotFound, "there is no dead letter %.80q", id).WithHint("`ferry queue dead ls` lists them")
}

// keepDead keeps a message of a stream of commands that is for the agent with the token self. A message that is not
// there any more was withdrawn, or was kept before.
func keepDead(ctx context.Context, l Library, self string, t *DeadTask) error {
	if !slices.Contains(CommandStreams, t.Stream) {
		return transfer.Errorf(transfer.KindUsage, "the stream %.80q has no messages that can become dead letters", t.Stream)
	}
	s, err := l.JS().Stream(ctx, string(t.Stream))
	if err != nil {
		return err
	}
	m, err := s.GetMsg(ctx, t.Number)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, agent, _ := deadParts(m.Subject); agent != self {
		return transfer.Errorf(transfer.KindDenied, "message %d of stream %s is not one for %s", t.Number, t.Stream, self)
	}
	return l.Bury(ctx, m, t.Reason, t.Transfer)
}

// listDead gives letters without their content, from a number on, oldest first.
func (res *DeadResult) listDead(ctx context.Context, s jetstream.Stream, t *DeadTask) error {
	began, size := time.Now(), 0
	filter, err := t.filter(ctx, s)
	if err != nil {
		return err
	}
	for next := max(t.Number, 1); ; {
		some, err := getMessages(ctx, s, filter, next, deadAhead)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, m := range some {
			if len(res.Letters) > 0 && (len(res.Letters) >= deadList || size > QueueBytes/4) || next > max(t.Number, 1) && time.Since(began) > queueTime {
				res.Next = m.Sequence
				return nil
			}
			next = m.Sequence + 1
			d, err := readDead(m)
			if err != nil || !t.Transfer.IsZero() && d.Transfer != t.Transfer || t.May != nil && !t.May(d) {
				continue
			}
			d.Data = nil
			size += len(d.Reason) + 512
			res.Letters = append(res.Letters, *d)
		}
	}
}

// filter returns the subjects of the letters of a list. An asker that may see none but its own letters gets those
// alone: others may have thousands, and each is read with its content.
func (t *DeadTask) filter(ctx context.Context, s jetstream.Stream) (string, error) {
	agent := "*"
	if t.Agent != "" {
		agent = deadToken(t.Agent)
	}
	all := "ferry.dead.*." + agent + ".>"
	if t.Asker == "" || t.May == nil {
		return all, nil
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(all))
	if err != nil {
		return "", err
	}
	refused := map[string]bool{} // agents with letters of others that the asker may not see
	for subject := range info.State.Subjects {
		part := strings.Split(subject, ".") // ferry.dead.KIND.AGENT.FROM.ID.SIZE
		if len(part) != 7 || part[4] == t.Asker || refused[part[3]] {
			continue
		}
		if t.May(&wire.DeadLetter{Kind: part[2], Agent: part[3], From: part[4]}) {
			return all, nil
		}
		refused[part[3]] = true
	}
	return "ferry.dead.*." + agent + "." + deadToken(t.Asker) + ".>", nil
}

// findDead returns the letter of a task, and its number. A letter that the asker may not see is not there for it.
func findDead(ctx context.Context, s jetstream.Stream, t *DeadTask) (*wire.DeadLetter, uint64, error) {
	if id, err := hex.DecodeString(t.ID); err != nil || len(id) != 8 {
		return nil, 0, noLetter(t.ID)
	}
	m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(deadOfID(t.ID)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, noLetter(t.ID)
	}
	if err != nil {
		return nil, 0, err
	}
	d, err := readDead(m)
	if err == nil && t.May != nil && !t.May(d) {
		err = noLetter(t.ID)
	}
	return d, m.Sequence, err
}

// notStopped returns an error for a request that a cancel was sent for, while the cancel is a dead letter, too. Sent
// again, the request would run although a person has stopped it.
func notStopped(ctx context.Context, s jetstream.Stream, request *wire.DeadLetter, t *DeadTask) error {
	if request.Kind != wire.DeadRequest {
		return nil
	}
	filter := "ferry.dead." + wire.DeadCommand + "." + deadToken(request.Agent) + ".>"
	for next := uint64(1); ; {
		some, err := getMessages(ctx, s, filter, next, deadAhead)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, m := range some {
			next = m.Sequence + 1
			d, err := readDead(m)
			if err != nil || !mayBeOf(request, d.Transfer) || t.Stops != nil && !t.Stops(d, request) {
				continue
			}
			if kind := readFacts(d.Data).kind; kind == wire.ControlCancel || kind == wire.ControlWithdraw {
				return transfer.Errorf(transfer.KindConflict, "the dead letter %s is not sent again: the dead letter %s, of %s, stops its transfer %s", request.ID, d.ID, d.From, d.Transfer).
					WithHint("remove both with `ferry queue dead rm`, or only the one of the cancel to let the transfer run")
			}
		}
	}
}

// mayBeOf reports whether a request may be that of a transfer. Only its agent reads the ID of a document in XML: the text
// has it, or it begins with the time when the document was stored.
func mayBeOf(request *wire.DeadLetter, id transfer.ID) bool {
	if !request.Transfer.IsZero() || id.IsZero() {
		return request.Transfer == id && !id.IsZero()
	}
	text := request.Data
	if plain, err := compress.Messages.Unpack(text); err == nil {
		text = plain
	}
	return id.Time().Equal(request.Stored.Truncate(time.Millisecond)) || bytes.Contains(bytes.ToLower(text), []byte(id.String()))
}

// resendDead stores a message in its queue again, with its first time. A second try within two minutes stores nothing:
// the first one may have ended before it removed the letter.
func resendDead(ctx context.Context, l Library, d *wire.DeadLetter, number uint64) error {
	class := map[string]string{wire.DeadRequest: "command", wire.DeadCommand: "control"}[d.Kind]
	if class == "" {
		return transfer.Errorf(transfer.KindUsage, "the dead letter %s has no content: its files are at agent %s", d.ID, d.From).
			WithHint("`ferry transfer retry " + d.Transfer.String() + "` sends them again")
	}
	m := &nats.Msg{Subject: "ferry." + class + "." + d.Agent + "." + d.From, Data: d.Data, Header: nats.Header{}}
	m.Header.Set(HeaderStored, d.Stored.UTC().Format(time.RFC3339Nano))
	m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("dead.%s.%d", d.ID, number))
	if d.Via != "" {
		m.Header.Set(HeaderFrom, d.Via)
	}
	err := l.withStreams(ctx, func() error {
		_, err := l.JS().PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		return err
	})
	return Explain(err, "the queue manager", m.Subject, len(m.Data), MaxMsgSize)
}
