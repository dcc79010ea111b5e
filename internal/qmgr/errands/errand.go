package errands

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	MaxDegraded = 1 << 10 // of announcements that report a degraded state
)

// Shortened cuts a text to so many bytes at most.
func Shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// An Errand is an operation that the queue manager does for an identity without the right to do it itself. The request
// is sent on wire.AskSubject(wire.Manager, …). A request there without a body is a question for about. Unknown fields
// are ignored.
type Errand struct {
	V  int `json:"v"`
	Op op  `json:"op"`
	// Durable names the queue, and with it the stream and the subjects.
	Durable string             `json:"durable,omitempty"`
	Idle    time.Duration      `json:"idle,omitempty"` // Queue.Idle, in nanoseconds
	Owner   *streams.Owner     `json:"owner,omitempty"`
	Tokens  []string           `json:"tokens,omitempty"`
	Claims  *roles.Claims      `json:"claims,omitempty"`
	Store   *streams.StoreTask `json:"store,omitempty"`
	Queue   *streams.QueueTask `json:"queue,omitempty"`
	Dead    *streams.DeadTask  `json:"dead,omitempty"`
	Remove  *Removal           `json:"remove,omitempty"`
	Text    string             `json:"text,omitempty"`
	// Registration is an identity.Registration of the asker, with any errand.
	Registration json.RawMessage `json:"place,omitempty"`
}

// An op names the operation of an errand: a method of streams.Admin.
type op string

const (
	OpEnsure              op = "ensure"
	OpDurable             op = "durable"
	OpReaderPosition      op = "standing"
	OpForget              op = "forget"
	OpOwner               op = "owner"
	OpSetOwner            op = "set-owner"
	OpAgentsWithoutReader op = "strangers"
	OpPurge               op = "purge"
	OpStore               op = "store"
	OpClear               op = "clear" // store with streams.StoreClear, for each of Tokens
	OpQueue               op = "queue"
	OpDead                op = "dead"
	OpAdmit               op = "admit"   // not of streams.Admin: Server.Admit
	OpMembers             op = "members" // not of streams.Admin: Server.Members
	OpRemove              op = "remove"  // not of streams.Admin: cluster.Member.Remove
	OpNotice              op = "notice"  // not of streams.Admin: a finding of the queue manager
	OpRegister            op = "place"   // not of streams.Admin: Forwarder.Register
)

// An Result is the result of an errand.
type Result struct {
	V              int                     `json:"v"`
	Error          *transfer.Error         `json:"error,omitempty"`
	Marks          map[string]streams.Mark `json:"marks,omitempty"`
	Durable        *streams.Durable        `json:"durable,omitempty"`
	ReaderPosition *streams.ReaderPosition `json:"standing,omitempty"`
	Owner          *streams.Owner          `json:"owner,omitempty"`
	Tokens         []string                `json:"tokens,omitempty"`
	Gone           uint64                  `json:"gone,omitempty"`
	Members        []streams.Member        `json:"members,omitempty"`
	Store          *streams.StoreResult    `json:"store,omitempty"`
	Queue          *streams.QueueResult    `json:"queue,omitempty"`
	Dead           *streams.DeadResult     `json:"dead,omitempty"`
	Registered     int64                   `json:"placed,omitempty"` // identity.Registration.Made of the newest registration of the asker that is known
}

const (
	maxErrand              = 128 << 10 // bytes: an owner in base64, or tokens of agents
	maxAdmit               = 1 << 20   // bytes of an errand of the authority: the list of revocations
	MaxAgentsWithoutReader = 500       // named at once; the others the next time
	minErrandIdle          = time.Minute
)

// A QueueNamed is the queue of one of Ferry's durables.
func QueueNamed(durable string) (q streams.Queue, ok bool) {
	if durable == wire.Coordination {
		return streams.Events(), true
	}
	for prefix, queue := range map[string]func(transfer.AgentName) streams.Queue{streams.CommandsPrefix: streams.Commands, streams.ControlsPrefix: streams.Controls} {
		if token, ok := strings.CutPrefix(durable, prefix); ok {
			name, err := wire.AgentOf(token)
			return queue(name), err == nil && name.Token() == token
		}
	}
	return q, false
}

// Allowed reports whether the holder of a token may have an errand done; the tokens of agents are in capitals, all
// others in small letters.
func (e *Errand) Allowed(asker string) bool {
	_, err := wire.AgentOf(asker)
	agent := err == nil && asker == strings.ToUpper(asker)
	if agent && transfer.AgentName(asker).Stream() {
		return e.ofPipe(asker)
	}
	switch e.Op {
	case OpEnsure, OpMembers, OpRegister:
		return true
	case OpReaderPosition:
		return e.Durable != wire.Coordination
	case OpDurable:
		return agent && (e.Durable == streams.CommandsPrefix+asker || e.Durable == streams.ControlsPrefix+asker) || asker == wire.Coordination && e.Durable == asker
	case OpForget, OpOwner, OpSetOwner:
		return agent
	case OpStore: // each member may withdraw its own messages
		return agent || e.Store != nil && e.Store.Do == streams.StoreClear
	case OpAgentsWithoutReader, OpPurge, OpNotice:
		return asker == wire.Coordination
	case OpClear:
		return asker == wire.Coordination || asker == wire.Authority
	case OpAdmit, OpRemove:
		return asker == wire.Authority
	case OpDead: // Registrar.mayHandle decides about each letter
		return e.Dead != nil && (agent || e.Dead.Do != streams.DeadKeep)
	case OpQueue:
		return e.Queue != nil && e.Queue.Allowed(asker, agent)
	}
	return false
}

// ofPipe reports whether a pipe may have an errand done: for the readers of its own requests and cancels.
func (e *Errand) ofPipe(asker string) bool {
	switch e.Op {
	case OpEnsure, OpForget, OpRegister:
		return true
	case OpReaderPosition, OpDurable:
		return e.Durable == streams.CommandsPrefix+asker || e.Durable == streams.ControlsPrefix+asker
	}
	return false
}

// ResultOf puts a result and an error in one message.
func ResultOf(res Result, err error) []byte {
	res.V = 1
	if err != nil {
		res = Result{V: 1, Error: transfer.AsError(err)}
	}
	data, err := json.Marshal(res)
	if err != nil {
		data = ResultOf(Result{}, err)
	}
	if q := res.Queue; q != nil && len(q.Behind) > 0 {
		data = append(append(data, '\n'), q.Behind...)
	}
	return data
}

// A SystemUser may send new claims to an external server. Its credentials are short-lived.
type SystemUser struct{ JWT, Seed string }

// Rules checks the rules for a principal, by its token, at an agent: nil, or an error of KindDenied.
type Rules func(principal string, right transfer.Authority, agent transfer.AgentName, path string) error

// A Removal is the authority's request to a queue manager to remove a member.
type Removal struct {
	Name string     `json:"name"`
	As   SystemUser `json:"as"`
}

// withData returns an answer with bytes of messages behind it: in JSON they would be a third longer.
func withData(res streams.StoreResult, data []byte) []byte {
	head := ResultOf(Result{Store: &res}, nil)
	return append(append(append(make([]byte, 0, len(head)+1+len(data)), head...), '\n'), data...)
}

func CutLine(message []byte) (head, rest []byte) {
	head, rest, _ = bytes.Cut(message, []byte("\n"))
	return head, rest
}
