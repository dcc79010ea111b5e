package wire

import "encoding/json"

// What is said about the audit log's witnesses. Notes, bindings and proofs are package
// witness's; here they are bytes, and bounded.

// Bind is the body of AskBind.
type Bind struct {
	Binding json.RawMessage `json:"binding"` // witness.Binding
}

// LogSeen is the body of AskLog: what a witness has seen of the log, and of which of its
// records it wants to know where they are. 0: none.
type LogSeen struct {
	Size        int64  `json:"size,omitempty"`
	Log         string `json:"log,omitempty"` // the log's incarnation; Size is of no other
	Incarnation string `json:"incarnation,omitempty"`
	First       uint64 `json:"first,omitempty"`
	Last        uint64 `json:"last,omitempty"`
}

// Cosign is the body of AskCosign: a witness's line for the note of a size.
type Cosign struct {
	Size int64  `json:"size"`
	Line []byte `json:"line"`
}

// VerifyAgainst is the body of AskVerify: what others have kept of the log.
type VerifyAgainst struct {
	Checkpoints []LogKept `json:"checkpoints,omitempty"`
}

// A LogKept is a checkpoint that somebody has kept.
type LogKept struct {
	Size int64  `json:"size"`
	Root string `json:"root"` // hex
}

// AcceptLog is the body of AskAccept: the note of the log from which a witness is to go on.
type AcceptLog struct {
	Note    []byte          `json:"note"`
	Binding json.RawMessage `json:"binding"` // witness.Binding, of who has signed it
}

// RefusedKey is why coordination does not take what is signed with a key that it does not know:
// it has to be told whose it is, with AskBind.
const RefusedKey = "the key is not on record"

// Bounds of them: how many, and in bytes.
const (
	MaxLogRecords = 16384 // of which it is asked where they are
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
	return broken(rule{"no note, or one that is too long", len(b.Note) > 0 && len(b.Note) <= maxNote && len(b.Binding) <= maxBinding})
}
