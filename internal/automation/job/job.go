// Package job sends the same sources to several destinations. A job has one transfer, its child, for each of them, and
// a result that is folded from theirs. It is a duty of the source agent.
//
// A command brings the request and the list of destinations. The job is written down with the IDs of its children in
// the transaction of the answer. Each child is submitted under its ID until the agent's ledger has it or refuses it for
// good, and watched until it has ended. A crash at any point leaves children that are submitted again under their IDs,
// and found if they are there.
//
// Sources are deleted once they have arrived everywhere. The last child deletes them; whether it may is decided when
// the others have ended. Each of the others must be successful, and the same files must have arrived at all of them,
// byte for byte. The last child then deletes the files that it sends, and only if they are the same once more.
// Otherwise no source is deleted, and that is on record.
package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of commands and questions.
const (
	CommandPut    wire.Kind = "job-put"    // Put
	CommandCancel wire.Kind = "job-cancel" // Named
	AskList       wire.Kind = "job-list"   // Page; Listed
	AskShow       wire.Kind = "job-show"   // Named; Shown
)

// Noun names jobs in a wire.Definition.
const Noun = "job"

// MetaName is the metadata of each child that has the ID of its job.
const MetaName = "part-of-job"

// Limits.
const (
	MaxChildren = 1000 // of a job
	MaxPut      = 120 << 10
	maxJobs     = 1000                // that an agent keeps, with
	maxKept     = 50_000              // children in all
	retention   = 30 * 24 * time.Hour // that a job is kept after its end
	maxReason   = 512                 // bytes of the reason why a child has ended
	listPage    = 200
	childPage   = 100
	keptOf      = 16 // children of a job that coordination keeps
)

// A Put makes a job. Its ID is that of the request. The request's destination is the first of the job.
type Put struct {
	Request transfer.Request `json:"request"`
	To      []To             `json:"to"`
	RetryOf transfer.ID      `json:"retry_of,omitzero"` // the job that is tried again
}

// A To is a destination of a job.
type To struct {
	Agent transfer.AgentName `json:"agent"`
	Dest  transfer.Location  `json:"dest"`
	Retry *transfer.Retry    `json:"retry,omitempty"` // the transfer that this one repeats
}

// child is the child of a destination, with a number and the ID of its transfer.
func (to *To) child(n int, id transfer.ID) *Child {
	return &Child{N: n, Destination: to.Agent, Dest: to.Dest, Retry: to.Retry, Transfer: id, State: transfer.Queued}
}

// Named names a job by its ID or by the end of its ID.
type Named struct {
	ID      string `json:"id"`
	After   int    `json:"after,omitempty"`   // of AskShow: children with greater numbers
	Request bool   `json:"request,omitempty"` // of AskShow: the request, too, and the transfer that each child repeats
}

// A Page asks for the jobs with IDs after one.
type Page struct {
	After transfer.ID `json:"after,omitzero"`
}

// Listed are some jobs, the oldest first.
type Listed struct {
	Jobs []Job `json:"jobs"`
	More bool  `json:"more,omitempty"`
}

// A Shown is a job with some of its children, by their numbers.
type Shown struct {
	Job
	Request *transfer.Request `json:"request,omitempty"`
	Of      []Child           `json:"of"`
	More    bool              `json:"more,omitempty"`
}

// A Job is a job as the ledger has it, and as it is listed.
type Job struct {
	V           int                 `json:"v"`
	ID          transfer.ID         `json:"id"`
	word.Origin                     // of the command that has made it
	Originator  transfer.Originator `json:"originator"`
	Made        time.Time           `json:"made"`
	Source      transfer.AgentName  `json:"source"`
	Name        string              `json:"job,omitempty"` // as --job gives it
	RetryOf     transfer.ID         `json:"retry_of,omitzero"`
	Children    int                 `json:"children"`
	Deletes     bool                `json:"deletes,omitempty"` // the sources, when they have arrived everywhere
	Cancelled   *Cancelled          `json:"cancelled,omitempty"`
	Warning     string              `json:"warning,omitempty"`
	Counts      Tally               `json:"tally"`
	Ended       time.Time           `json:"ended,omitzero"`
	State       transfer.State      `json:"state"` // running, cancelling, or the final one
	Code        int                 `json:"result_code"`
}

