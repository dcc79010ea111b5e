package queuemanager

import (
	"encoding/json"
	"sync/atomic"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/security/access"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An UpQuestion is a question to `ferry up`, sent to its token. A question without a body asks for agents and channels
// alone.
type UpQuestion struct {
	V    int    `json:"v"`
	Op   UpOp   `json:"op"`
	Name string `json:"name,omitempty"` // of a channel
}

// An UpOp changes a channel.
type UpOp string

// The operations.
const (
	UpStop   UpOp = "stop"
	UpStart  UpOp = "start"
	UpRemove UpOp = "rm"
)

// UpAnswer is the answer to an UpQuestion.
type UpAnswer struct {
	V        int                    `json:"v"`
	Agents   map[string]bool        `json:"agents"`             // name, ready
	Starting bool                   `json:"starting,omitempty"` // coordination has not been started yet
	Degraded string                 `json:"degraded,omitempty"` // why coordination does not run
	Channels []channel.ChannelState `json:"channels,omitempty"`
	Error    *transfer.Error        `json:"error,omitempty"`
}

// maxUpQuestion bounds a question, in bytes.
const maxUpQuestion = 4 << 10

// A Responder answers for the process of `ferry up`.
type Responder struct {
	conn  *qmgr.Conn
	links *channel.Channels
	rules func() (*trust.Document, error) // nil: no rules, and all changes are allowed
	ready map[string]*atomic.Bool         // agents
	begun atomic.Bool                     // coordination has been started, or is not to be
	away  atomic.Pointer[error]           // why coordination does not run, though it is to
}

// OpenResponder answers for as long as the connection is there.
func OpenResponder(conn *qmgr.Conn, links *channel.Channels, rules func() (*trust.Document, error), names []string) (*Responder, error) {
	d := &Responder{conn: conn, links: links, rules: rules, ready: map[string]*atomic.Bool{}}
	for _, n := range names {
		d.ready[n] = new(atomic.Bool)
	}
	_, err := conn.Subscribe(wire.AllAsks(wire.Up), d.handle)
	return d, err
}

func (d *Responder) handle(m qmgr.Message) {
	if m.Reply == "" {
		return
	}
	asker := wire.LastToken(m.Subject)
	ans := UpAnswer{V: 1, Agents: map[string]bool{}, Starting: !d.begun.Load()}
	if len(m.Data) > 0 {
		ans.Error = transfer.AsError(d.change(asker, m.Data))
	}
	for n, r := range d.ready {
		ans.Agents[n] = r.Load()
	}
	ans.Channels = d.links.List()
	if why := d.away.Load(); why != nil {
		ans.Degraded = coordinationAway
		if d.rules == nil || d.mayChange(asker) == nil { // names of files are for administrators
			ans.Degraded = "coordination is degraded: " + (*why).Error()
		}
	}
	if data, err := json.Marshal(ans); err == nil {
		d.conn.Answer(asker, m.Reply, data) // a failed answer is ignored
	}
}

// Begin says that coordination has been started, or is not to be.
func (d *Responder) Begin() { d.begun.Store(true) }

// Tell sets the reason why coordination does not run; nil: it runs.
func (d *Responder) Tell(why error) {
	if why == nil {
		d.away.Store(nil)
		return
	}
	d.away.Store(&why)
}

// change does the change that a question asks for, if the rules allow the asker to make it.
func (d *Responder) change(asker string, question []byte) error {
	var q UpQuestion
	if err := json.Unmarshal(question, &q); err != nil || q.V != 1 || len(question) > maxUpQuestion {
		return transfer.Errorf(transfer.KindVersion, "a question of %s to `ferry up` cannot be read", asker)
	}
	if err := d.mayChange(asker); err != nil {
		return err
	}
	switch q.Op {
	case UpStop:
		return d.links.Stop(q.Name)
	case UpStart:
		return d.links.Start(q.Name)
	case UpRemove:
		return d.links.Remove(q.Name)
	}
	return transfer.Errorf(transfer.KindVersion, "`ferry up` knows no %.40q", q.Op)
}

func (d *Responder) mayChange(asker string) error {
	doc, err := d.rules()
	if err != nil || doc == nil {
		return err
	}
	j := access.NewJudge(doc.Network, nil, false)
	if err := j.Take(doc); err != nil {
		return err
	}
	_, err = j.Ask(access.Question{Principal: asker, Right: transfer.AuthAdmin})
	return err
}
