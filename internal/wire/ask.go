package wire

import (
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// Asking is request and reply: an Ask goes to an agent's or coordination's ask
// subject, and one Answer comes back.

// Kinds of Ask. Each comment names the answering side and the field of Answer that it sets.
const (
	AskPing      Kind = "ping"      // agent: Pong
	AskStatus    Kind = "status"    // agent: Progress of ID; an answer is a receipt, too: the agent has accepted the transfer
	AskPreview   Kind = "preview"   // source agent: Preview of Request
	AskLook      Kind = "look"      // destination agent: Preview, with the effect on the items there
	AskSet       Kind = "set"       // agent: SetRates while it runs; Beat
	AskList      Kind = "list"      // agent: Preview, with the names that begin with Path
	AskDir       Kind = "dir"       // agent: takes ListDir; Body is a Listing
	AskKnown     Kind = "known"     // coordination: Known
	AskQueued    Kind = "queued"    // coordination: records that Queued was submitted or withdrawn
	AskAgents    Kind = "agents"    // coordination: Agents
	AskTransfers Kind = "transfers" // coordination: Transfers that pass Filter, newest first, older than ID if given; Left
	AskTransfer  Kind = "transfer"  // coordination: Transfers with the one that has an ID ending in Suffix
	AskAudit     Kind = "audit"     // coordination: Records from Index backwards, or of one transfer
	AskVerify    Kind = "verify"    // coordination: Verified
	AskRemove    Kind = "remove"    // coordination: RemoveAgent
	AskSeen      Kind = "seen"      // coordination: takes Seen, which acknowledges the failure of a transfer
	AskRan       Kind = "ran"       // coordination: takes RanAsked, about a request to the asker; Body is a Ran
	AskQueue     Kind = "queue"     // coordination: QueueAsk about an application queue; QueueAnswer
	AskBind      Kind = "bind"      // coordination: takes Bind, which names the owner of the key that signs the asker's records
	AskLog       Kind = "log"       // coordination: Witness is a witness.Shown, for a witness that has seen LogSeen
	AskCosign    Kind = "cosign"    // coordination: takes Cosign
	AskProof     Kind = "proof"     // coordination: Records with proofs (audit.Proof) in place of records, as AskAudit
	AskWitness   Kind = "witness"   // agent: Witness is a witness.Statement
	AskAccept    Kind = "accept"    // agent: takes AcceptLog, and continues from there as a witness
	AskBegun     Kind = "begun"     // agent: Progress of a transfer that it has accepted; an unknown one ends if coordination asks
	AskRegister  Kind = "register"  // coordination: the asker's own Beat; the answer says that coordination has the agent, or why not
	AskKeep      Kind = "keep"      // coordination: takes Keep, the definitions of the asker
	AskMay       Kind = "may"       // agent: takes MayAsked; Body is a May
	AskKept      Kind = "kept"      // coordination: takes KeptAsked; Body is a Kept
)

// An Ask is a question.
type Ask struct {
	V       int                `json:"v"`
	Kind    Kind               `json:"kind"`
	ID      transfer.ID        `json:"id,omitzero"`
	Suffix  string             `json:"suffix,omitempty"`
	Agent   transfer.AgentName `json:"agent,omitempty"`
	Limit   int                `json:"limit,omitempty"`
	Room    int                `json:"room,omitempty"` // most bytes of a page of the answer
	Index   int64              `json:"index,omitempty"`
	Event   string             `json:"event,omitempty"`
	Queued  *transfer.Progress `json:"queued,omitempty"`
	Request *transfer.Request  `json:"request,omitempty"` // of AskPreview and AskLook
	Preview *Preview           `json:"preview,omitempty"` // of AskLook: the source's Preview
	Path    transfer.Path      `json:"path,omitempty"`    // of AskList

	Filter *Filter `json:"filter,omitempty"` // of AskTransfers and AskAudit

	Body      json.RawMessage `json:"body,omitempty"` // of a kind with a body type of its own; see ReadBody
	Principal string          `json:"-"`              // the asker: the last token of the subject
}

// A Filter selects transfers or audit records. An empty field matches all of them.
type Filter struct {
	States []transfer.State   `json:"states,omitempty"` // any of them
	Agent  transfer.AgentName `json:"agent,omitempty"`  // at either end
	Job    string             `json:"job,omitempty"`    // a pattern: * and ? as in names of files, and / like any other character
	Since  time.Time          `json:"since,omitzero"`   // excludes transfers that ended earlier; of a record, those written earlier
	Until  time.Time          `json:"until,omitzero"`   // excludes transfers submitted later; of a record, those written later
	Failed bool               `json:"failed,omitempty"` // only transfers with failed files, or failed ones; of a record, with failed items
	Open   bool               `json:"open,omitempty"`   // no acknowledged transfer, and none that was repeated, unless the repetitions were cancelled; of transfers only
	Meta   map[string]string  `json:"meta,omitempty"`   // all of them
	Name   transfer.Path      `json:"name,omitempty"`   // of an item; see audit.Filter; of records only
	Role   string             `json:"role,omitempty"`   // role of the agent that wrote a record with such an item; default: destination
	From   transfer.AgentName `json:"from,omitempty"`   // the source agent
	To     transfer.AgentName `json:"to,omitempty"`     // the destination agent
	User   string             `json:"user,omitempty"`   // the principal, as displayed; a pattern, as Job

	RetryOf transfer.ID   `json:"retry_of,omitzero"` // only transfers that count as repetitions of it; of transfers only
	IDs     []transfer.ID `json:"ids,omitempty"`     // only these, MaxIDs at most; of transfers only
}

// MaxIDs is the greatest number of IDs in a Filter.
const MaxIDs = 100

// Sums are the figures of all transfers that pass a filter.
type Sums struct {
	Transfers   int64 `json:"transfers"`
	Failed      int64 `json:"failed,omitempty"` // transfers that have ended, and not as successful
	Files       int64 `json:"files"`
	FilesFailed int64 `json:"files_failed,omitempty"`
	Bytes       int64 `json:"bytes"`             // with those of running transfers, as Progress.BytesSoFar has them
	Retried     int64 `json:"retried,omitempty"` // transfers that pass the filter, except for its field Open, and were repeated

	Acknowledged int64 `json:"acknowledged,omitempty"` // as Retried, of those that were acknowledged
}

// Add adds a transfer.
func (s *Sums) Add(p *transfer.Progress) {
	s.Transfers++
	if p.State.Final() && p.State != transfer.Successful {
		s.Failed++
	}
	s.Files += p.Files
	s.FilesFailed += p.FilesFailed
	s.Bytes += p.BytesSoFar()
}

// An Answer answers an Ask, a Submit or a Control. Error is set if the question could not be answered. ID is the
// transfer asked for or submitted, or the command's own ID. The asker accepts no answer with another ID.
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
	Left      int                 `json:"left,omitempty"`          // number of further transfers
	Sums      *Sums               `json:"sums,omitempty"`          // of AskTransfers without ID: of all transfers that pass Filter
	Complete  time.Time           `json:"complete_since,omitzero"` // of AskTransfers: coordination has forgotten transfers from before; zero: none
	Own       bool                `json:"own,omitempty"`           // the asker sees none but its own transfers or records
	Verified  json.RawMessage     `json:"verified,omitempty"`
	Witness   json.RawMessage     `json:"witness,omitempty"` // of AskLog and AskWitness
	Preview   *Preview            `json:"preview,omitempty"`
	Body      json.RawMessage     `json:"body,omitempty"` // of a kind with a body type of its own
}

