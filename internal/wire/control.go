package wire

import (
	"bytes"
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// Version is the version of every message that this code writes.
const Version = 1

// MaxControl is the maximum size of a control message in bytes.
const MaxControl = 1 << 20

// A Kind names a control message.
type Kind string

// The kinds on REPLY.
const (
	KindOpen        Kind = "open"
	KindAccept      Kind = "accept"
	KindResolved    Kind = "resolved"
	KindBusy        Kind = "busy"
	KindRefuse      Kind = "refuse"
	KindAck         Kind = "ack"
	KindResync      Kind = "resync"
	KindOutcomes    Kind = "outcomes"
	KindOutcomesAck Kind = "outcomes-ack"
	KindCancel      Kind = "cancel"
	KindCancelled   Kind = "cancelled"
	KindAlive       Kind = "alive"
)

var replyKinds = map[Kind]bool{KindOpen: true, KindAccept: true, KindResolved: true, KindBusy: true, KindRefuse: true,
	KindAck: true, KindResync: true, KindOutcomes: true, KindOutcomesAck: true, KindCancel: true,
	KindCancelled: true, KindAlive: true}

// A Message is a control message about one transfer. The field that its Kind names is set and no other; some kinds have
// no field.
type Message struct {
	Kind     Kind
	From     transfer.AgentName
	Transfer transfer.ID

	Open        *Open
	Accept      *Accept
	Resolved    *Resolved
	Busy        *Busy
	Refuse      *Refuse
	Ack         *Ack
	Resync      *Resync
	Outcomes    *Outcomes
	OutcomesAck *OutcomesAck
	Cancel      *Cancel
	Alive       *Alive
}

// Open asks the destination to receive. Nonces increase; a lower one is dropped.
type Open struct {
	Nonce    uint64           `json:"nonce"`
	Source   string           `json:"source_incarnation"`
	Dest     string           `json:"destination_incarnation,omitempty"` // once it has accepted
	Epoch    uint32           `json:"epoch,omitempty"`                   // the newest that the source knows; the next one is greater
	Several  bool             `json:"several,omitempty"`                 // DEST must be a directory
	Request  transfer.Request `json:"request"`                           // without its items
	Targets  *Targets         `json:"targets,omitempty"`                 // own targets of items, until the destination has accepted
	MaxChunk int              `json:"max_chunk"`                         // largest chunk that the source's queue manager carries
	Pardon   uint64           `json:"pardon,omitempty"`                  // how often an operator has resumed the transfer
	Recorded uint64           `json:"recorded,omitempty"`                // outcomes that the source has recorded
	// Principal is the submitter of the transfer, as the source's agent vouches.
	Principal string       `json:"principal,omitempty"`
	Direct    *Direct      `json:"direct,omitempty"` // nil: the source does not have the direct lane
	Stored    *StoredState `json:"stored,omitempty"` // with stored delivery
}

// StoredState gives the state of stored delivery at the source, in OPEN. The OPEN that begins an epoch in the store has it,
// too.
type StoredState struct {
	Store string `json:"store"`          // names the store that the source's queue manager has
	Epoch uint32 `json:"epoch"`          // the source's own number
	Last  uint64 `json:"last,omitempty"` // number of the epoch's last message, once all are stored
	// Ledger is the mark of the ledger that had the destination's name at its queue manager when the first epoch began;
	// it is empty if no ledger had it. A destination with this ledger has accepted only data that the ledger records.
	Ledger string `json:"ledger,omitempty"`
	// Again says that the source broke the epoch off. RESYNC is to give the start of the next one.
	Again bool `json:"again,omitempty"`
}

// MaxStored is the size in bytes of the largest message of stored delivery. Its chunks have at most MaxStoredChunk
// bytes: the queue manager limits the number of messages.
const (
	MaxStored      = MaxStoredChunk + Overhead
	MaxStoredChunk = 256 << 10
)

// Targets are some of the targets of a transfer, in the order of their numbers. If there are More, RESOLVED asks for
// them, and the next OPEN has them.
type Targets struct {
	After uint64            `json:"after,omitempty"` // the last one of the previous OPEN; 0: these are the first
	List  []transfer.Target `json:"list"`
	More  bool              `json:"more,omitempty"`
}

// Resolved answers an OPEN that does not have all targets. The next OPEN continues after Known. List is empty if the
// destination does not know the targets before those of the OPEN.
type Resolved struct {
	Nonce uint64              `json:"nonce"`
	After uint64              `json:"after,omitempty"` // of that OPEN
	Known uint64              `json:"known,omitempty"`
	List  []transfer.Resolved `json:"list,omitempty"`
}

// A Cancel withdraws a transfer.
type Cancel struct {
	// Principal is the user that cancelled, as the source's agent vouches. It is empty if the agent gave the transfer
	// up by itself.
	Principal string `json:"principal,omitempty"`
}

// Accept answers an Open.
type Accept struct {
	Nonce      uint64              `json:"nonce"`
	Epoch      uint32              `json:"epoch"`
	Dest       string              `json:"destination_incarnation"`
	Settings   transfer.Settings   `json:"settings"`
	Lane       string              `json:"lane"`
	Credit     int64               `json:"credit"`
	Sums       int                 `json:"sums"` // files that may lack their SUM when another item begins
	Resume     transfer.Resume     `json:"resume"`
	Resolution transfer.Resolution `json:"resolution,omitzero"`
	Resolved   []transfer.Resolved `json:"resolved,omitempty"`    // the targets of the OPEN
	LaneReason string              `json:"lane_reason,omitempty"` // reason against the direct lane
	Instance   string              `json:"instance,omitempty"`    // the run of the destination that accepts
	Direct     *Direct             `json:"direct,omitempty"`      // with the direct lane: its addresses
}

// Direct tells the peer, in OPEN and in ACCEPT, how to reach an agent on the direct lane.
type Direct struct {
	Mode      string   `json:"mode"`                // tls or plain
	Addresses []string `json:"addresses,omitempty"` // HOST:PORT, at most 8; none: it does not listen
	Pin       string   `json:"pin,omitempty"`       // with tls: SHA-256 of its certificate (DER), in hex
	Token     string   `json:"token,omitempty"`     // authorises a connection to carry this transfer, in hex
	Dial      bool     `json:"dial,omitempty"`      // in OPEN: the source cannot connect, and the destination is to dial
}

// The modes of the direct lane.
const (
	DirectTLS   = "tls"
	DirectPlain = "plain"
)

// maxAddresses is the maximum number of an agent's addresses. maxAddress is the maximum length of one in bytes: a host
// name of 253 bytes, and a port.
const (
	maxAddresses = 8
	maxAddress   = 260
)

// Busy answers an Open. Unasked, without Nonce and Epoch, it says that a slot is free. Unasked, with an Epoch, it ends
// that epoch: space has run out, or, with place 0, the destination has no epoch open.
type Busy struct {
	Nonce  uint64          `json:"nonce,omitempty"`
	Epoch  uint32          `json:"epoch,omitempty"`
	Place  int             `json:"place,omitempty"` // in the destination's queue, from 1; 0: ask again at once
	Reason *transfer.Error `json:"reason"`
	// Program says that a program of the transfer runs at the destination. Meanwhile the recovery time-out does not
	// count.
	Program bool `json:"program,omitempty"`
}

// Refuse rejects an Open finally.
type Refuse struct {
	Nonce uint64          `json:"nonce"`
	Error *transfer.Error `json:"error"`
}

// Ack reports the data that the receiver holds. It is cumulative.
type Ack struct {
	Epoch  uint32 `json:"epoch"`
	Seq    uint64 `json:"seq"`    // messages processed in order
	Credit int64  `json:"credit"` // limit of the epoch's running total
	Safe   *Safe  `json:"safe,omitempty"`
	Bytes  int64  `json:"bytes"`           // data bytes processed in this epoch
	Ahead  int64  `json:"ahead,omitempty"` // present limit of the source's run-ahead, in bytes
	Here   uint64 `json:"here,omitempty"`  // the newest message that has arrived, if it is beyond Seq
	At     int64  `json:"at,omitempty"`    // time of the ACK by the destination's clock, in milliseconds since 1970
}

// Stamp returns a time for At. It returns 0, which means unknown, if the clock is before 1970 or after the year 9999.
func Stamp(now time.Time) int64 {
	if ms := now.UnixMilli(); within(ms, 0, maxStamp) {
		return ms
	}
	return 0
}

// Time returns At as a time, or the zero time if At is unknown.
func (a *Ack) Time() (at time.Time) {
	if a.At != 0 {
		at = time.UnixMilli(a.At)
	}
	return at
}

// Alive says that the source sends in an epoch. It travels beside the data, which may take long on a slow link.
type Alive struct {
	Epoch uint32 `json:"epoch"`
}

// Safe is the newest point that a restart would continue from.
type Safe struct {
	Item   uint64 `json:"item"`
	Offset int64  `json:"offset"`
}

// Resync issues a new epoch. The receiver has discarded data beyond Resume.
type Resync struct {
	Epoch  uint32          `json:"epoch"`
	Credit int64           `json:"credit"`
	Resume transfer.Resume `json:"resume"`
	Reason string          `json:"reason"`
	Direct *Direct         `json:"direct,omitempty"` // addresses of the direct lane, in place of those of ACCEPT
}

// Outcomes reports decided items. Last marks the last batch.
type Outcomes struct {
	Batch    uint64             `json:"batch"`
	Outcomes []transfer.Outcome `json:"outcomes"`
	Last     bool               `json:"last,omitempty"`
	// Program is the failure of the program that runs after the transfer, in the last batch. It is nil if the program
	// succeeded or there was none.
	Program *transfer.Error `json:"program,omitempty"`
}

// OutcomesAck says that a batch is in the source's ledger.
type OutcomesAck struct {
	Batch uint64 `json:"batch"`
}

type envelope struct {
	V        int                `json:"v"`
	Kind     Kind               `json:"kind"`
	From     transfer.AgentName `json:"from"`
	Transfer transfer.ID        `json:"transfer,omitzero"`
	Body     json.RawMessage    `json:"body,omitempty"`
}

// body returns the address of the field that the kind names, or nil if the kind has none.
func (m *Message) body(make bool) any {
	switch m.Kind {
	case KindOpen:
		return field(&m.Open, make)
	case KindAccept:
		return field(&m.Accept, make)
	case KindResolved:
		return field(&m.Resolved, make)
	case KindBusy:
		return field(&m.Busy, make)
	case KindRefuse:
		return field(&m.Refuse, make)
	case KindAck:
		return field(&m.Ack, make)
	case KindResync:
		return field(&m.Resync, make)
	case KindOutcomes:
		return field(&m.Outcomes, make)
	case KindOutcomesAck:
		return field(&m.OutcomesAck, make)
	case KindCancel:
		return field(&m.Cancel, make)
	case KindAlive:
		return field(&m.Alive, make)
	}
	return nil
}

func field[T any](p **T, create bool) *T {
	if create {
		*p = new(T)
	}
	return *p
}

// Encode writes a message.
func (m *Message) Encode() ([]byte, error) {
	e := envelope{V: Version, Kind: m.Kind, From: m.From, Transfer: m.Transfer}
	if m.Kind == KindOutcomes && m.Outcomes != nil {
		return m.fitting(encodeOutcomes(e, m.Outcomes))
	}
	if b := m.body(false); b != nil {
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		e.Body = raw
	}
	return m.fitting(json.Marshal(e))
}

func (m *Message) fitting(data []byte, err error) ([]byte, error) {
	if err == nil && len(data) > MaxControl {
		return nil, transfer.Errorf(transfer.KindTooLarge, "a %s message has %d bytes; the limit is %d", m.Kind, len(data), MaxControl)
	}
	return data, err
}

// Decode reads a message. It rejects an unknown kind or version and values out of range.
func Decode(data []byte) (*Message, error) {
	if m := decodeOutcomes(data); m != nil {
		return m, nil
	}
	return decode(data)
}

func decode(data []byte) (*Message, error) {
	var e envelope
	if err := Unmarshal(data, &e); err != nil {
		return nil, err
	}
	if err := checkVersion(e.V); err != nil {
		return nil, err
	}

	if !replyKinds[e.Kind] {
		return nil, transfer.Errorf(transfer.KindVersion, "control message of unknown kind %q", e.Kind)
	}

	m := &Message{Kind: e.Kind, From: e.From, Transfer: e.Transfer}
	if b := m.body(true); b != nil {
		if len(e.Body) == 0 || bytes.Equal(e.Body, []byte("null")) {
			return nil, transfer.Errorf(transfer.KindVersion, "control message %s has no body", e.Kind)
		}
		if err := json.Unmarshal(e.Body, b); err != nil {
			return nil, transfer.Errorf(transfer.KindVersion, "control message %s: %w", e.Kind, err)
		}
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func checkVersion(v int) error {
	if v < Version-1 || v > Version+1 {
		return transfer.Errorf(transfer.KindVersion, "message version %d is not spoken here; this is version %d", v, Version).
			WithHint("bring both sides to neighbouring versions of Ferry")
	}
	return nil
}

// Unmarshal reads JSON within the limits of control messages.
func Unmarshal(data []byte, v any) error {
	if len(data) > MaxControl {
		return transfer.Errorf(transfer.KindTooLarge, "a message has %d bytes; the limit is %d", len(data), MaxControl)
	}
	if d := depth(data); d > transfer.MaxJSONDepth {
		return transfer.Errorf(transfer.KindTooLarge, "a message is nested %d deep; the limit is %d", d, transfer.MaxJSONDepth)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return transfer.Errorf(transfer.KindVersion, "malformed message: %w", err)
	}
	return nil
}

// depth returns the deepest nesting of brackets outside strings.
func depth(data []byte) (deepest int) {
	level, inString, escaped := 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
