package wire

import "encoding/json"

// Messages about the witnesses of the audit log. Package witness defines notes, bindings and proofs. Here they are
// bytes with a maximum length.

// Bind is the body of AskBind.
type Bind struct {
	Binding json.RawMessage `json:"binding"` // witness.Binding
}

// LogSeen is the body of AskLog. Size and Log are the part of the log that a witness has seen. Incarnation, First and
// Last select its records, which coordination is to locate. 0 means none.
type LogSeen struct {
	Size        int64  `json:"size,omitempty"`
	Log         string `json:"log,omitempty"` // the log's incarnation; Size refers to that log only
	Incarnation string `json:"incarnation,omitempty"`
	First       uint64 `json:"first,omitempty"`
	Last        uint64 `json:"last,omitempty"`
}

// Cosign is the body of AskCosign: a witness's signature line for the note of a size.
type Cosign struct {
	Size int64  `json:"size"`
	Line []byte `json:"line"`
}

// VerifyAgainst is the body of AskVerify: the checkpoints that others have kept of the log.
type VerifyAgainst struct {
	Checkpoints []LogKept `json:"checkpoints,omitempty"`
}

// A LogKept is a checkpoint kept outside coordination.
type LogKept struct {
	Size int64  `json:"size"`
	Root string `json:"root"` // hex
}

// AcceptLog is the body of AskAccept: the log's note that a witness is to continue from. With a Reason the agent also
// accepts that the log lacks records of its own.
type AcceptLog struct {
	Note    []byte          `json:"note"`
	Binding json.RawMessage `json:"binding"` // witness.Binding, of the note's signer
	Reason  string          `json:"reason,omitempty"`
}

// RefusedKey is coordination's reason to reject a signature with an unknown key. The signer must register the key with
// AskBind.
const RefusedKey = "the key is not on record"

// Bounds of these messages: numbers of elements, and lengths in bytes.
const (
	MaxLogRecords = 16384 // records to locate, in one question
	MaxLogKept    = 2048  // checkpoints against which a log is verified

	maxBinding   = 16 << 10
	maxNote      = 32 << 10
	maxCosign    = 512
	maxLogNumber = 1 << 48
	maxHex       = 64
)

func (b *Bind) check() string {
	return broken(rule{"no binding, or one that is too long", len(b.Binding) > 0 && len(b.Binding) <= maxBinding})
}

func (b *LogSeen) check() string {
	return broken(
		rule{"a size out of its range", within(b.Size, 0, maxLogNumber)},
		rule{"an incarnation that is none", len(b.Log) <= maxHex && len(b.Incarnation) <= maxHex},
		rule{"records out of their range", b.First <= maxLogNumber && b.Last <= maxLogNumber && (b.Last < b.First || b.Last-b.First < MaxLogRecords)})
}

func (b *Cosign) check() string {
	return broken(
		rule{"a size out of its range", within(b.Size, 0, maxLogNumber)},
		rule{"a line that is too long", len(b.Line) <= maxCosign})
}

func (b *VerifyAgainst) check() string {
	ok := len(b.Checkpoints) <= MaxLogKept
	for _, c := range b.Checkpoints {
		ok = ok && within(c.Size, 0, maxLogNumber) && len(c.Root) <= maxHex
	}
	return broken(rule{"too many checkpoints, or some out of their ranges", ok})
}

func (b *AcceptLog) check() string {
	return broken(rule{"no note, or one that is too long", len(b.Note) > 0 && len(b.Note) <= maxNote && len(b.Binding) <= maxBinding},
		rule{"a reason that is too long", len(b.Reason) <= maxSentence})
}