// Cancelled is the origin and the time of a job's cancel.
type Cancelled struct {
	word.Origin
	At time.Time `json:"at"`
}

// A Tally counts the children that have ended, and their files and bytes.
type Tally struct {
	Ended      int   `json:"ended"`
	Successful int   `json:"successful"`
	Files      int64 `json:"files"`
	Failed     int64 `json:"files_failed"`
	Skipped    int64 `json:"files_skipped,omitempty"`
	Bytes      int64 `json:"bytes"`
	Warnings   int64 `json:"warnings,omitempty"`
}

// A Child is the transfer of a job to one of its destinations. Until it has ended the ledger knows only its ID; the
// other fields are those of the transfer when it is shown.
type Child struct {
	N           int                `json:"n"` // from 1, in the order of the destinations
	Destination transfer.AgentName `json:"destination"`
	Dest        transfer.Location  `json:"dest"`
	Transfer    transfer.ID        `json:"transfer,omitzero"` // none: it is decided when the others have ended
	Sum         string             `json:"sum,omitempty"`     // of that one: the files that must arrive for the sources to be deleted
	Retry       *transfer.Retry    `json:"retry,omitempty"`
	State       transfer.State     `json:"state"` // queued, until the agent's ledger has it
	Code        int                `json:"result_code"`
	Reason      *transfer.Error    `json:"reason,omitempty"`
	Started     time.Time          `json:"started,omitzero"`
	Ended       time.Time          `json:"ended,omitzero"`
	transfer.Counts
}

const version = 2

// ParsePut reads a Put and checks all of it.
func ParsePut(data []byte) (*Put, error) {
	if err := checkSize(len(data)); err != nil {
		return nil, err
	}
	p := &Put{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the job cannot be read: %w", err)
	}
	return p, p.Check()
}

func checkSize(n int) error {
	if n <= MaxPut {
		return nil
	}
	return transfer.Errorf(transfer.KindTooLarge, "the job has %d bytes; the limit is %d", n, MaxPut).WithHint("use patterns or directories, or several jobs")
}

// Check refuses a Put that makes no job.
func (p *Put) Check() error {
	if err := checkSize(len(wire.Marshal(p))); err != nil {
		return err
	}
	q := &p.Request
	switch {
	case len(p.To) == 0:
		return transfer.Errorf(transfer.KindMalformed, "the job has no destination")
	case len(p.To) > MaxChildren:
		return transfer.Errorf(transfer.KindTooLarge, "the job has %d destinations; the limit is %d", len(p.To), MaxChildren).WithHint("make several jobs")
	case q.Rest != nil || q.Retry != nil || q.Tally != "":
		return transfer.Errorf(transfer.KindMalformed, "the request of the job is in parts, a retry, or of another job")
	case q.Removes() && len(p.To) > 1 && q.Checksum == "none":
		return transfer.Errorf(transfer.KindUsage, "with --checksum none it is unknown whether a source has arrived everywhere, and --delete-source deletes it then").
			WithHint("leave one of them out")
	}
	if _, is := q.Meta[MetaName]; is {
		return transfer.Errorf(transfer.KindUsage, "the metadata %s of a job's transfers has the ID of the job", MetaName).WithHint("give yours another name")
	}
	seen := map[To]bool{}
	for n := range p.To {
		to := &p.To[n]
		at := to.Dest.On(to.Agent)
		if one := (To{Agent: to.Agent, Dest: to.Dest}); !seen[one] {
			seen[one] = true
		} else {
			return transfer.Errorf(transfer.KindUsage, "the destination %s is given twice", at)
		}
		if err := childOf(q, to.child(n+1, q.ID), len(p.To)).Check(); err != nil {
			return transfer.Errorf(transfer.KindOf(err), "the destination %s: %w", at, err)
		}
	}
	for n := range q.Items {
		if it := &q.Items[n]; it.Own() {
			return transfer.Errorf(transfer.KindUsage, "the source %s has a destination or settings of its own, and a job has several destinations for all", it.Source)
		}
	}
	return nil
}