// A Preview shows the items that a request would send. More reports that the walk was cut short. List has the first
// items.
type Preview struct {
	Items   int64         `json:"items"`
	Files   int64         `json:"files"`
	Bytes   int64         `json:"bytes"`
	LeftOut int64         `json:"left_out,omitempty"` // files that the request's Filter excludes
	More    bool          `json:"more,omitempty"`
	List    []PreviewItem `json:"list,omitempty"`

	Dest    transfer.Location `json:"dest,omitzero"`     // DEST as the destination interprets it
	Several bool              `json:"several,omitempty"` // it must be a directory
	// Targets are the own targets of items in List.
	Targets []transfer.Target `json:"targets,omitempty"`
	// Exits are the start exits of the answering agents, which a preview does not run. They decide when the transfer starts.
	Exits []transfer.CallPoint `json:"exits,omitempty"`
}

// A PreviewItem is one item of a Preview.
type PreviewItem struct {
	Source transfer.Path     `json:"source"`
	Name   transfer.Path     `json:"name"`
	Target transfer.Path     `json:"target,omitempty"` // path at the destination
	To     uint64            `json:"to,omitempty"`     // the target; 0: DEST
	Type   transfer.ItemType `json:"type"`
	Size   int64             `json:"size"`
	Mtime  int64             `json:"mtime,omitempty"` // nanoseconds since 1970, where it decides the outcome of the item
	Error  *transfer.Error   `json:"error,omitempty"`
}

