//go:build linux

package network

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// A Wire is a connection of the test's own to the queue manager. It receives all messages and can send under any name.
type Wire struct {
	n       *Network
	c, data *nats.Conn
}

// Wire connects; the connection stays until the test ends, through restarts of the queue manager.
func (n *Network) Wire(options ...nats.Option) *Wire {
	n.t.Helper()
	options = append(options, nats.RetryOnFailedConnect(true))
	return &Wire{n, n.Anybody(options...), n.AnybodysData(options...)}
}

// WireOf is Wire to the queue manager of an agent, which stores the data for that agent.
func (n *Network) WireOf(agent string) *Wire {
	n.t.Helper()
	at := func(which func(identity.JWTs) string) *nats.Conn {
		return n.as(n.identityOf(n.ManagerOf(agent)), n.URLOf(agent), which, []nats.Option{nats.RetryOnFailedConnect(true)})
	}
	return &Wire{n, at(func(all identity.JWTs) string { return all.User }), at(func(all identity.JWTs) string { return all.Data })}
}

// Close ends the connection before the test does.
func (w *Wire) Close() {
	w.c.Close()
	w.data.Close()
}

// of returns the connection for a subject.
func (w *Wire) of(subject string) *nats.Conn {
	if strings.HasPrefix(subject, "ferry.data.") {
		return w.data
	}
	return w.c
}

// Anybody connects with the client library alone, with the queue manager's own identity. It may send under any name,
// and receive all messages. The connection stays until the test ends, through restarts of the queue manager.
func (n *Network) Anybody(options ...nats.Option) *nats.Conn {
	n.t.Helper()
	return n.anybody(func(all identity.JWTs) string { return all.User }, options)
}

// AnybodysData is like Anybody for the data of the queue lane, which has an account of its own.
func (n *Network) AnybodysData(options ...nats.Option) *nats.Conn {
	n.t.Helper()
	return n.anybody(func(all identity.JWTs) string { return all.Data }, options)
}

func (n *Network) anybody(which func(identity.JWTs) string, options []nats.Option) *nats.Conn {
	n.t.Helper()
	return n.as(n.master(), n.url, which, options)
}

func (n *Network) as(i *identity.Identity, url string, which func(identity.JWTs) string, options []nats.Option) *nats.Conn {
	n.t.Helper()
	c, err := nats.Connect(url, append(options, nats.MaxReconnects(-1), nats.TLSHandshakeFirst(),
		nats.Secure(i.Client(identity.OneOf(i.Name().Network, identity.Manager))),
		nats.UserJWT(func() (string, error) { return which(i.JWTs()), nil }, func(nonce []byte) ([]byte, error) { return roles.SignNonce(i.Seed(), nonce) }))...)
	n.must(err)
	n.t.Cleanup(c.Close)
	return c
}

// master returns the queue manager's own identity.
func (n *Network) master() *identity.Identity {
	n.t.Helper()
	return n.identityOf(QM)
}

func (n *Network) identityOf(manager string) *identity.Identity {
	n.t.Helper()
	path := filepath.Join(n.State(manager), "identities", "qm")
	if n.External() {
		path = filepath.Join(n.State(QM), "identity")
	}
	dir, err := keyfile.Open(path)
	n.must(err)
	i, err := identity.Load(dir)
	n.must(err)
	return i
}

// Signed returns a message to an agent, signed by the queue manager as a principal of its own. The agent knows the
// author, and no rule gives it an authority.
func (n *Network) Signed(kind word.Kind, to string, id transfer.ID, message []byte) []byte {
	n.t.Helper()
	self := n.master()
	agent := identity.Name{Network: self.Name().Network, Role: identity.Agent, Name: to}
	return word.Sign(self, word.Statement{Kind: kind, To: agent, ID: id}, message, time.Now())
}

// RawData opens a connection as AnybodysData does, but without the library. It sends only CONNECT, and stays until the
// test ends.
func (n *Network) RawData() (net.Conn, *bufio.Reader) {
	n.t.Helper()
	i := n.master()
	tcp, err := net.Dial("tcp", n.first())
	n.must(err)
	n.t.Cleanup(func() { tcp.Close() })
	c := tls.Client(tcp, i.Client(identity.OneOf(i.Name().Network, identity.Manager)))
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	n.must(err)
	var info struct {
		Nonce string `json:"nonce"`
	}
	n.must(json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	signed, err := roles.SignNonce(i.Seed(), []byte(info.Nonce))
	n.must(err)
	_, err = fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"jwt\":%q,\"sig\":%q}\r\n", i.JWTs().Data, base64.RawURLEncoding.EncodeToString(signed))
	n.must(err)
	return c, r
}

// Say publishes a message and waits until the queue manager has it.
func (w *Wire) Say(subject string, data []byte) {
	w.n.t.Helper()
	w.n.must(w.of(subject).Publish(subject, data))
	w.n.must(w.of(subject).Flush())
}

// Post publishes a message that asks for an answer, if reply is not empty. It does not wait until the queue manager has
// it; Flush does.
func (w *Wire) Post(subject, reply string, data []byte) {
	w.n.t.Helper()
	w.n.must(w.of(subject).PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data}))
}

// Flush waits until the queue manager has all posted messages.
func (w *Wire) Flush() {
	w.n.t.Helper()
	w.n.must(w.c.Flush())
	w.n.must(w.data.Flush())
}

// Hear calls f with every message on the subjects, in order, as its sender made it: compressed messages are
// decompressed.
func (w *Wire) Hear(subjects string, f func(subject string, data []byte)) {
	w.n.t.Helper()
	s, err := w.of(subjects).Subscribe(subjects, func(m *nats.Msg) { f(m.Subject, Plain(m.Data)) })
	w.n.must(err)
	w.n.must(s.SetPendingLimits(-1, -1))
	w.n.must(w.of(subjects).Flush())
}

// Plain returns a message as its sender made it. A message that cannot be decompressed is returned unchanged.
func Plain(message []byte) []byte {
	if plain, err := compress.Messages.Unpack(message); err == nil {
		return plain
	}
	return message
}

// Carried counts the bytes of chunk messages to an agent from now on, independent of the agents' own figures.
func (w *Wire) Carried(to string) *atomic.Int64 {
	w.n.t.Helper()
	count := new(atomic.Int64)
	w.Hear("ferry.data."+to+".>", func(_ string, data []byte) { count.Add(int64(len(data))) })
	return count
}

// Samples keeps the first few messages on the subjects, once there are any.
func (w *Wire) Samples(subjects string, most int) func() [][]byte {
	w.n.t.Helper()
	var mu sync.Mutex
	var kept [][]byte
	w.Hear(subjects, func(_ string, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		if len(kept) < most {
			kept = append(kept, append([]byte(nil), data...))
		}
	})
	return func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return append([][]byte(nil), kept...)
	}
}

// Logged counts the lines of a process's log that contain a text.
func (n *Network) Logged(who, text string) int {
	n.t.Helper()
	count := 0
	for line := range strings.Lines(n.process(who).log.last(1 << 20)) {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}
