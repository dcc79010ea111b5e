package streams

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/content/compress"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	deadMaxBytes = 64 << 20
	deadMinBytes = 4 << 20
	deadMaxMsgs  = 5_000
	deadMaxAge   = 30 * 24 * time.Hour
	deadHead     = 16 << 10 // bytes of a letter beside its content: head, subject and headers, at most
	deadReason   = 1 << 10  // bytes of a reason
	allDead      = "ferry.dead.>"
)

// deadLetter is the form of a letter in its stream: a line of JSON, and the content behind it.
type deadLetter struct {
	V int `json:"v"`
	wire.DeadLetter
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

	request json.RawMessage
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
		Request json.RawMessage `json:"request"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if d.Decode(&m) != nil {
		return in
	}
	in.id = m.ID
	if m.Word > 0 && d.Decode(&m) != nil { // the signed message is behind its head
		return in
	}
	var q struct {
		ID transfer.ID `json:"id"`
	}
	if json.Unmarshal(m.Request, &q) == nil {
		in.id, in.request = cmp.Or(q.ID, in.id), m.Request
	}
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

// deadToken returns a token that cannot be read as a part of a filter. Without identities any text may be in a subject.
func deadToken(token string) string {
	if token == "" || strings.ContainsAny(token, "*>") || !IsPrintable(token) {
		return "_"
	}
	return token
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

// warn writes a line that others can cause.
func warn(l Library, text string, args ...any) {
	if l.Quiet != nil {
		l.Quiet.Warn(text, args...)
	}
}

func deleteMessage(ctx context.Context, s jetstream.Stream, number uint64) error {
	if err := s.DeleteMsg(ctx, number); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return nil
}

// deadOfID returns the filter of a letter.
func deadOfID(id string) string { return "ferry.dead.*.*.*." + id + ".*" }

func readDead(m *jetstream.RawStreamMsg) (*wire.DeadLetter, error) {
	head, data, _ := bytes.Cut(m.Data, []byte("\n"))
	var d deadLetter
	if err := json.Unmarshal(head, &d); err != nil || d.V != 1 {
		return nil, transfer.Errorf(transfer.KindVersion, "a dead letter on %.200s cannot be read", m.Subject)
	}
	d.Data = data
	return &d.DeadLetter, nil
}