// Known reports whether coordination has ever heard of an agent. Sure is false until coordination has listened for two
// heartbeats.
type Known struct {
	Known bool          `json:"known"`
	Sure  bool          `json:"sure"`
	Wait  time.Duration `json:"wait,omitempty"` // time until the answer is sure

	Removed time.Time `json:"removed,omitzero"` // when the agent was last removed from the registry

	Manager string `json:"queue_manager,omitempty"` // the queue manager, or the cluster, of an agent that is present
}

// Agent states, as users see them.
const (
	AgentReady       = "READY"
	AgentActive      = "ACTIVE"
	AgentDegraded    = "DEGRADED" // works, but its queue manager has lost data or state; Reason has the details
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

// A Beat is an agent's heartbeat. The agent publishes it on its heartbeat subject every BeatEvery, and at once when it
// starts, stops or changes its state.
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
	Manager     string             `json:"queue_manager,omitempty"` // the queue manager to which it is connected
	Durability  string             `json:"durability,omitempty"`    // reason for a queue manager's reduced durability
	Roots       []string           `json:"roots"`
	Limits      []string           `json:"limits,omitempty"` // primitives the platform lacks
	Exits       []string           `json:"exits,omitempty"`  // of its configuration: POINT=PROGRAM

	Rates    map[transfer.AgentName]string `json:"rates,omitempty"` // sending rates by destination; "": of all together
	Settings transfer.Settings             `json:"settings"`
	Load
}

// A Standby is the report of an instance that stands by for the active instance of an agent. It is published on the
// agent's heartbeat subject, as often as heartbeats. It is not a heartbeat: a check that the agent lives must ignore
// it.
type Standby struct {
	V        int                `json:"v"`
	Agent    transfer.AgentName `json:"agent"`
	Instance string             `json:"instance"`
	Status   string             `json:"state"` // AgentStandby; AgentStopped once it stands by no longer
	Reason   string             `json:"reason,omitempty"`
	Host     string             `json:"host"`
	Platform string             `json:"platform"`
	Version  string             `json:"version"`
	Started  time.Time          `json:"started"`
	Age      time.Duration      `json:"age_ns"` // time since coordination heard it; set by coordination
}

// A Load has the numbers of an agent's transfers, and their limits.
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

// A Report is any message on the subjects of heartbeats and live figures. Exactly one field is set.
type Report struct {
	V        int                `json:"v"`
	Kind     Kind               `json:"kind"`
	Beat     *Beat              `json:"beat,omitempty"`
	Progress *transfer.Progress `json:"progress,omitempty"`
	Standby  *Standby           `json:"standby,omitempty"`
}

// An AgentStatus is coordination's view of an agent.
type AgentStatus struct {
	Beat
	Status   string        `json:"state"` // with UNREACHABLE derived from the age
	Age      time.Duration `json:"age_ns"`
	Standbys []Standby     `json:"standbys,omitempty"` // standbys heard recently
}

// A Control is a command other than a request, on the CONTROL subject. ID is the command's own. A repeat is answered
// from the ledger.
type Control struct {
	V          int                 `json:"v"`
	ID         transfer.ID         `json:"id"`
	Kind       Kind                `json:"kind"`
	Body       json.RawMessage     `json:"body,omitempty"` // see ReadBody
	Originator transfer.Originator `json:"originator"`
	Reply      string              `json:"reply,omitempty"` // subject for the Answer
}

// Kinds of Control. The body of each is an OfTransfer, except for the kinds that concern an agent's duties.
const (
	ControlCancel   Kind = "cancel"
	ControlWithdraw Kind = "withdraw" // a cancel by the submitter after it stopped waiting for the receipt
	ControlResume   Kind = "resume"   // a parked transfer
)

// OfTransfer is the body of a command about a transfer.
type OfTransfer struct {
	Transfer transfer.ID `json:"transfer"`
}

