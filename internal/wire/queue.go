package wire

import (
	"net/url"
	"strconv"

	"ferry/internal/transfer"
)

// Application queues (JetStream). The subject has the writer, as everywhere: the queue manager vouches for the writer.

// Headers of a message of an application queue.
const (
	HeaderGroup    = "Ferry-Group"    // the group of messages, as in the subject
	HeaderSequence = "Ferry-Sequence" // number of the message in its group, from 1
	HeaderLast     = "Ferry-Last"     // "true" on the last of a group
	HeaderTransfer = "Ferry-Transfer" // the transfer that wrote it
	HeaderFile     = "Ferry-File"     // the file's name
	HeaderFileSize = "Ferry-File-Size"
	HeaderDigest   = "Ferry-File-Digest" // of the whole file
)

// QueueHeaders returns all of them. Other headers are not passed on.
func QueueHeaders() []string {
	return []string{HeaderGroup, HeaderSequence, HeaderLast, HeaderTransfer, HeaderFile, HeaderFileSize, HeaderDigest}
}

// NoGroup stands in a subject for the group of a message without one.
const NoGroup = "-"

// MaxQueueMessage is the size in bytes of the largest message of an application queue: that of any message, less room
// for its headers.
const MaxQueueMessage = 2<<20 - 96<<10

// QueueSubject carries messages of an application queue, from the member with the token writer.
func QueueSubject(queue transfer.QueueName, writer, group string) string {
	return "ferry.queue." + queue.Token() + "." + writer + "." + group
}

// ReceiptSubject carries the receipt of an item in an application queue, in the stream of the queue itself. The receipt
// is stored together with the messages or not at all.
func ReceiptSubject(queue transfer.QueueName, writer string, id transfer.ID, item uint64) string {
	return "ferry.queued." + queue.Token() + "." + writer + "." + id.String() + "." + strconv.FormatUint(item, 10)
}

// ReceiptsOf matches the subjects of ReceiptSubject for a transfer.
func ReceiptsOf(queue transfer.QueueName, writer string, id transfer.ID) string {
	return "ferry.queued." + queue.Token() + "." + writer + "." + id.String() + ".*"
}

// QueueReceipts matches the subjects of ReceiptSubject for a queue.
func QueueReceipts(queue transfer.QueueName) string { return "ferry.queued." + queue.Token() + ".>" }

// HoldSubject returns the subject of a hold that reserves a message of a queue for one reader.
func (s *QueueSpan) HoldSubject(number uint64) string {
	return s.holds() + strconv.FormatUint(number, 10)
}

// HoldOf returns the subject of a hold of the messages of a span, for a transfer of an agent.
func (s *QueueSpan) HoldOf(agent string, id transfer.ID) string {
	return s.holds() + agent + "." + id.String() + "." + strconv.FormatUint(s.Last, 10)
}

// HoldsOfTransfer matches the subjects of HoldOf for a transfer.
func (s *QueueSpan) HoldsOfTransfer(agent string, id transfer.ID) string {
	return s.holds() + agent + "." + id.String() + ".*"
}

// Holds matches the subjects of all holds of a queue.
func (s *QueueSpan) Holds() string { return s.holds() + ">" }

// holds returns the prefix of the subjects of a queue's holds. It includes the mark of the queue: another queue of the
// same name counts its messages anew.
func (s *QueueSpan) holds() string { return "ferry.hold." + s.Queue.Token() + "." + s.Mark + "." }

