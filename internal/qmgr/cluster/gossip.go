package cluster

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// Subjects of the messages between the members of a cluster. Only a queue manager may publish and receive them
// (roles.Grants). Messages of another cluster are ignored.
const (
	helloSubject  = "ferry.member.hello"
	claimsSubject = "ferry.member.claims"
	figureSubject = "ferry.member.figures" // a question

	helloEvery  = 3 * time.Second
	maxHello    = 4 << 10 // bytes
	claimsPause = 500 * time.Millisecond
)

// A hello describes a member. The member publishes it every few seconds, and when another member comes. Unknown fields
// are ignored.
type hello struct {
	V          int      `json:"v"`
	Cluster    string   `json:"cluster"`
	Name       string   `json:"name"`
	URL        string   `json:"url"`
	Version    string   `json:"version"` // of the NATS library
	MaxPayload int64    `json:"max_payload"`
	Number     uint64   `json:"number"`            // of its claims (roles.Keys.Claims)
	Removed    []string `json:"removed,omitempty"` // members that were taken out of the cluster
}

// A claimsNote holds the claims of the network. The authority has signed them; a member that passes them on cannot
// change them.
type claimsNote struct {
	V       int          `json:"v"`
	Cluster string       `json:"cluster"`
	Claims  roles.Claims `json:"claims"`
}

// Attend has a member hear the others. own is the connection of the queue manager to itself.
func (m *Member) Attend(own *own.Conn) error {
	m.own = own
	err := own.Subscribe(helloSubject, "", m.TakeHello)
	err2 := own.Subscribe(claimsSubject, "", m.admitted)
	err3 := own.Subscribe(figureSubject, "", func(msg *nats.Msg) {
		if data, err := json.Marshal(FiguresOf(m.Store, m.hostURL(), m)); err == nil && msg.Reply != "" && string(msg.Data) == m.Cluster.Name {
			msg.Respond(data)
		}
	})
	return errors.Join(err, err2, err3)
}

func (m *Member) publish(subject string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = m.own.NATS().Publish(subject, data)
	}
	if err != nil {
		m.Store.Cfg.Log.Debug("the other members of the cluster are not told something", slog.String("subject", subject), slog.Any("error", err))
	}
}

// hello publishes the hello of this member.
func (m *Member) hello() {
	h := hello{V: 1, Cluster: m.Cluster.Name, Name: m.Store.Cfg.Name, URL: m.hostURL(), Version: server.VERSION, MaxPayload: streams.MaxPayload}
	m.mu.Lock()
	h.Removed = m.Note.Removed
	m.mu.Unlock()
	h.Number = m.Number()
	m.publish(helloSubject, h)
}

// TakeHello takes the hello of another member. A member with older claims than this one was away when the authority
// published the newer ones. It receives them then.
func (m *Member) TakeHello(msg *nats.Msg) {
	var h hello
	if len(msg.Data) > maxHello {
		return
	}
	if err := json.Unmarshal(msg.Data, &h); err != nil || h.V != 1 || h.Cluster != m.Cluster.Name || h.Name == m.Store.Cfg.Name {
		return
	}
	m.mu.Lock()
	if slices.Contains(m.Note.Members, h.Name) { // or the member is added with a later hello
		m.others[h.Name] = h
	}
	m.mu.Unlock()
	m.gone(h.Removed...)
	if h.Number < m.Number() {
		m.PublishClaims()
	}
}

// PublishClaims publishes the claims to the other members. Several members may find at once that one has been away. A
// claim that comes twice does no harm.
func (m *Member) PublishClaims() {
	m.mu.Lock()
	again := time.Since(m.told) < claimsPause
	if !again {
		m.told = time.Now()
	}
	m.mu.Unlock()
	if !again && m.Store.Cfg.Identity != nil {
		m.publish(claimsSubject, claimsNote{1, m.Cluster.Name, m.Claims()})
	}
}

// admitted takes the claims from another member.
func (m *Member) admitted(msg *nats.Msg) {
	var n claimsNote
	if err := json.Unmarshal(msg.Data, &n); err != nil || n.V != 1 || n.Cluster != m.Cluster.Name || m.Store.Cfg.Identity == nil {
		return
	}
	// Older claims, and this member's own ones coming back, are refused as a conflict.
	if err := m.Admit(n.Claims); err != nil && transfer.KindOf(err) != transfer.KindConflict {
		m.Store.Cfg.Log.Warn("cannot take the list of admitted identities of another member of the cluster", slog.Any("error", err))
	}
}