func (b *OfTransfer) check() string {
	return broken(rule{"no transfer ID", !b.Transfer.IsZero()})
}

// Begun is the body of AskBegun. Fields other than the ID are coordination's record of the transfer. They are empty if
// the destination asks.
type Begun struct {
	Transfer    transfer.ID        `json:"transfer"`
	Destination transfer.AgentName `json:"destination,omitempty"`
	Principal   string             `json:"principal,omitempty"`
	Counts      transfer.Counts    `json:"counts,omitzero"` // of the outcomes that the destination has recorded
}

func (b *Begun) check() string {
	return broken(rule{"no transfer ID", !b.Transfer.IsZero()},
		rule{"a destination or a principal that is none", len(b.Destination) <= maxName && principal(b.Principal)},
		rule{"counts out of their range", counted(&b.Counts)})
}

// SetRates is the body of AskSet. It has the sending rates of an agent from now on, as timetables by agent; "" is for
// all together.
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

// RemoveAgent is the body of AskRemove. It removes an absent agent from the registry.
type RemoveAgent struct {
	Agent transfer.AgentName `json:"agent"`
}

func (b *RemoveAgent) check() string {
	return broken(rule{"no agent", b.Agent != "" && len(b.Agent) <= maxName})
}

// Seen is the body of AskSeen. It acknowledges the failure of a transfer: a person has seen it.
type Seen struct {
	Transfer transfer.ID `json:"transfer"`
	Reason   string      `json:"reason,omitempty"`
}

func (b *Seen) check() string {
	return broken(rule{"no transfer ID", !b.Transfer.IsZero()}, rule{"a reason that is too long", len(b.Reason) <= maxSentence})
}

// RanAsked is the body of AskRan. The asker is an agent that was given the request of a transfer of a principal again.
type RanAsked struct {
	Transfer  transfer.ID `json:"transfer"`
	Principal string      `json:"principal"`
}

func (b *RanAsked) check() string {
	return broken(rule{"no transfer ID", !b.Transfer.IsZero()}, rule{"a principal that is none", principal(b.Principal)})
}

// Ran is the body of the answer to AskRan.
type Ran struct {
	Taken     bool `json:"taken,omitempty"`     // the asker has taken a request of this transfer
	Withdrawn bool `json:"withdrawn,omitempty"` // the principal has withdrawn its request, or an operator has cancelled it before it came
}

// Registered is the body of the answer to AskRegister.
type Registered struct {
	Last uint64 `json:"last,omitempty"` // number of the last audit record that coordination has of the agent's ledger
	Hash string `json:"hash,omitempty"` // audit.HashOf that record, if it is known
}

// ReadBody decodes the body of a command or question of a kind, and checks its ranges. Its errors are of KindMalformed.
func ReadBody[T any, P interface {
	*T
	check() string
}](kind Kind, body json.RawMessage) (P, error) {
	b := P(new(T))
	if err := json.Unmarshal(body, b); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the body of %s cannot be read: %w", kind, err)
	}
	if what := b.check(); what != "" {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s has %s", kind, what)
	}
	return b, nil
}

// A Submit is a request, or a part of one (transfer.Request.Split).
type Submit struct {
	V       int              `json:"v"`
	Request transfer.Request `json:"request"`
	Part    *transfer.Part   `json:"part,omitempty"`  // if set, the request has its ID only
	Reply   string           `json:"reply,omitempty"` // subject for the receipt
	// Good is how long this copy may be accepted after the queue manager has stored it, by the queue manager's clock.
	// The submitter waits no longer than that. 0 means for ever.
	Good transfer.Duration `json:"good,omitempty"`
}

// Late reports whether the copy has been queued for longer than its submitter waits. Both times are by the queue
// manager's clock.
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

// DecodeAnswer reads an Answer. If the answer has an Error, DecodeAnswer returns it as the error, beside the answer.
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

// DecodeControl reads a Control. If the Control is out of range, DecodeControl returns it beside the error, so that the
// caller can answer it.
func DecodeControl(data []byte) (*Control, error) {
	return versioned(data, MaxAskControl, "command", func(c *Control) (int, string) { return c.V, c.check() })
}

// DecodeSubmit reads a Submit and checks its request's limits. If the Submit is out of range, DecodeSubmit returns it
// beside the error.
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

// versioned reads a message of at most most bytes. look returns the message's version and a description of a field that
// is out of range.
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