// A QueueMessage is one message of an application queue.
type QueueMessage struct {
	Number uint64            `json:"number"` // number in the queue; later messages have higher numbers
	Writer string            `json:"writer"` // token of the writer
	Group  string            `json:"group,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	Data   []byte            `json:"-"`
	Size   int               `json:"size"` // of Data, in bytes
}

// Sequence returns the number of a message in its group, and whether it is the last one. The number is 0 if the message
// does not have one.
func (m QueueMessage) Sequence() (n int, last bool) {
	n, err := strconv.Atoi(m.Header[HeaderSequence])
	if err != nil || n < 1 {
		n = 0
	}
	return n, m.Header[HeaderLast] == "true"
}

// A QueueView is the state of an application queue.
type QueueView struct {
	Queue    transfer.QueueName `json:"queue"`
	Mark     string             `json:"mark"` // names this creation of the queue; another queue of the same name has another mark
	Messages uint64             `json:"messages"`
	Bytes    uint64             `json:"bytes"`
	First    uint64             `json:"first,omitempty"` // number of the oldest message, at least
	Last     uint64             `json:"last,omitempty"`  // number of the newest message, at most
	MaxBytes int64              `json:"max_bytes"`
	Replicas int                `json:"replicas"`
}

// A QueueReceipt is the part of an item that is in an application queue.
type QueueReceipt struct {
	Messages int    `json:"messages"` // stored messages of the item
	Last     bool   `json:"last"`     // all are stored
	Number   uint64 `json:"number"`   // of the receipt in the queue; 0: there is none
}

// A QueueSpan is a range of messages of an application queue, by their numbers.
type QueueSpan struct {
	Queue  transfer.QueueName `json:"queue"`
	Mark   string             `json:"mark,omitempty"`   // of the queue's QueueView; empty: any queue of the name
	Writer string             `json:"writer,omitempty"` // of a group; empty: any
	Group  string             `json:"group,omitempty"`  // empty: all messages
	First  uint64             `json:"first,omitempty"`
	Last   uint64             `json:"last,omitempty"` // 0: without end
}

// Filter returns the filter that matches the subjects of a span's messages.
func (s *QueueSpan) Filter() string {
	writer := s.Writer
	if writer == "" {
		writer = "*"
	}
	group := s.Group
	if group == "" {
		group = "*"
	}
	return QueueSubject(s.Queue, writer, group)
}

// A QueueGroup is the part of one group that is in a queue.
type QueueGroup struct {
	Writer   string `json:"writer"`
	Group    string `json:"group"`
	Messages uint64 `json:"messages"`
	Last     uint64 `json:"last"`     // number of the newest one
	Complete bool   `json:"complete"` // the last message is there, and so are all others
}

// A QueueItem is an item of a transfer as messages of an application queue.
type QueueItem struct {
	Queue    transfer.QueueName
	Transfer transfer.ID
	Item     uint64
}

// Group returns the ID of the group that the item becomes.
func (i *QueueItem) Group() string {
	return i.Transfer.String() + "-" + strconv.FormatUint(i.Item, 10)
}

// QueueOf returns the queue with a token.
func QueueOf(token string) (transfer.QueueName, error) {
	text, err := url.PathUnescape(token)
	if err != nil {
		return "", transfer.Errorf(transfer.KindMalformed, "%.200q is no token of a queue's name", token)
	}
	name, err := transfer.ParseQueueName(text)
	if err == nil && name.Token() != token {
		err = transfer.Errorf(transfer.KindMalformed, "%.200q is no token of a queue's name", token)
	}
	return name, err
}

// The operations of a QueueAsk.
const (
	QueueCreate = "create"
	QueueList   = "list"
	QueueShow   = "show"
	QueueRemove = "remove"
	QueuePut    = "put"
	QueuePeek   = "peek"  // the oldest message, which stays
	QueueClaim  = "claim" // the oldest message that is not held; the asker holds it then
	QueueTake   = "take"  // removes a claimed message
)

// Limits of messages that users put into a queue and take out of one by hand, in bytes.
const (
	MaxQueuePut  = 64 << 10
	MaxQueuePeek = 256 << 10
)

// QueueAsk is the body of AskQueue.
type QueueAsk struct {
	Do       string             `json:"do"`
	Queue    transfer.QueueName `json:"queue,omitempty"`
	MaxBytes int64              `json:"max_bytes,omitempty"`
	Replicas int                `json:"replicas,omitempty"`
	Group    string             `json:"group,omitempty"`
	Last     bool               `json:"last,omitempty"`
	Data     []byte             `json:"data,omitempty"`
	Mark     string             `json:"mark,omitempty"`
	Number   uint64             `json:"number,omitempty"`
	Hold     uint64             `json:"hold,omitempty"` // of a claim
}

func (a *QueueAsk) check() string {
	return broken(
		rule{"nothing to do", a.Do != "" && len(a.Do) <= maxName},
		rule{"no queue", a.Queue != "" || a.Do == QueueList},
		rule{"numbers out of their range", within(a.MaxBytes, 0, MaxSize) && within(a.Replicas, 0, 5)},
		rule{"a group that is none", a.Group == "" || transfer.CheckGroup(a.Group) == nil},
		rule{"a message that is too large", len(a.Data) <= MaxQueuePut},
		rule{"a mark that is too long", len(a.Mark) <= maxName})
}

// QueueAnswer is the body of an answer to AskQueue.
type QueueAnswer struct {
	Queues  []QueueView   `json:"queues,omitempty"`
	Message *QueueMessage `json:"message,omitempty"` // of a peek; none: the queue is empty
	Data    []byte        `json:"data,omitempty"`
	Number  uint64        `json:"number,omitempty"` // of a put
	Hold    uint64        `json:"hold,omitempty"`   // of a claim
}

// A QueuePiece is a part of a message of an application queue.
type QueuePiece struct {
	Number uint64 // of the message
	Offset int    // of the piece in it
	Data   []byte
	Last   bool // the message ends with it
}

// QueuePieces are the messages of a span, one after the other, in pieces. Next ends with io.EOF, or with an error of
// KindConflict if a message is removed during the read.
type QueuePieces interface {
	Next() (QueuePiece, error)
	// Wait returns nil if Next does not block. Otherwise it returns a channel that is closed when that may have
	// changed.
	Wait() <-chan struct{}
	Close()
}
