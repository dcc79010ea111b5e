package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// RecordVersion is the version of Record that this code writes and reads.
const RecordVersion = 1

// MaxRecord bounds the JSON of one record, in bytes. It is 1 MiB less the rest of a Batch, so that every record can be
// sent.
const MaxRecord = MaxBatch - batchEnvelope

// Coordination is the agent name for the numbers of coordination's own records. No agent sends records under it.
const Coordination transfer.AgentName = "COORDINATION"

// An Event is the kind of a record. Events unknown to this version are stored and shown unchanged.
type Event string

// The events.
const (
	Submitted Event = "submitted" // the source accepted a request; the record has the whole request
	Accepted  Event = "accepted"  // the source's ledger has the request
	Started   Event = "started"   // the destination accepted; lane and settings are known
	Items     Event = "item"      // outcomes of a batch of items
	Completed Event = "completed" // final: successful or partial
	Cancelled Event = "cancelled" // final
	Failed    Event = "failed"    // final
	Parked    Event = "parked"
	Resumed   Event = "resumed"
	GapFound  Event = "gap"      // receipted records are missing in the log; see Record.Gap
	Disputed  Event = "disputed" // records came again with other content; see Record.Gap
	Archived  Event = "archived" // sources were moved: Record.Items, with their new places in Path
	Deleted   Event = "deleted"  // sources were deleted: Record.Items, with their paths at the source
	Warning   Event = "warning"
	Ran       Event = "program"      // a program has ended; Record.Program has the result, and Error the reason of a failure
	Refused   Event = "refused"      // a principal lacked an authority; Error names it
	Removed   Event = "removed"      // the agent Source was removed from the registry
	Sealed    Event = "sealed"       // of coordination: the seal of records before this one
	Bound     Event = "bound"        // of coordination: the owner of a key that seals
	Settled   Event = "settled"      // the agent Source accepts that the log lacks records of its own; Reason has the person's words
	Acked     Event = "acknowledged" // of coordination: the principal has seen the failure of the transfer; Reason has the person's words
	Changed   Event = "changed"      // a setting of the agent Source was changed while it runs; Text describes it
)

// The roles of the writers of records.
const (
	RoleSource       = "source"
	RoleDestination  = "destination"
	RoleCoordination = "coordination"
)

// A Record is one entry of the audit log. It is immutable after it is numbered.
type Record struct {
	V           int                `json:"v"`
	Agent       transfer.AgentName `json:"agent"`       // the writer
	Incarnation string             `json:"incarnation"` // of the writer's ledger; see FormatIncarnation
	N           uint64             `json:"n"`           // within (agent, incarnation), from 1, without gaps
	Time        time.Time          `json:"time"`        // the writer's clock, UTC
	Event       Event              `json:"event"`
	Role        string             `json:"role,omitempty"`
	Transfer    transfer.ID        `json:"transfer,omitzero"`

	Source      transfer.AgentName   `json:"source,omitempty"`
	Destination transfer.AgentName   `json:"destination,omitempty"`
	Originator  *transfer.Originator `json:"originator,omitempty"`
	Job         string               `json:"job,omitempty"`
	Meta        map[string]string    `json:"meta,omitempty"`
	Principal   string               `json:"principal,omitempty"` // as the queue manager's subject named it
	Request     *RequestFacts        `json:"request,omitempty"`

	Items []transfer.Outcome `json:"items,omitempty"` // a batch of outcomes; see FitItems
	State transfer.State     `json:"state,omitempty"`
	Code  int                `json:"result_code,omitempty"`
	Error *transfer.Error    `json:"error,omitempty"`
	Figures
	Reason string   `json:"reason,omitempty"` // of a parked or cancelled transfer, or of the choice of a lane
	Limits []string `json:"limits,omitempty"` // primitives missing on the writer's platform
	Gap    *Gap     `json:"gap,omitempty"`
	Text   string   `json:"text,omitempty"`
	Vouched
}

