package wire

import (
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// Asking is request and reply: an Ask goes to an agent's or coordination's ask
// subject, and one Answer comes back.

// Kinds of Ask. The comment names who answers, and with which field of Answer.
const (
	AskPing      Kind = "ping"      // agent: Pong
	AskStatus    Kind = "status"    // agent: Progress of ID; it is the receipt, too: an answer means accepted
	AskPreview   Kind = "preview"   // source agent: Preview of Request
	AskLook      Kind = "look"      // destination agent: Preview, with what would become of its items there
	AskSet       Kind = "set"       // agent: SetRates while it runs; Beat
	AskList      Kind = "list"      // agent: Preview, with the names that begin as Path does
	AskKnown     Kind = "known"     // coordination: Known
	AskQueued    Kind = "queued"    // coordination: notes that Queued was submitted, or withdrawn
	AskAgents    Kind = "agents"    // coordination: Agents
	AskTransfers Kind = "transfers" // coordination: Transfers that Filter lets through, newest first, older than ID if given; Left
	AskTransfer  Kind = "transfer"  // coordination: Transfers with the one whose ID ends in Suffix
	AskAudit     Kind = "audit"     // coordination: Records from Index backwards, or of one transfer
	AskVerify    Kind = "verify"    // coordination: Verified
	AskRemove    Kind = "remove"    // coordination: RemoveAgent
	AskQueue     Kind = "queue"     // coordination: QueueAsk about an application queue; QueueAnswer
	AskBind      Kind = "bind"      // coordination: takes Bind, which says whose key signs the asker's records
	AskLog       Kind = "log"       // coordination: Witness is a witness.Shown, for a witness that has seen LogSeen
	AskCosign    Kind = "cosign"    // coordination: takes Cosign
	AskProof     Kind = "proof"     // coordination: Records with proofs (audit.Proof) in place of records, as AskAudit
	AskWitness   Kind = "witness"   // agent: Witness is a witness.Statement
	AskAccept    Kind = "accept"    // agent: takes AcceptLog, and goes on from there as a witness
	AskBegun     Kind = "begun"     // agent: Progress of a transfer that it has accepted; one that it does not know ends where coordination asks
	AskRegister  Kind = "register"  // coordination: the asker's own Beat; answered where coordination has the agent, or says why not
)

// An Ask is a question.
type Ask struct {
	V       int                `json:"v"`
	Kind    Kind               `json:"kind"`
	ID      transfer.ID        `json:"id,omitzero"`
	Suffix  string             `json:"suffix,omitempty"`
	Agent   transfer.AgentName `json:"agent,omitempty"`
	Limit   int                `json:"limit,omitempty"`
	Room    int                `json:"room,omitempty"` // bytes that a page of the answer should have at most
	Index   int64              `json:"index,omitempty"`
	Event   string             `json:"event,omitempty"`
	Queued  *transfer.Progress `json:"queued,omitempty"`
	Request *transfer.Request  `json:"request,omitempty"` // of AskPreview and AskLook
	Preview *Preview           `json:"preview,omitempty"` // of AskLook: what the source has said
	Path    transfer.Path      `json:"path,omitempty"`    // of AskList

	Filter *Filter `json:"filter,omitempty"` // of AskTransfers and AskAudit

	Body      json.RawMessage `json:"body,omitempty"` // of what has a type of its own; see ReadBody
	Principal string          `json:"-"`              // who asks: the last token of the subject
}

// A Filter says which transfers or audit records are asked for; what is empty matches any.
type Filter struct {
	States []transfer.State   `json:"states,omitempty"` // any of them
	Agent  transfer.AgentName `json:"agent,omitempty"`  // at either end
	Job    string             `json:"job,omitempty"`    // a pattern: * and ? as in names of files, and / like any other character
	Since  time.Time          `json:"since,omitzero"`   // it was not over before; of a record, when it was written
	Until  time.Time          `json:"until,omitzero"`   // it was submitted before; of a record, when it was written
	Failed bool               `json:"failed,omitempty"` // files of it have failed, or all of it; of a record, items
	Meta   map[string]string  `json:"meta,omitempty"`   // all of them
	Name   transfer.Path      `json:"name,omitempty"`   // of an item; see audit.Filter; of records only
	Role   string             `json:"role,omitempty"`   // in which a record with such an item was written; default: destination
}

// An Answer answers an Ask, a Submit or a Control. Error is set where it could not
// be answered. ID is what it is about: the transfer that was asked for or
// submitted, or the command's own ID; whoever waits for an answer takes no other.
type Answer struct {
	V         int                 `json:"v"`
	ID        transfer.ID         `json:"id,omitzero"`
	Error     *transfer.Error     `json:"error,omitempty"`
	Beat      *Beat               `json:"beat,omitempty"`
	Progress  *transfer.Progress  `json:"progress,omitempty"`
	Known     *Known              `json:"known,omitempty"`
	Agents    []AgentStatus       `json:"agents,omitempty"`
	Transfers []transfer.Progress `json:"transfers,omitempty"`
	Records   []json.RawMessage   `json:"records,omitempty"` // audit records
	Next      int64               `json:"next,omitempty"`    // Index of the next page
	More      bool                `json:"more,omitempty"`
	Left      int                 `json:"left,omitempty"` // how many more transfers there are
	Verified  json.RawMessage     `json:"verified,omitempty"`
	Witness   json.RawMessage     `json:"witness,omitempty"` // of AskLog and AskWitness
	Preview   *Preview            `json:"preview,omitempty"`
	Body      json.RawMessage     `json:"body,omitempty"` // of what has a type of its own
}

// A Preview is what a request would send. More says that the walk was cut
// short; List has the first items.
type Preview struct {
	Items   int64         `json:"items"`
	Files   int64         `json:"files"`
	Bytes   int64         `json:"bytes"`
	LeftOut int64         `json:"left_out,omitempty"` // files that the request's Filter does not let through
	More    bool          `json:"more,omitempty"`
	List    []PreviewItem `json:"list,omitempty"`

	Dest    transfer.Location `json:"dest,omitzero"`     // DEST as the destination takes it
	Several bool              `json:"several,omitempty"` // it must be a directory
	// Targets are those of the items of List that have their own.
	Targets []transfer.Target `json:"targets,omitempty"`
}

// A PreviewItem is one item of a Preview.
type PreviewItem struct {
	Source transfer.Path     `json:"source"`
	Name   transfer.Path     `json:"name"`
	Target transfer.Path     `json:"target,omitempty"` // where it would land
	To     uint64            `json:"to,omitempty"`     // the target; 0: DEST
	Type   transfer.ItemType `json:"type"`
	Size   int64             `json:"size"`
	Mtime  int64             `json:"mtime,omitempty"` // nanoseconds since 1970, where it decides what becomes of the item
	Error  *transfer.Error   `json:"error,omitempty"`
}

// Known says whether coordination has ever heard of an agent. Sure is false
// while it has listened for less than two heartbeats.
type Known struct {
	Known bool          `json:"known"`
	Sure  bool          `json:"sure"`
	Wait  time.Duration `json:"wait,omitempty"` // until it is sure
}

// Agent states, as people see them.
const (
	AgentReady       = "READY"
	AgentActive      = "ACTIVE"
	AgentDegraded    = "DEGRADED" // works, and its queue manager has lost or forgotten something; Reason says what
	AgentStopping    = "STOPPING"
	AgentStopped     = "STOPPED"
	AgentUnreachable = "UNREACHABLE"
	AgentStandby     = "STANDBY" // of a Standby: it waits until it may be the active instance
)

// Times of the registry.
const (
	BeatEvery        = 5 * time.Second
	UnreachableAfter = 15 * time.Second
)

// A Beat is an agent's heartbeat, on its subject of heartbeats every BeatEvery and
// at once when it starts, stops or changes its state.
type Beat struct {
	V           int                `json:"v"`
	Kind        Kind               `json:"kind"` // BeatKind
	Agent       transfer.AgentName `json:"agent"`
	Incarnation string             `json:"incarnation"`
	Instance    string             `json:"instance"`
	Status      string             `json:"status"` // AgentReady, AgentActive, AgentDegraded, AgentStopping, AgentStopped
	Reason      string             `json:"reason,omitempty"`
	Started     time.Time          `json:"started"`
	Time        time.Time          `json:"time"`
	Version     string             `json:"version"`
	Platform    string             `json:"platform"`
	Host        string             `json:"host"`
	Mode        string             `json:"mode"`                    // bindings or client
	Manager     string             `json:"queue_manager,omitempty"` // at which it is connected
	Durability  string             `json:"durability,omitempty"`    // why the queue manager's is reduced
	Roots       []string           `json:"roots"`
	Limits      []string           `json:"limits,omitempty"` // primitives the platform lacks

	Rates    map[transfer.AgentName]string `json:"rates,omitempty"` // how fast it sends to whom; "": to all together
	Settings transfer.Settings             `json:"settings"`
	Load
}

// A Standby is what an instance of an agent says that stands by for the active one, on the
// agent's heartbeat subject and as often. It is no heartbeat: who asks whether the agent
// lives must not take it for one.
type Standby struct {
	V        int                `json:"v"`
	Agent    transfer.AgentName `json:"agent"`
	Instance string             `json:"instance"`
	Status   string             `json:"state"` // AgentStandby; AgentStopped when it stands by no more
	Reason   string             `json:"reason,omitempty"`
	Host     string             `json:"host"`
	Platform string             `json:"platform"`
	Version  string             `json:"version"`
	Started  time.Time          `json:"started"`
	Age      time.Duration      `json:"age_ns"` // since it was heard; coordination's
}

// A Load is how many transfers an agent has, and may have.
type Load struct {
	MaxSource  int `json:"max_source_transfers"`
	MaxDest    int `json:"max_destination_transfers"`
	MaxQueued  int `json:"max_queued_transfers"`
	SourceRun  int `json:"source_running"`
	SourceWait int `json:"source_waiting"`
	DestRun    int `json:"destination_running"`
	Parked     int `json:"parked"`
	Outbox     int `json:"outbox"` // audit records not yet receipted
}

// Kinds of message on a progress subject.
const (
	BeatKind     Kind = "beat"
	ProgressKind Kind = "progress"
	StandbyKind  Kind = "standby"
)

// A Report is any message on the subjects of heartbeats and live figures; exactly one field
// is set.
type Report struct {
	V        int                `json:"v"`
	Kind     Kind               `json:"kind"`
	Beat     *Beat              `json:"beat,omitempty"`
	Progress *transfer.Progress `json:"progress,omitempty"`
	Standby  *Standby           `json:"standby,omitempty"`
}

// An AgentStatus is what coordination knows of an agent.
type AgentStatus struct {
	Beat
	Status   string        `json:"state"` // with UNREACHABLE worked out from the age
	Age      time.Duration `json:"age_ns"`
	Standbys []Standby     `json:"standbys,omitempty"` // that were heard of lately
}

// A Control is a command other than a request, on the CONTROL subject. ID is
// the command's own; a repeat of it is answered from the ledger.
type Control struct {
	V          int                 `json:"v"`
	ID         transfer.ID         `json:"id"`
	Kind       Kind                `json:"kind"`
	Body       json.RawMessage     `json:"body,omitempty"` // see ReadBody
	Originator transfer.Originator `json:"originator"`
	Reply      string              `json:"reply,omitempty"` // subject that wants to hear the Answer
}

// Kinds of Control. The body of each is an OfTransfer, but for those of an agent's duties.
const (
	ControlCancel   Kind = "cancel"
	ControlWithdraw Kind = "withdraw" // a cancel by the submitter, who has given up waiting for the receipt
	ControlResume   Kind = "resume"   // a parked transfer
)

// OfTransfer is the body of a command about a transfer.
type OfTransfer struct {
	Transfer transfer.ID `json:"transfer"`
}

func (b *OfTransfer) check() string {
	return broken(rule{"no transfer ID", !b.Transfer.IsZero()})
}

// Begun is the body of AskBegun. All but the ID is coordination's record of the transfer, and is empty where its
// destination asks.
type Begun struct {
	Transfer    transfer.ID        `json:"transfer"`
	Destination transfer.AgentName `json:"destination,omitempty"`
	Principal   string             `json:"principal,omitempty"`
	Counts      transfer.Counts    `json:"counts,omitzero"` // of the outcomes that the destination has put on record
}

func (b *Begun) check() string {
	return broken(rule{"no transfer ID", !b.Transfer.IsZero()},
		rule{"a destination or a principal that is none", len(b.Destination) <= maxName && principal(b.Principal)},
		rule{"counts out of their range", counted(&b.Counts)})
}

// SetRates is the body of AskSet: how fast an agent sends from now on, as timetables by
// agent, "" for all together.
type SetRates struct {
	Rates map[transfer.AgentName]string `json:"rates"`
}

func (b *SetRates) check() string {
	return broken(rule{"rates that are too long", ratesFit(b.Rates)})
}

// Register is the body of AskRegister.
type Register struct {
	Beat *Beat `json:"beat"`
}

func (b *Register) check() string {
	r := Report{Kind: BeatKind, Beat: b.Beat}
	return r.check()
}

// RemoveAgent is the body of AskRemove: an agent that is away leaves the registry.
type RemoveAgent struct {
	Agent transfer.AgentName `json:"agent"`
}

func (b *RemoveAgent) check() string {
	return broken(rule{"no agent", b.Agent != "" && len(b.Agent) <= maxName})
}

// Registered is the body of the answer to AskRegister.
type Registered struct {
	Last uint64 `json:"last,omitempty"` // number of the last audit record of the agent's ledger that coordination has
	Hash string `json:"hash,omitempty"` // audit.HashOf that record, if it is known
}

// ReadBody reads what a command or a question of a kind says, and checks its ranges. Its
// errors are of KindMalformed.
func ReadBody[T any, P interface {
	*T
	check() string
}](kind Kind, body json.RawMessage) (P, error) {
	b := P(new(T))
	if err := json.Unmarshal(body, b); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s says what cannot be read: %w", kind, err)
	}
	if what := b.check(); what != "" {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s has %s", kind, what)
	}
	return b, nil
}

