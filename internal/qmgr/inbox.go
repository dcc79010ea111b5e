package qmgr

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"

	"github.com/nats-io/nats.go"

	"ferry/internal/content/compress"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Self returns the token of the Conn's questions and answers.
func (c *Conn) Self() string { return c.cfg.Self }

// Identity returns the identity of the Conn. It is nil where the queue manager asks for none.
func (c *Conn) Identity() *identity.Identity { return c.cfg.Identity }

// newSecret returns the secret part of a Conn's inboxes, which others cannot guess.
func newSecret() string { return rand.Text() }

// secretFor returns the part of a secret that one answerer learns. All queue managers answer under one token, and a
// channel passes the answers of each. So another queue manager cannot know the inbox of a question that does not pass
// it.
func secretFor(secret, answerer string) string {
	sum := sha256.Sum256([]byte(secret + " " + answerer))
	return base32.StdEncoding.EncodeToString(sum[:])[:wire.InboxSecret]
}

// libraryInbox begins the inboxes of the library, for the answers of JetStream: the queue
// manager's own.
func libraryInbox(self, secret string) string {
	return "ferry.inbox." + self + "." + wire.Manager + "." + secret
}

// Answer sends an answer to the inbox that a question from the holder of the token to has named. Its error is of
// KindUsage, and nothing was sent, if that is not an inbox of that token for answers of this Conn; otherwise it is
// Publish's. A long answer goes out in parts. Answers are compressed at any rate: an asker has one of them at a time,
// and on a slow link the pages of a list would be the most of all bytes.
func (c *Conn) Answer(to, inbox string, data []byte) error {
	if asker, answerer, ok := wire.ReadInbox(inbox); !ok || asker != to || answerer != c.cfg.Self {
		return transfer.Errorf(transfer.KindUsage, "an answer of %s to %.80q is wanted on %.80q, which is no inbox for that", c.cfg.Self, to, inbox)
	}
	if !c.control.up.Load() {
		return c.away()
	}
	return c.explain(answerInParts(c.control.conn(), inbox, compress.Messages.Pack(data)), inbox, len(data))
}

// request sends a question and waits for one answer. It returns nats.ErrNoResponders if the queue manager reports that
// the subject has no listener.
func request(ctx context.Context, nc *nats.Conn, subject, inbox string, data []byte) ([]byte, error) {
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(subject, inbox, data); err != nil {
		return nil, err
	}
	m, err := sub.NextMsgWithContext(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		return nil, nats.ErrNoResponders
	}
	return m.Data, nil
}
