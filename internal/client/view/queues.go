package view

import (
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A MemberLine is a queue manager that was taken out of its cluster.
type MemberLine struct {
	MessageType string `json:"message_type"` // removed
	Name        string `json:"name"`
}

// MemberRemoved returns the form of a queue manager that was taken out of its cluster.
func MemberRemoved(name string) MemberLine { return MemberLine{TypeRemoved, name} }

// A QueueLine is an application queue, in a list, or after it was made or removed.
type QueueLine struct {
	MessageType string             `json:"message_type"` // queue, created, removed
	Queue       transfer.QueueName `json:"queue"`
	Messages    uint64             `json:"messages"`
	Bytes       uint64             `json:"bytes"` // that the queue has in the store
	MaxBytes    int64              `json:"max_bytes"`
	Replicas    int                `json:"replicas"`
	Mark        string             `json:"mark"` // differs in another queue of the same name
}

// QueueOf returns the form of a queue. Its type is TypeQueue or TypeCreated.
func QueueOf(messageType string, v *wire.QueueView) QueueLine {
	return QueueLine{messageType, v.Queue, v.Messages, v.Bytes, v.MaxBytes, v.Replicas, v.Mark}
}

// QueueRemoved returns the form of a queue that was removed.
func QueueRemoved(name transfer.QueueName) QueueLine {
	return QueueLine{MessageType: TypeRemoved, Queue: name}
}

// A QueueMessageLine is a message that was put into a queue, or taken out of it.
type QueueMessageLine struct {
	MessageType string             `json:"message_type"` // put, message
	Queue       transfer.QueueName `json:"queue"`
	Number      uint64             `json:"number"`
	Writer      string             `json:"writer,omitempty"`
	Group       string             `json:"group,omitempty"`
	Header      map[string]string  `json:"header,omitempty"`
	Data        []byte             `json:"data,omitempty"`
}

// MessagePut returns the form of a message that was put into a queue, from the question and its answer.
func MessagePut(asked *wire.QueueAsk, ans *wire.QueueAnswer) QueueMessageLine {
	return QueueMessageLine{MessageType: TypePut, Queue: asked.Queue, Number: ans.Number, Group: asked.Group}
}

// MessageOf returns the form of the message in an answer.
func MessageOf(queue transfer.QueueName, ans *wire.QueueAnswer) QueueMessageLine {
	m := ans.Message
	return QueueMessageLine{TypeMessage, queue, m.Number, m.Writer, m.Group, m.Header, ans.Data}
}

// A DeadLetterLine is a message that can never be delivered, in a list, or after it was sent again or removed.
type DeadLetterLine struct {
	MessageType string `json:"message_type"` // dead_letter, resent, removed
	wire.DeadLetter
}

// DeadLetterOf returns the form of a dead letter. Its type is TypeDeadLetter, TypeResent or TypeRemoved.
func DeadLetterOf(messageType string, d *wire.DeadLetter) DeadLetterLine {
	return DeadLetterLine{messageType, *d}
}
