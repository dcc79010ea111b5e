package qmgr

import (
	"crypto/rand"
	"strings"

	"ferry/internal/transfer"
)

// An asker hears its answers on an inbox of its own: the prefix of its Conn,
// which nobody can guess, and one or two tokens of the library's.
const (
	inboxPrefix = "_INBOX_"
	inboxRandom = 26  // characters of rand.Text
	maxInbox    = 128 // bytes
)

func newInboxPrefix() string { return inboxPrefix + rand.Text() }

// IsInbox reports whether a subject has the form of an asker's inbox. Whoever
// answers sends to no other: the subject comes out of a message, and could name
// a queue, an agent or the queue manager's own administration.
func IsInbox(subject string) bool {
	rest, ok := strings.CutPrefix(subject, inboxPrefix)
	if !ok || len(subject) > maxInbox {
		return false
	}

	tokens := strings.Split(rest, ".")
	if len(tokens) != 2 && len(tokens) != 3 || len(tokens[0]) != inboxRandom {
		return false
	}

	for _, token := range tokens {
		if token == "" || strings.ContainsFunc(token, func(c rune) bool {
			return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
		}) {
			return false
		}
	}
	return true
}

// Answer sends an answer to the inbox that a question named. Its error is of
// KindUsage, and nothing was sent, where that is no inbox (see IsInbox);
// otherwise it is Publish's.
func (c *Conn) Answer(inbox string, data []byte) error {
	if !IsInbox(inbox) {
		return transfer.Errorf(transfer.KindUsage, "an answer is wanted on %.80q, which is no inbox of Ferry's", inbox)
	}
	return c.Publish(inbox, data)
}
