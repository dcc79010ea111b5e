package streams

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	deadMaxBytes = 64 << 20
	deadMinBytes = 4 << 20
	deadMaxMsgs  = 5_000
	deadMaxAge   = 30 * 24 * time.Hour
	deadHead     = 16 << 10 // bytes of a letter beside its content: head, subject and headers, at most
	deadReason   = 1 << 10  // bytes of a reason
	deadList     = 256      // letters in one answer
	deadAhead    = 4        // letters that a list fetches at once, with their content
	deadOnce     = 256      // letters of one removal of an agent
	deadUnknown  = 32       // letters for one unknown agent
	// deadBefore is how long before the end of its stream's age a command becomes a dead letter.
	deadBefore = 2 * time.Hour
	// buryTime is how long one removal of messages may keep letters.
	buryTime = APITimeout / 4
	allDead  = "ferry.dead.>"
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
	Transfer transfer.ID `json:"transfer,omitzero"` // of a keep, where the agent knows it
	ID       string      `json:"id,omitempty"`      // of the letter

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

// deadLetter is the form of a letter in its stream: a line of JSON, and the content behind it.
type deadLetter struct {
	V int `json:"v"`
	wire.DeadLetter
}

func deadConfig(most int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              string(StreamDead),
		Description:       "Ferry: messages that can never be delivered",
		Subjects:          []string{allDead},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Replicas:          1,
		MaxConsumers:      MaxConsumers,
		MaxMsgs:           deadMaxMsgs,
		MaxMsgsPerSubject: 1, // a letter that is kept twice is there once
		MaxBytes:          most,
		MaxAge:            deadMaxAge,
		MaxMsgSize:        MaxMsgSize + deadHead,
		Discard:           jetstream.DiscardOld,
		Duplicates:        duplicateWindow,
	}
}

// deadStream returns the stream, and makes it if it is missing. On a server with less room it is smaller.
func deadStream(ctx context.Context, l Library) (jetstream.Stream, error) {
	s, err := l.JS().Stream(ctx, string(StreamDead))
	if err == nil {
		return l.raise(ctx, s)
	}
	for most := int64(deadMaxBytes); errors.Is(err, jetstream.ErrStreamNotFound); most /= 4 {
		s, err = l.create(ctx, deadConfig(most))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return l.JS().Stream(ctx, string(StreamDead))
		}
		if api := (*jetstream.APIError)(nil); errors.As(err, &api) && IsFull(api) && most > deadMinBytes {
			err = jetstream.ErrStreamNotFound
		}
	}
	return s, err
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
		err = deleteMessage(ctx, s, number)
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

// Bury keeps a message of a stream of commands as a dead letter. It does not remove it from that stream.
func (l Library) Bury(ctx context.Context, m *jetstream.RawStreamMsg, reason string, about transfer.ID) error {
	kind, agent, from := deadParts(m.Subject)
	in := readFacts(m.Data)
	stored := m.Time
	if at, ok := StoredBefore(m.Header, stored); ok {
		stored = at
	}
	content := m.Data
	switch {
	case in.whole: // each copy of a message is the same letter
		content = in.id[:]
	case in.id.IsZero(): // documents with one text are not copies
		content = append(stored.UTC().AppendFormat(nil, time.RFC3339Nano+"\n"), m.Data...)
	}
	return putDead(ctx, l, wire.DeadLetter{ID: deadID(m.Subject, content), Kind: kind, Agent: agent, From: from, Via: m.Header.Get(HeaderFrom),
		Transfer: cmp.Or(in.about, about, in.id), Stored: stored, Reason: reason, Size: len(m.Data), Data: m.Data})
}

// StoredBefore returns the time of HeaderStored, if it is before the time when a message was stored. A later time is not
// believed: it would make a request younger than it is.
func StoredBefore(h nats.Header, stored time.Time) (at time.Time, ok bool) {
	at, ok = ParseStored(h.Get(HeaderStored))
	return at, ok && at.Before(stored)
}

