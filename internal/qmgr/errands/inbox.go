package errands

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"

	"github.com/nats-io/nats.go"

	"ferry/internal/wire"
)

// NewSecret returns the secret part of a Conn's inboxes, which others cannot guess.
func NewSecret() string { return rand.Text() }

// SecretFor returns the part of a secret that one answerer learns. All queue managers answer under one token, and a
// channel passes the answers of each. So another queue manager cannot know the inbox of a question that does not pass
// it.
func SecretFor(secret, answerer string) string {
	sum := sha256.Sum256([]byte(secret + " " + answerer))
	return base32.StdEncoding.EncodeToString(sum[:])[:wire.InboxSecret]
}

// Request sends a question and waits for one answer. It returns nats.ErrNoResponders if the queue manager reports that
// the subject has no listener.
func Request(ctx context.Context, nc *nats.Conn, subject, inbox string, data []byte) ([]byte, error) {
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

// StoreToken begins the token of a queue manager's answers through channels. A peer sees the inboxes of all clients, as
// a server sends its leafnodes the subjects that its clients hear. So the token names the queue manager that may
// answer.
const StoreToken = "store-"
