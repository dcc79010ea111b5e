package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	codeNoStorage         = 10023 // the server's or account's storage is used up
	codeStorageLimit      = 10047
	CodeStoreMaxBytes     = 10077 // the stream is full, or the sender's share of it
	CodeNotEnrolled       = 19404 // Ferry's own: the network has no such agent
	codeWrongSequence     = 10071 // the newest message is not the expected one
	codeWrongSequenceOf   = 10164 // the same, while a cluster has not agreed yet on an earlier message
	codeConsumerCreate    = 10012 // among others: a requested change is impossible
	codeConsumerExists    = 10148
	codeConsumerNotUnique = 10100 // another durable of a work queue has the filter
	codeConsumerOffline   = 10195
	CodeStreamOffline     = 10118 // the server cannot use the stream, or a reader of it
	CodeStreamStopped     = 10194 // the same, with the reason
)

// ErrNoJetStream is the error of Ensure for a NATS server without JetStream.
var ErrNoJetStream = errors.New("the queue manager has no JetStream")

// Explain translates an error of the library on a connection that is there. Where names the queue manager, size is that
// of the message and limit that of any, in bytes.
func Explain(err error, where, subject string, size int, limit int64) error {
	var e *transfer.Error
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return transfer.Errorf(transfer.KindUnreachable, "no receiver listens on %s", subject)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return noAnswer(subject)
	case errors.Is(err, nats.ErrMaxPayload):
		return TooLarge(where, size, limit)
	case errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return TooLarge(where, size, MaxMsgSize)
	case errors.As(err, &api) && api.ErrorCode == CodeNotEnrolled:
		return transfer.Errorf(transfer.KindUnknownAgent, "%s", api.Description).
			WithHint("`ferry agent ls` lists the agents; `ferry token create --agent NAME` enrols one")
	case errors.As(err, &api) && IsFull(api) && strings.Contains(api.Description, "per subject"):
		return transfer.Errorf(transfer.KindNoSpace, "the queue %s is full: its agent does not read the messages", subject).
			WithHint("start the agent, or withdraw the requests that wait for it")
	case errors.As(err, &api) && IsFull(api):
		return transfer.Errorf(transfer.KindNoSpace, "%s has no room for %s: %s", where, subject, api.Description)
	case errors.Is(err, nats.ErrBadSubject):
		return transfer.Errorf(transfer.KindInternal, "subject %q is malformed", subject)
	}
	return transfer.Errorf(transfer.KindNoManager, "%s: %w", where, err)
}

// noAnswer returns the error of a message that was not answered in time. It names the addressee of a question.
func noAnswer(subject string) error {
	class, to := wire.ClassOf(subject)
	if class != wire.ClassAsk {
		return transfer.Errorf(transfer.KindTimeout, "no answer on %s", subject)
	}
	switch to {
	case wire.Authority:
		to = "the network's authority"
	case wire.Manager:
		to = "the queue manager"
	case wire.Coordination:
	default:
		to = "agent " + to
	}
	return transfer.Errorf(transfer.KindTimeout, "%s has not answered in time", to).WithHint("it may be busy: repeat the command, and look at its log if it does not answer then")
}

func TooLarge(where string, size int, limit int64) error {
	return transfer.Errorf(transfer.KindTooLarge, "a message of %d bytes is too large for %s; the limit is %d", size, where, limit)
}

// IsFull reports whether an error is that of a full stream, store or disk. The server gives all failures to store a
// message one code, also that of a file that it may not write.
func IsFull(api *jetstream.APIError) bool {
	switch api.ErrorCode {
	case codeNoStorage, codeStorageLimit:
		return true
	case CodeStoreMaxBytes:
		errno := FailedCall(api.Description)
		return errno == 0 || transfer.Full(errno)
	}
	return false
}

// IsMissing reports whether an error means that a stream or consumer has vanished, or that no server answers for it.
func IsMissing(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDoesNotExist) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}

// failedCalls are the errors of system calls that do not depend on the content of a file.
var failedCalls = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO,
	syscall.EROFS, syscall.EACCES, syscall.EPERM}

// FailedCall returns the error of a system call in a text of the server; 0 for none.
func FailedCall(text string) syscall.Errno {
	for _, errno := range failedCalls {
		if strings.Contains(text, errno.Error()) {
			return errno
		}
	}
	return 0
}

// NotEnrolled returns the error for a message to an agent that is not one of the network.
func NotEnrolled(to string) *jetstream.APIError {
	return &jetstream.APIError{Code: 404, ErrorCode: CodeNotEnrolled, Description: fmt.Sprintf("no agent %.80s is enrolled in this network", to)}
}

// NoShare returns the error of a stream for a message that is not admitted.
func NoShare(err error) *jetstream.APIError {
	return &jetstream.APIError{Code: 503, ErrorCode: CodeStoreMaxBytes, Description: err.Error()}
}

// StreamError returns the answer of a stream that does not store a message.
func StreamError(why *jetstream.APIError) []byte {
	return wire.Marshal(struct {
		Error *jetstream.APIError `json:"error"`
	}{why})
}