// Figures are those of a transfer at its end, of a program's run, or of a duty of an agent.
type Figures struct {
	Program     *transfer.Ran    `json:"program,omitempty"`
	Kept        *Kept            `json:"kept,omitempty"`
	Counts      *transfer.Counts `json:"counts,omitempty"`
	Lane        string           `json:"lane,omitempty"`
	Seconds     float64          `json:"seconds,omitempty"`
	Resumes     int64            `json:"resumes,omitempty"`
	BytesResent int64            `json:"bytes_resent,omitempty"`
	BytesWire   int64            `json:"bytes_wire,omitempty"` // of chunk messages; see transfer.Traffic
}

// A Kept is a change of a monitor or a schedule of an agent.
type Kept struct {
	Kind string `json:"kind"` // KeptMonitor, KeptSchedule
	Name string `json:"name"`
	Done string `json:"done"` // MonitorCreate or one of the others
}

// The kinds of duties.
const (
	KeptMonitor  = "monitor"
	KeptSchedule = "schedule"
)

// Changes of monitors and schedules. They have the words of MQ MFT, which lacks those marked as Ferry's.
const (
	MonitorCreate   = "create"
	MonitorRedefine = "redefine" // Ferry's
	MonitorStart    = "start"
	MonitorStop     = "stop"
	MonitorDelete   = "delete"
	MonitorClear    = "clear"       // Ferry's: its history
	MonitorFailed   = "triggerFail" // no transfer can be submitted for a trigger
	ScheduleSubmit  = "submit"      // the schedule was made
	ScheduleDelete  = "delete"
	ScheduleSkipped = "skipped" // times were missed
	ScheduleExpired = "expire"  // its last time has come
)

// MonitorMeta is the metadata that names the monitor that submitted a transfer.
const MonitorMeta = "monitor"

// A Gap names records of an agent.
//
//   - With GapFound they are lost: the agent dropped them after a receipt, and the log no longer has them. If one arrives
//     nevertheless, it is appended.
//   - With Disputed the log has them, and they follow once more with other content: another process has used the agent's
//     numbers.
type Gap struct {
	Agent       transfer.AgentName `json:"agent"`
	Incarnation string             `json:"incarnation"`
	From        uint64             `json:"from"` // the first
	To          uint64             `json:"to"`   // the last
}

// RequestFacts are the parts of a request that an audit needs.
type RequestFacts struct {
	Rule        string                 `json:"rule,omitempty"` // the rule of the policy that allowed the request to its principal
	Sources     []transfer.Location    `json:"sources,omitempty"`
	Items       []transfer.RequestItem `json:"items,omitempty"`        // in place of Sources, if one has a DEST or options of its own
	MoreSources int                    `json:"more_sources,omitempty"` // number of those missing in Sources or Items
	Dest        transfer.Location      `json:"dest,omitzero"`
	Durability  string                 `json:"durability,omitempty"`
	Lane        string                 `json:"lane,omitempty"`
	Delivery    string                 `json:"delivery,omitempty"`
	Compress    string                 `json:"compress,omitempty"`
	Priority    int                    `json:"priority,omitempty"`
	Settings    transfer.Settings      `json:"settings,omitzero"`
	Recovery    transfer.Duration      `json:"recovery_timeout,omitempty"`
	Triggers    []transfer.Trigger     `json:"triggers,omitempty"`
	Programs    *transfer.Programs     `json:"programs,omitempty"`
	transfer.Options

	transfer.Terms
	Tally    string               `json:"tally,omitempty"`   // of a job that deletes its sources: the sum required for the deletion
	Base     transfer.Path        `json:"base,omitempty"`    // the sources are names beneath it
	Parent   transfer.ID          `json:"parent,omitzero"`   // of a retry: the transfer that it repeats
	MayEnd   bool                 `json:"may_end,omitempty"` // of a retry: its submitter may end the transfer of Parent, by the rules of the source
	Only     []transfer.Path      `json:"only,omitempty"`    // of a retry: the sources of its items; none: all
	MoreOnly int                  `json:"more_only,omitempty"`
	Resolved *transfer.Resolution `json:"resolved,omitempty"` // the resolved Dest; of Started
	Targets  []transfer.Resolved  `json:"targets,omitempty"`  // the resolved DESTs of Items, as many as fit
}

