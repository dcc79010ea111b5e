package errands

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
)

// slowest is the rate of the slowest link that must work, in bytes of messages a second: a quarter of it is for headers
// and other messages.
const slowest = 64e3 / 8 * 3 / 4

// Slowest returns the time that so many bytes take on the slowest link.
func Slowest(bytes int) time.Duration {
	return time.Duration(float64(bytes) / slowest * float64(time.Second))
}

// Unpacked returns a message in its sender's form. It returns a message that cannot be restored unchanged, for its
// reader to refuse.
func Unpacked(data []byte) []byte {
	if plain, err := compress.Messages.Unpack(data); err == nil {
		return plain
	}
	return data
}

const (
	headerPart = "Ferry-Part" // ID OFFSET TOTAL
	// PartSize is the size of a part: a second of the slowest link. An answer has at most PartsMost of them, and each
	// takes less than streams.APITimeout on such a link.
	PartSize  = 8 << 10
	PartsMost = 128
	// MaxAnswer is the most that an answer may have.
	MaxAnswer = 4 << 20
)

// InParts makes the messages of an answer.
func InParts(subject string, data []byte) (all []*nats.Msg) {
	size := max(PartSize, (len(data)+PartsMost-1)/PartsMost)
	if len(data) <= size {
		return []*nats.Msg{{Subject: subject, Data: data}}
	}
	id := rand.Text()
	for at := 0; at < len(data); at += size {
		m := nats.NewMsg(subject)
		m.Data = data[at:min(at+size, len(data))]
		m.Header.Set(headerPart, fmt.Sprintf("%s %d %d", id, at, len(data)))
		all = append(all, m)
	}
	return all
}

// An AnswerAssembly puts the parts of an answer together. The zero value is ready. One without parts is whole.
type AnswerAssembly struct {
	id    string
	total int
	Data  []byte
}

// Add takes a message and reports whether the answer is whole. A part that does not continue the answer, since
// one before it was lost, begins nothing.
func (g *AnswerAssembly) Add(m *nats.Msg) (whole bool) {
	text := m.Header.Get(headerPart)
	if text == "" {
		g.Data, g.total = m.Data, len(m.Data)
		return true
	}
	var id string
	var at, total int
	if n, err := fmt.Sscanf(text, "%s %d %d", &id, &at, &total); n != 3 || err != nil || total > MaxAnswer {
		return false
	}
	if at == 0 {
		*g = AnswerAssembly{id: id, total: total}
	}
	if id != g.id || total != g.total || at != len(g.Data) || at+len(m.Data) > total {
		return false
	}
	g.Data = append(g.Data, m.Data...)
	return len(g.Data) == total
}

// AnswerInParts sends an answer.
func AnswerInParts(nc *nats.Conn, inbox string, data []byte) error {
	if len(data) > MaxAnswer {
		return transfer.Errorf(transfer.KindTooLarge, "an answer of %d bytes is too large; the limit is %d", len(data), MaxAnswer)
	}
	for _, m := range InParts(inbox, data) {
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}