// A Submit is a request on its way, or a part of one (transfer.Request.Split).
type Submit struct {
	V       int              `json:"v"`
	Request transfer.Request `json:"request"`
	Part    *transfer.Part   `json:"part,omitempty"`  // then the request has its ID alone
	Reply   string           `json:"reply,omitempty"` // subject that wants to hear the receipt
	// Good is for how long, from when the queue manager has stored it and by the
	// queue manager's clock, this copy may be accepted: its submitter waits no
	// longer. 0: for ever.
	Good transfer.Duration `json:"good,omitempty"`
}

// Late reports whether the copy has lain in its queue for longer than its
// submitter waits. Both times are the queue manager's.
func (s *Submit) Late(stored, now time.Time) bool {
	return s.Good > 0 && now.Sub(stored) > time.Duration(s.Good)
}

// Marshal writes one of this package's JSON messages.
func Marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: a message that cannot be written: " + err.Error())
	}
	return b
}

// DecodeAsk reads an Ask.
func DecodeAsk(data []byte) (*Ask, error) {
	return versioned(data, MaxControl, "question", func(a *Ask) (int, string) { return a.V, a.check() })
}

// DecodeAnswer reads an Answer. Its Error becomes the error; then the answer is
// there, too, and says what it is about.
func DecodeAnswer(data []byte) (*Answer, error) {
	a, err := versioned(data, MaxControl, "answer", func(a *Answer) (int, string) { return a.V, a.check() })
	if err == nil && a.Error != nil {
		return a, a.Error
	}
	return a, err
}