// maxSources bounds the source names in a record, in bytes of JSON. A request may be larger than a record.
const maxSources = MaxRecord / 2

// FactsOf returns the facts of a request. rest are the items of its parts, or some of them. Sources beyond half of a
// record are counted, not named.
func FactsOf(q *transfer.Request, rest ...transfer.RequestItem) *RequestFacts {
	f := &RequestFacts{Dest: q.Dest, Options: q.Options, Durability: q.Durability, Lane: q.Lane,
		Delivery: q.Delivery, Compress: q.Compress, Priority: q.Priority, Settings: q.Settings, Recovery: q.Recovery,
		Terms: q.Terms, Tally: q.Tally, Base: q.Base, Triggers: q.Triggers, Programs: q.Programs}
	room := maxSources
	f.name(q, append(slices.Clip(q.Items), rest...), &room)
	if q.Retry != nil {
		f.Parent = q.Retry.Of
		f.Only, f.MoreOnly = named(q.Retry.Only, &room)
	}
	return f
}

// name sets the sources.
func (f *RequestFacts) name(q *transfer.Request, items []transfer.RequestItem, room *int) {
	own := slices.ContainsFunc(items, func(it transfer.RequestItem) bool { return it.Own() || it.Recursive || it.Picked != "" })
	for n := range items {
		size := quoted(items[n].Source)
		if own {
			size = quoted(items[n])
		}
		if *room -= size; *room < 0 {
			break
		}
		if own {
			f.Items = append(f.Items, items[n])
		} else {
			f.Sources = append(f.Sources, items[n].Source)
		}
	}

	f.MoreSources = q.Count() - len(f.Items) - len(f.Sources)
}

// Named returns the sources that the facts name.
func (f *RequestFacts) Named() []transfer.Location {
	all := slices.Clip(f.Sources)
	for n := range f.Items {
		all = append(all, f.Items[n].Source)
	}
	return all
}

// SetTargets sets the resolved DESTs of items.
func (f *RequestFacts) SetTargets(all []transfer.Resolved) {
	room := MaxRecord / 4
	for n := range all {
		if room -= quoted(all[n]); room < 0 {
			return
		}
		f.Targets = append(f.Targets, all[n])
	}
}

// named returns the first of the paths, as many as fit in room, and the number of the others.
func named(all []transfer.Path, room *int) (some []transfer.Path, more int) {
	for i, p := range all {
		if *room -= quoted(p); *room < 0 {
			return some, len(all) - i
		}
		some = append(some, p)
	}
	return some, 0
}

// FitItems returns how many of the outcomes, from the first on, surely fit into one record beside its other fields. It
// is at least one, if there is one.
func FitItems(items []transfer.Outcome) int {
	const fixed = 512 // the fields of bounded size, with their names
	room := MaxRecord / 2
	for i := range items {
		o := &items[i]
		room -= fixed + worst(len(o.Path)+len(o.Source)+len(o.Picked)+len(o.Digest)+len(o.SrcSum)+len(o.Note))
		if o.Written != nil {
			room -= worst(len(o.Written.Digest))
		}
		if o.Err != nil {
			room -= worst(len(o.Err.Text) + len(o.Err.Hint))
		}
		if room < 0 {
			return max(i, 1)
		}
	}
	return len(items)
}

// quoted returns the bytes that a value takes in JSON, with the comma after it.
func quoted(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return maxSources
	}
	return len(b) + 1
}

// worst returns the most bytes that n bytes can take in JSON: each as \u00XX, or as a path's %XX.
func worst(n int) int { return 6*n + 3 }

// FormatIncarnation formats an incarnation as in records: 16 hexadecimal digits.
func FormatIncarnation(v uint64) string { return fmt.Sprintf("%016x", v) }

// ParseIncarnation parses an incarnation in the form of FormatIncarnation.
func ParseIncarnation(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 || FormatIncarnation(v) != s {
		return 0, transfer.Errorf(transfer.KindUsage, "incarnation %.40q is malformed; it has 16 digits of hex in lower case", s)
	}
	return v, nil
}

