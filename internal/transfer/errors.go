package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A Kind classifies an error. It crosses the wire. It decides the result code, and whether the failure is a wait. Kinds
// are append-only: their numbers are in chunk messages and journals, their words in JSON.
type Kind uint8

// The kinds. Each comment gives the scope that the kind ends.
const (
	KindNone         Kind = iota // no error
	KindInternal                 // a defect of Ferry's own; item or transfer
	KindUsage                    // the words of the request; before anything is sent
	KindNoManager                // no queue manager within the time given; submission
	KindUnknownAgent             // coordination has never heard of the agent; submission
	KindOutsideRoot              // item
	KindMissing                  // item
	KindUnreadable               // item: permission, or an I/O error of the source
	KindExists                   // item
	KindDigest                   // item: the digests of the two sides differ
	KindChanging                 // item: the source kept changing while it was read
	KindWrongType                // item: a directory, device, socket … where a file is meant
	KindUnwritable               // item: permission, read-only or I/O error of the destination
	KindBusy                     // never final: a wait
	KindUnreachable              // never final: a wait
	KindNoSpace                  // never final: a wait
	KindClock                    // request refused: its ID is from the future
	KindConflict                 // request refused: same ID, other content; or another one does the same now
	KindParked                   // transfer set aside for an operator
	KindCancelled                // transfer
	KindRecovery                 // transfer: the recovery time-out is over
	KindLost                     // item: a ledger was lost and with it the outcome; unknown
	KindTooLarge                 // request refused: over a limit
	KindVersion                  // a message of a version not spoken here
	KindNotBuilt                 // a documented choice that this version does not have
	KindNotFound                 // no such transfer or agent; administration
	KindEnding                   // cancel refused: the transfer is already ending
	KindTimeout                  // an administration request was not answered
	KindAlive                    // an agent of this name lives elsewhere
	KindUnmappable               // item: text that the destination's code page lacks
	KindMalformed                // item: bytes that break the rules of their format, or do not fit it
	KindMoved                    // item: it got its name, and then another file was found under that name
	KindSkipped                  // item: the file that is there stays, as the request asked for; no failure
	KindNoRoot                   // an agent does not start: its root is missing
	KindInUse                    // a process does not start: another one listens on its address
	KindDenied                   // request or item: the principal lacks the right
	KindProgram                  // transfer: a program before or after it failed
	KindTrigger                  // transfer: not started, for a trigger was not met
	KindDocument                 // request refused: XML of MQ MFT that is no valid request
	KindTogether                 // item: it was to arrive together with others, and another one failed
	KindReplaced                 // item: another version has replaced the expected one; no failure
	KindExit                     // transfer: an exit has cancelled it, or has failed
)

var kindNames = [...]string{
	"none", "internal", "usage", "no-queue-manager", "unknown-agent", "outside-root", "missing",
	"unreadable", "exists", "digest", "source-changing", "wrong-type", "unwritable", "busy",
	"unreachable", "no-space", "clock", "conflict", "parked", "cancelled", "recovery-timeout",
	"unknown-outcome", "too-large", "version", "not-built", "not-found", "already-ending",
	"timeout", "agent-alive", "unmappable", "malformed", "moved-away", "skipped", "no-root", "in-use", "denied",
	"program", "trigger", "document", "together", "replaced", "exit",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", k)
}

// MarshalText writes the word of a kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a word of MarshalText. It reads the word of a later version as KindInternal: the error's text has
// the details.
func (k *Kind) UnmarshalText(b []byte) error {
	*k = KindInternal
	if n := slices.Index(kindNames[:], string(b)); n >= 0 {
		*k = Kind(n)
	} else if digits, ok := strings.CutPrefix(string(b), "kind-"); ok {
		if n, err := strconv.ParseUint(digits, 10, 8); err == nil {
			*k = Kind(n)
		}
	}
	return nil
}

// Result codes, after MQ MFT's table.
const (
	CodeSuccess     = 0
	CodeFailed      = 1
	CodeTimeout     = 2
	CodeQueued      = 3
	CodePartial     = 20
	CodeExit        = 21
	CodeNotFound    = 26
	CodeEnding      = 27
	CodeNothing     = 40
	CodeCancelled   = 41
	CodeTrigger     = 42
	CodeDocument    = 43
	CodeUnreachable = 49
	CodeDenied      = 53
	CodeUsage       = 64
	CodeNoRoot      = 66
	CodeRecovery    = 69
	CodeParked      = 70
	CodeOutput      = 74 // a command did its work, but standard output could not be written
	CodeNoManager   = 75
)

// Code returns the result code of a command or a whole transfer that an error of this kind ends.
func (k Kind) Code() int {
	switch k {
	case KindNone:
		return CodeSuccess
	case KindUsage, KindTooLarge, KindNotBuilt:
		return CodeUsage
	case KindDenied:
		return CodeDenied
	case KindDocument:
		return CodeDocument
	case KindNoRoot:
		return CodeNoRoot
	case KindNoManager, KindInUse:
		return CodeNoManager
	case KindUnknownAgent, KindUnreachable:
		return CodeUnreachable
	case KindOutsideRoot, KindMissing, KindUnreadable, KindExists, KindDigest, KindChanging,
		KindWrongType, KindUnwritable, KindLost, KindUnmappable, KindMalformed, KindMoved, KindSkipped, KindProgram, KindTogether, KindReplaced:
		return CodeNothing
	case KindClock, KindConflict, KindParked, KindAlive:
		return CodeParked
	case KindCancelled:
		return CodeCancelled
	case KindTrigger:
		return CodeTrigger
	case KindExit:
		return CodeExit
	case KindRecovery, KindNoSpace, KindBusy:
		return CodeRecovery
	case KindNotFound:
		return CodeNotFound
	case KindEnding:
		return CodeEnding
	case KindTimeout:
		return CodeTimeout
	}
	return CodeFailed
}

// Waits reports whether an error of this kind is a wait with a reason rather
// than an end.
func (k Kind) Waits() bool {
	return k == KindBusy || k == KindUnreachable || k == KindNoSpace
}

// An Error describes a failure, names its object, and gives the next step. Text is a sentence that names the object.
type Error struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"` // the next step
	Err  error  `json:"-"`              // the cause, on the host where it happened
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Text + "; " + e.Hint
	}
	return e.Text
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of a kind. A %w in the format keeps the cause.
func Errorf(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Text: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint returns the error with a next step.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// KindOf returns the kind of an error: the kind of the first *Error in its chain. If there is none, it is the kind that
// corresponds to the operating system's error, or else KindInternal. The kind of nil is KindNone.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case err == nil:
		return KindNone
	case errors.As(err, &e):
		return e.Kind
	case Full(err):
		return KindNoSpace
	case Transient(err):
		return KindBusy
	case errors.Is(err, fs.ErrNotExist):
		return KindMissing
	case errors.Is(err, fs.ErrExist):
		return KindExists
	case errors.Is(err, fs.ErrPermission):
		return KindUnreadable
	case errors.Is(err, context.Canceled):
		return KindCancelled
	}
	return KindInternal
}

// Full reports whether the operating system's error in the chain of err means a full disk or an exhausted quota.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// AsError turns any error into an *Error, so that it can cross the wire.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindOf(err), Text: err.Error(), Err: err}
}