// DecodeReport reads a Report.
func DecodeReport(data []byte) (*Report, error) {
	return versioned(data, MaxReport, "report", func(r *Report) (int, string) { return r.V, r.check() })
}

// DecodeControl reads a Control. One that is out of its ranges is there beside
// the error, for whoever has to answer it.
func DecodeControl(data []byte) (*Control, error) {
	return versioned(data, MaxAskControl, "command", func(c *Control) (int, string) { return c.V, c.check() })
}

// DecodeSubmit reads a Submit and checks its request's limits. One that is out of
// its ranges is there beside the error.
func DecodeSubmit(data []byte) (*Submit, error) {
	s, err := versioned(data, MaxControl, "request", func(s *Submit) (int, string) { return s.V, s.check() })
	if err != nil {
		return s, err
	}
	if s.Part != nil {
		return s, nil
	}
	return s, s.Request.Check()
}

// versioned reads a message of most bytes at most. look gives its version and
// what of it is out of its range.
func versioned[T any](data []byte, most int, what string, look func(*T) (int, string)) (*T, error) {
	if len(data) > most {
		return nil, transfer.Errorf(transfer.KindTooLarge, "a %s has %d bytes; the limit is %d", what, len(data), most)
	}

	v := new(T)
	if err := Unmarshal(data, v); err != nil {
		return nil, err
	}

	version, wrong := look(v)
	if err := checkVersion(version); err != nil {
		return v, err
	}

	if wrong != "" {
		return v, transfer.Errorf(transfer.KindMalformed, "a %s has %s", what, wrong)
	}
	return v, nil
}
