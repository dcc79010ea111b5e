package qmgr

import (
	"ferry/internal/content/compress"
	"ferry/internal/qmgr/errands"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Self returns the token of the Conn's questions and answers.
func (c *Conn) Self() string { return c.cfg.Self }

// Identity returns the identity of the Conn. It is nil where the queue manager asks for none.
func (c *Conn) Identity() *identity.Identity { return c.cfg.Identity }

// NewInbox returns a subject for the answers of the holder of a token. No other party uses that subject.
func (c *Conn) NewInbox(of string) string { return c.base.NewInbox(of) }

// Answer sends an answer to the inbox that a question from the holder of the token to has named. Its error is of
// KindUsage, and nothing was sent, if that is not an inbox of that token for answers of this Conn; otherwise it is
// Publish's. A long answer goes out in parts. Answers are compressed at any rate: an asker has one of them at a time,
// and on a slow link the pages of a list would be the most of all bytes.
func (c *Conn) Answer(to, inbox string, data []byte) error {
	if asker, answerer, ok := wire.ReadInbox(inbox); !ok || asker != to || answerer != c.cfg.Self {
		return transfer.Errorf(transfer.KindUsage, "an answer of %s to %.80q is wanted on %.80q, which is no inbox for that", c.cfg.Self, to, inbox)
	}
	if !c.control.Up.Load() {
		return c.base.Away()
	}
	return c.base.Explain(errands.AnswerInParts(c.control.NATS(), inbox, compress.Messages.Pack(data)), inbox, len(data))
}
