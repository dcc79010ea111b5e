package draft

import (
	"cmp"
	"strings"
	"time"

	"ferry/internal/automation/job"
	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/transfer"
)

// A Draft describes a transfer in the words of `ferry send`: a field is the value of the flag with its name, and the
// empty value stands for none. Begin with New.
type Draft struct {
	Originator transfer.Originator
	Mode       string // transfer.ModeBinary or transfer.ModeText
	Checksum   string // as digest.ParseMethod takes it
	Durability string
	Lane       string
	Delivery   string
	Compress   string
	Recovery   string // recovery time-out, as transfer.ParseDuration takes it
	Priority   int
	Job        string
	Meta       []string // K=V
	Content    transfer.Content
	Files
	Choice
	Bounds
	FlowControl
	Calls
	Queues
}

// Bounds bound a transfer.
type Bounds struct {
	Limit    string // bytes a second, as flow.ParseRate takes it
	MaxSize  string // bytes, as transfer.ParseSize takes it
	MaxFiles int64
	Together bool
}

// FlowControl has the flow-control settings of a transfer. Without a value the agent's setting holds.
type FlowControl struct {
	ChunkSize                     string // as transfer.ParseSize takes it
	Window, Frame, CheckpointEach int
}

// New returns a Draft with the defaults.
func New() Draft {
	return Draft{Mode: transfer.ModeBinary, Checksum: string(digest.XXH3), Durability: transfer.DurabilityFull, Lane: transfer.LaneAuto,
		Delivery: transfer.DeliveryFast, Compress: transfer.CompressNone, Recovery: "24h",
		Files: Files{IfExists: transfer.IfExistsError, ArchiveWhen: WhenEach}}
}

// Request makes the request of the Draft, of a new ID, for [AGENT:]LOCATION of each source and of DEST, which is last.
// Where host is nil, agents must be named. A request of host's own files names no agents.
func (d *Draft) Request(locations []string, host Host) (*transfer.Request, error) {
	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now().UTC(),
		Originator: d.Originator, Job: d.Job, Priority: d.Priority, Durability: d.Durability, Lane: d.Lane, Delivery: d.Delivery, Compress: d.Compress,
		Options: transfer.Options{Recursive: d.Recursive, Mode: d.Mode, IfExists: d.IfExists, Content: d.Content}}
	if err := d.describe(q); err != nil {
		return nil, err
	}

	if err := locate(q, locations, host); err != nil {
		return nil, err
	}
	if err := d.into(q); err != nil {
		return nil, err
	}
	local := q.Destination == ""
	if local && q.Programs != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "programs are run by agents, and no agent is named").
			WithHint("name one on both sides, or run the programs yourself")
	}
	if err := conversion.TakeAttributes(q); err != nil {
		return nil, err
	}
	if host != nil {
		if err := host.Names(q); err != nil {
			return nil, err
		}
	}

	check := *q
	if local {
		check.Source, check.Destination = host.Agents()
	}
	if err := check.Check(); err != nil {
		return nil, err
	}
	return q, conversion.Check(&check)
}

// describe sets everything in the request but its locations.
func (d *Draft) describe(q *transfer.Request) error {
	if err := d.dispose(q); err != nil {
		return err
	}

	m, err := digest.ParseMethod(d.Checksum)
	if err != nil {
		return err
	}

	q.Checksum = string(m)
	if q.Meta, err = ParseMeta(d.Meta); err != nil {
		return err
	}
	if err := d.call(q); err != nil {
		return err
	}

	if d.ChunkSize != "" {
		if q.Settings.ChunkSize, err = transfer.ParseSize(d.ChunkSize); err != nil {
			return err
		}
	}

	q.Settings.WindowSize, q.Settings.FrameSize, q.Settings.CheckpointInterval = d.Window, d.Frame, d.CheckpointEach
	if err = cmp.Or(d.bound(q), d.choose(q)); err != nil {
		return err
	}

	if q.Recovery, err = transfer.ParseDuration(d.Recovery); err != nil {
		return err
	}

	if q.Recovery == 0 {
		q.Recovery = 1 // 0 is "at once" here, and "the default" in a request
	}
	return nil
}

// bound sets the bounds of the transfer.
func (b *Bounds) bound(q *transfer.Request) (err error) {
	q.MaxFiles, q.Together = b.MaxFiles, b.Together
	if b.MaxSize != "" {
		n, err := transfer.ParseSize(b.MaxSize)
		if err != nil {
			return err
		}
		q.MaxBytes = int64(n)
	}

	if b.Limit == "" {
		return nil
	}

	q.Rate, err = flow.ParseRate(b.Limit)
	return err
}

// ParseMeta reads K=V.
func ParseMeta(entries []string) (map[string]string, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, e := range entries {
		k, v, ok := strings.Cut(e, "=")
		if !ok || k == "" {
			return nil, transfer.Errorf(transfer.KindUsage, "--meta %q is malformed; write it as K=V", e)
		}
		m[k] = v
	}
	return m, nil
}

// Job makes the job of a request of Draft.Request with the same host. alsoTo are the further destinations, each as
// [AGENT:]LOCATION.
func Job(q *transfer.Request, alsoTo []string, host Host) (*job.Put, error) {
	local := q.Destination == ""
	p := &job.Put{Request: *q, To: []job.To{{Agent: q.Destination, Dest: q.Dest}}}
	for _, s := range alsoTo {
		to, l, err := Destination(s)
		if err != nil {
			return nil, err
		}
		if local != (to == "") {
			return nil, transfer.Errorf(transfer.KindUsage, "--also-to %q: an agent is named for some locations only", s).
				WithHint("name one for all, or for none to move files on this host")
		}
		if local {
			if l, err = host.Location(l); err != nil {
				return nil, err
			}
		}
		p.To = append(p.To, job.To{Agent: to, Dest: l})
	}
	if local {
		p.Request.Source, p.Request.Destination = host.Agents()
		for n := range p.To {
			p.To[n].Agent = p.Request.Destination
		}
	}
	return p, p.Check()
}