// ParseStored reads the text of HeaderStored. It takes no time that JSON cannot write: anyone may send the header.
func ParseStored(text string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, text)
	at = at.UTC()
	return at, err == nil && at.Year() >= 1970 && at.Year() <= 9999
}

// deadParts returns the kind, the agent and the author of a message, from its subject.
func deadParts(subject string) (kind, agent, from string) {
	t := strings.Split(subject, ".")
	if len(t) < 4 || t[0] != "ferry" {
		return "", "", ""
	}
	return map[string]string{"command": wire.DeadRequest, "control": wire.DeadCommand, "store": wire.DeadStored}[t[1]], t[2], t[3]
}

// facts are the parts of a message that a letter shows. They decide which letters are the same; the agent checks them again.
type facts struct {
	id    transfer.ID // of the request or command
	whole bool        // the message is all of it: requests with many items come in parts
	kind  wire.Kind   // of a command
	about transfer.ID // the transfer of a command
}

// readFacts reads a request or a command, signed or not.
func readFacts(data []byte) (in facts) {
	if plain, err := compress.Messages.Unpack(data); err == nil {
		data = plain
	}
	var m struct {
		Word    int             `json:"word"`
		ID      transfer.ID     `json:"id"`
		Kind    wire.Kind       `json:"kind"`
		Body    json.RawMessage `json:"body"`
		Part    json.RawMessage `json:"part"`
		Request struct {
			ID transfer.ID `json:"id"`
		} `json:"request"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if d.Decode(&m) != nil {
		return in
	}
	in.id = m.ID
	if m.Word > 0 && d.Decode(&m) != nil { // the signed message is behind its head
		return in
	}
	in.id = cmp.Or(m.Request.ID, in.id)
	in.whole = !in.id.IsZero() && len(m.Part) == 0
	if in.kind = m.Kind; slices.Contains([]wire.Kind{wire.ControlCancel, wire.ControlWithdraw, wire.ControlResume}, m.Kind) {
		if of, err := wire.ReadBody[wire.OfTransfer](m.Kind, m.Body); err == nil {
			in.about = of.Transfer
		}
	}
	return in
}

func deadID(subject string, data []byte) string {
	h := sha256.New()
	h.Write([]byte(subject + "\n"))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// deadToken returns a token that cannot be read as a part of a filter. Without identities any text may be in a subject.
func deadToken(token string) string {
	if token == "" || strings.ContainsAny(token, "*>") || !IsPrintable(token) {
		return "_"
	}
	return token
}

// putDead stores a letter. The oldest letters of one author give way to it: the one with the most letters or, if their
// bytes are the limit, with the most bytes.
func putDead(ctx context.Context, l Library, d wire.DeadLetter) error {
	s, err := deadStream(ctx, l)
	if err != nil {
		return err
	}
	d.Kept = time.Now().UTC()
	if len(d.Reason) > deadReason {
		d.Reason = strings.ToValidUTF8(d.Reason[:deadReason], "") + "…"
	}
	data := d.Data
	d.Data = nil
	body := append(append(wire.Marshal(deadLetter{1, d}), '\n'), data...)
	if err := makeRoom(ctx, l, s, deadToken(d.From), len(body)+1<<10); err != nil {
		return err
	}
	subject := strings.Join([]string{"ferry.dead", d.Kind, deadToken(d.Agent), deadToken(d.From), d.ID, strconv.Itoa(d.Size)}, ".")
	ack, err := l.JS().PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	failpoint.Hit("dead.after_put")
	// An earlier copy of the message may have another size, and so another subject.
	return s.Purge(ctx, jetstream.WithPurgeSubject(deadOfID(d.ID)), jetstream.WithPurgeSequence(ack.Sequence))
}

// warn writes a line that others can cause.
func warn(l Library, text string, args ...any) {
	if l.Quiet != nil {
		l.Quiet.Warn(text, args...)
	}
}

// deadOfID returns the filter of a letter.
func deadOfID(id string) string { return "ferry.dead.*.*.*." + id + ".*" }

// makeRoom removes letters until there is room for one more of an author, which counts as its own.
func makeRoom(ctx context.Context, l Library, s jetstream.Stream, author string, size int) error {
	for {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		limit, have := info.Config, info.State
		if have.Msgs == 0 || (limit.MaxMsgs <= 0 || have.Msgs < uint64(limit.MaxMsgs)) && (limit.MaxBytes <= 0 || have.Bytes+uint64(size) <= uint64(limit.MaxBytes)) {
			return nil
		}
		if info, err = s.Info(ctx, jetstream.WithSubjectFilter(allDead)); err != nil {
			return err
		}
		full, of := limit.MaxMsgs > 0 && have.Msgs >= uint64(limit.MaxMsgs), map[string]int{}
		for subject := range info.State.Subjects {
			if t := strings.Split(subject, "."); len(t) == 7 && full {
				of[t[4]]++
			} else if len(t) == 7 {
				n, _ := strconv.Atoi(t[6])
				of[t[4]] += n + deadHead/16 // for its head
			}
		}
		if of[author] > 0 && full {
			of[author]++
		} else if of[author] > 0 {
			of[author] += size
		}
		most := ""
		for _, from := range slices.Sorted(maps.Keys(of)) {
			if most == "" || of[from] > of[most] {
				most = from
			}
		}
		filter := allDead
		if most != "" {
			filter = "ferry.dead.*.*." + most + ".>"
		}
		m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil // it has gone meanwhile
		}
		if err == nil {
			err = deleteMessage(ctx, s, m.Sequence)
		}
		if err != nil {
			return err
		}
		if d, bad := readDead(m); bad == nil {
			warn(l, "a dead letter gives way to a newer one", "letter", d.ID, "kind", d.Kind, "agent", d.Agent, "from", d.From, "transfer", d.Transfer, "reason", d.Reason)
		}
	}
}

func readDead(m *jetstream.RawStreamMsg) (*wire.DeadLetter, error) {
	head, data, _ := bytes.Cut(m.Data, []byte("\n"))
	var d deadLetter
	if err := json.Unmarshal(head, &d); err != nil || d.V != 1 {
		return nil, transfer.Errorf(transfer.KindVersion, "a dead letter on %.200s cannot be read", m.Subject)
	}
	d.Data = data
	return &d.DeadLetter, nil
}

// listDead gives letters without their content, from a number on, oldest first.
func (res *DeadResult) listDead(ctx context.Context, s jetstream.Stream, t *DeadTask) error {
	began, size := time.Now(), 0
	for next := max(t.Number, 1); ; {
		some, err := getMessages(ctx, s, allDead, next, deadAhead)
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
			if err != nil || t.May != nil && !t.May(d) {
				continue
			}
			d.Data = nil
			size += len(d.Reason) + 512
			res.Letters = append(res.Letters, *d)
		}
	}
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
	if request.Kind != wire.DeadRequest || request.Transfer.IsZero() {
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
			if err != nil || d.Transfer != request.Transfer || t.Stops != nil && !t.Stops(d, request) {
				continue
			}
			if kind := readFacts(d.Data).kind; kind == wire.ControlCancel || kind == wire.ControlWithdraw {
				return transfer.Errorf(transfer.KindConflict, "the dead letter %s is not sent again: the dead letter %s, of %s, stops its transfer %s", request.ID, d.ID, d.From, request.Transfer).
					WithHint("remove both with `ferry queue dead rm`, or only the one of the cancel to let the transfer run")
			}
		}
	}
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

func deleteMessage(ctx context.Context, s jetstream.Stream, number uint64) error {
	if err := s.DeleteMsg(ctx, number); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return nil
}

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