// Encode writes a record as one line of JSON, without a line end. It fills in
// the version and puts the time into UTC.
func Encode(r *Record) ([]byte, error) {
	c := *r
	c.V, c.Time = RecordVersion, r.Time.UTC()
	if err := c.check(); err != nil {
		return nil, err
	}

	b, err := marshalItems(&c)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "audit record %s: %w", c.name(), err)
	}

	if len(b) > MaxRecord {
		return nil, transfer.Errorf(transfer.KindTooLarge, "audit record %s has %d bytes; the limit is %d", c.name(), len(b), MaxRecord)
	}
	return b, nil
}

// Decode reads a record. It ignores unknown fields.
func Decode(b []byte) (Record, error) {
	r, _, err := decode(b)
	return r, err
}

// decode reads a record. ours reports whether it has the form of Encode.
func decode(b []byte) (r Record, ours bool, err error) {
	if r, ours = unmarshalItems(b); !ours {
		r, err = decodeAny(b)
		return r, false, err
	}
	err = r.check()
	return r, err == nil, err
}

func decodeAny(b []byte) (Record, error) {
	var r Record
	if err := unmarshal(b, &r, "audit record", MaxRecord, transfer.MaxJSONDepth); err != nil {
		return Record{}, err
	}
	if err := checkVersion("audit record", r.V); err != nil {
		return Record{}, err
	}
	if err := r.check(); err != nil {
		return Record{}, err
	}
	r.Time = r.Time.UTC()
	return r, nil
}

func (r *Record) check() error {
	if err := checkAgent(r.Agent); err != nil {
		return err
	}

	if _, err := ParseIncarnation(r.Incarnation); err != nil {
		return err
	}

	switch {
	case r.N == 0:
		return transfer.Errorf(transfer.KindUsage, "an audit record of %s has no number", r.Agent)
	case r.N > MaxNumber:
		return transfer.Errorf(transfer.KindUsage, "an audit record of %s has the number %d; the limit is 2^48", r.Agent, r.N)
	case r.Event == "" || len(r.Event) > 32:
		return transfer.Errorf(transfer.KindUsage, "audit record %s has no event, or one of more than 32 bytes", r.name())
	case r.Time.IsZero(), r.Time.UTC().Year() < 1, r.Time.UTC().Year() > 9999:
		return transfer.Errorf(transfer.KindUsage, "audit record %s has no time, or one that cannot be written", r.name())
	}
	return nil
}

// name returns the record's name for errors.
func (r *Record) name() string {
	return string(r.Agent) + "/" + r.Incarnation + "/" + strconv.FormatUint(r.N, 10)
}

// stream returns the key of the record's numbering. The record must have been checked.
func (r *Record) stream() stream {
	v, _ := ParseIncarnation(r.Incarnation)
	return stream{r.Agent, v}
}

func checkAgent(a transfer.AgentName) error {
	name, err := transfer.ParseAgentName(string(a))
	if err != nil {
		return err
	}
	if name != a {
		return transfer.Errorf(transfer.KindUsage, "agent name %q is not in capitals", string(a))
	}
	return nil
}

func checkVersion(what string, v int) error {
	if v != RecordVersion {
		return transfer.Errorf(transfer.KindVersion, "%s version %d is not spoken here; this is version %d", what, v, RecordVersion)
	}
	return nil
}

// marshal does not escape <, > and &, here and in batches. So a record's bytes, which its leaf hash covers, pass
// through a batch unchanged.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func unmarshal(b []byte, v any, what string, size, depth int) error {
	switch {
	case len(b) > size:
		return transfer.Errorf(transfer.KindTooLarge, "%s has %d bytes; the limit is %d", what, len(b), size)
	case !utf8.Valid(b):
		return transfer.Errorf(transfer.KindUsage, "%s is not UTF-8", what)
	case nestsDeeper(b, depth):
		return transfer.Errorf(transfer.KindTooLarge, "%s is nested more than %d deep", what, depth)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return transfer.Errorf(transfer.KindUsage, "%s is malformed: %w", what, err)
	}
	return nil
}

// nestsDeeper reports whether the brackets of a JSON text nest more than limit deep.
func nestsDeeper(b []byte, limit int) bool {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
