package wire

import "strings"

// A Class is a kind of message, as a queue manager sees it. Messages of one class are limited together.
type Class uint8

// The classes. The first four are stored, each in a stream of its own.
const (
	ClassCommand Class = iota // requests
	ClassControl              // cancels and administration
	ClassEvent                // audit batches
	ClassStore                // chunk messages of stored delivery
	ClassAsk                  // questions
	ClassReply                // control messages of transfers, between agents
	ClassWord                 // answers, heartbeats and progress
	ClassData                 // chunk messages, acknowledgements, and subjects that are none of Ferry's
)

// Stored reports whether the messages of a class are stored.
func (c Class) Stored() bool { return c <= ClassStore }

// ClassOf returns the class of a subject and its third token: the addressee, or the sender if the subject names no
// other agent.
func ClassOf(subject string) (Class, string) {
	rest, ours := strings.CutPrefix(subject, "ferry.")
	if !ours {
		return ClassData, ""
	}
	kind, rest, _ := strings.Cut(rest, ".")
	token, _, _ := strings.Cut(rest, ".")
	switch kind {
	case "data":
		return ClassData, token
	case "command":
		return ClassCommand, token
	case "control":
		return ClassControl, token
	case "event":
		return ClassEvent, token
	case "store":
		return ClassStore, token
	case "ask":
		return ClassAsk, token
	case "reply":
		return ClassReply, token
	}
	return ClassWord, token
}