// childOf makes the request of a child of a job: the same each time, for a repeat must be the same request.
func childOf(of *transfer.Request, c *Child, children int) *transfer.Request {
	q := *of
	q.ID, q.Destination, q.Dest, q.Retry = c.Transfer, c.Destination, c.Dest, c.Retry
	q.Meta = maps.Clone(q.Meta)
	if q.Meta == nil {
		q.Meta = map[string]string{}
	}
	q.Meta[MetaName] = of.ID.String()
	if q.Removes() && children > 1 {
		q.Tally, q.Durability = c.Sum, transfer.DurabilityFull // at all of them, as wherever a source is deleted
		if c.N < children {
			q.Tally = transfer.TallyCount
		}
		if c.N < children || c.Sum == "" {
			q.Disposition, q.Archive, q.AllSources = transfer.DispositionLeave, "", false
		}
	}
	return &q
}

// Requests returns the requests of the children, under the ID of the job. They are for checks before the children have
// their own IDs.
func (p *Put) Requests() (all []*transfer.Request) {
	for n := range p.To {
		all = append(all, childOf(&p.Request, p.To[n].child(n+1, p.Request.ID), 1))
	}
	return all
}

// A drawer is the jobs' part of the ledger, by the job's ID. j/ID has the job, r/ID its request, and c/ID/N its
// children. a/ID is there until the job has ended.
type drawer struct{ duty.Store[*Job] }

func drawerOf(t *ledger.Tx) drawer {
	return drawer{duty.Store[*Job]{Namespace: ledger.NamespaceOf(t, "job"), Prefix: "j/", Decode: duty.Decoder("job", version, func(j *Job) int { return j.V })}}
}

func childKey(id transfer.ID, n int) string { return fmt.Sprintf("c/%s/%04d", id, n) }

func (d drawer) putChild(id transfer.ID, c *Child) error {
	return d.Put(childKey(id, c.N), wire.Marshal(c))
}

// request is that of a job.
func (d drawer) request(id transfer.ID) (*transfer.Request, error) {
	q := &transfer.Request{}
	if err := json.Unmarshal(d.Get("r/"+id.String()), q); err != nil {
		return nil, duty.Unreadable("job", err)
	}
	return q, nil
}

// Owner is the principal of the job.
func (j *Job) Owner() string { return j.Principal }

// Key is the ID of the job.
func (j *Job) Key() string { return j.ID.String() }

// children returns the children of a job with numbers beyond after, limit at most; 0: all.
func (d drawer) children(id transfer.ID, after, limit int) (all []Child, err error) {
	for _, value := range d.All("c/"+id.String()+"/", childKey(id, after)) {
		if limit > 0 && len(all) == limit {
			break
		}
		c := Child{}
		if err := json.Unmarshal(value, &c); err != nil {
			return nil, duty.Unreadable("job", err)
		}
		all = append(all, c)
	}
	return all, nil
}

// remove forgets a job.
func (d drawer) remove(id transfer.ID) error {
	for _, key := range []string{"j/", "r/", "a/"} {
		if err := d.Delete(key + id.String()); err != nil {
			return err
		}
	}
	return d.Clear("c/" + id.String() + "/")
}

// FinalState is the final state of a job, and its result code, of those of its children.
func FinalState(children []Child, cancelled bool) (transfer.State, int) {
	whole, some, stopped, code := 0, 0, 0, -1
	for n := range children {
		c := &children[n]
		if c.State == transfer.Cancelled {
			stopped++
		}
		switch {
		case c.State == transfer.Successful:
			whole++
		case c.Files > 0 || c.State == transfer.Partial:
			some++
		case code == -1 || code == c.Code:
			code = c.Code
		default:
			code = transfer.CodeNothing
		}
	}
	switch {
	case whole == len(children):
		return transfer.Successful, transfer.CodeSuccess
	case cancelled && stopped > 0, stopped == len(children):
		return transfer.Cancelled, transfer.CodeCancelled
	case whole+some > 0:
		return transfer.Partial, transfer.CodePartial
	}
	return transfer.Failed, code
}

func cut(e *transfer.Error) *transfer.Error {
	if e == nil {
		return nil
	}
	short := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "") }
	return &transfer.Error{Kind: e.Kind, Text: short(e.Text), Hint: short(e.Hint)}
}
