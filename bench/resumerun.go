package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ferry/internal/client"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/sender"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// resumeScenario measures the effect of the resume of one huge transfer on the others.
func resumeScenario() Scenario {
	return Scenario{Name: "resume", Run: runResume,
		What: "24 transfers of an agent that has just been started, alone and beside the resume of one of 5,000,000 files: their rate, and the heartbeats."}
}

// The resumed transfer, and those beside it.
const (
	resumeBeside = 24      // transfers
	resumeLeft   = 1000    // files of the huge one that are not sent yet
	resumeSize   = 4 << 10 // bytes of each of them
)

// Names of the additional figures of a sample, in seconds.
const (
	extraPulse   = "pulse"   // the longest time of an answer to a request for a heartbeat
	extraResumed = "resumed" // from the start to the end of the huge transfer
)

// A resume is a run of the scenario.
type resume struct {
	env    *Env
	dir    string
	source string // the source's root, with the two sets
	beside *FileSet
	left   *FileSet
	items  uint64 // of the huge transfer
	rounds int
}

func runResume(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("resume")
	if err != nil {
		return nil, err
	}
	defer remove()

	r := &resume{env: e, dir: dir, source: filepath.Join(dir, "source"), items: 5_000_000}
	count, size, left := 240, int64(8<<20), resumeLeft
	if e.Short {
		r.items, count, size, left = 5000, resumeBeside, 4<<10, 20
	}

	if r.beside, err = MakeFiles(filepath.Join(r.source, "beside"), count, size, Random); err != nil {
		return nil, err
	}

	if r.left, err = MakeFiles(filepath.Join(r.source, "left"), left, resumeSize, Random); err != nil {
		return nil, err
	}

	series, err := e.Interleave(ctx, []Case{
		{Name: "24 transfers", Run: func(ctx context.Context) (Sample, error) { return r.run(ctx, false) }},
		{Name: fmt.Sprintf("24 transfers beside the resume of %d files", r.items), Run: func(ctx context.Context) (Sample, error) { return r.run(ctx, true) }},
	})
	if err != nil {
		return nil, err
	}
	return r.report(series), nil
}

// run starts a network. Its source has the huge transfer in its ledger if huge is set. run then measures the other
// transfers.
func (r *resume) run(ctx context.Context, huge bool) (s Sample, err error) {
	r.rounds++
	dir := filepath.Join(r.dir, fmt.Sprint("round", r.rounds))
	dest := filepath.Join(dir, "copies")
	if err := os.MkdirAll(dest, 0o755); err != nil {
		return s, unwritable(dest, err)
	}
	defer os.RemoveAll(dir)

	var q *transfer.Request
	if huge {
		if q, err = r.interrupted(dir, dest); err != nil {
			return s, err
		}
	}

	p, err := r.env.StartPair(ctx, PairConfig{Dir: dir, SourceRoot: r.source, DestRoot: dest})
	if err != nil {
		return s, err
	}
	defer p.Close()

	began := time.Now()
	longest := p.pulse(ctx, SourceAgent)
	resumed := make(chan error, 1)
	var took time.Duration
	go func() {
		var err error
		if q != nil {
			err = p.ended(ctx, q)
		}
		took = time.Since(began)
		resumed <- err
	}()

	jobs, check := r.beside.Shares(Job{Source: SourceAgent, Dest: DestAgent}, dest, "beside", resumeBeside)
	s, err = p.Measure(ctx, jobs, check)
	err = errors.Join(err, <-resumed)
	pulse, perr := longest()
	err = errors.Join(err, perr)
	if err == nil && huge {
		err = r.left.Verify(filepath.Join(dest, "left"))
	}

	s.Extra = map[string]float64{extraPulse: pulse.Seconds()}
	if huge {
		s.Extra[extraResumed] = took.Seconds()
	}
	return s, err
}

// askEvery is the time between an answer and the next request for a heartbeat.
const askEvery = 20 * time.Millisecond

// pulse asks an agent for its heartbeat repeatedly, until longest is called, which returns the longest time of an
// answer.
func (n *Network) pulse(ctx context.Context, agent transfer.AgentName) (longest func() (time.Duration, error)) {
	ctx, cancel := context.WithCancel(ctx)
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing})
	var most time.Duration
	done := make(chan error, 1)
	go func() {
		t := time.NewTicker(askEvery)
		defer t.Stop()
		for {
			began := time.Now()
			if _, err := n.conn.Request(ctx, wire.AskAgent(agent, n.conn.Self()), ask, patience); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
			most = max(most, time.Since(began))
			select {
			case <-t.C:
			case <-ctx.Done():
				done <- nil
				return
			}
		}
	}()

	return func() (time.Duration, error) {
		cancel()
		err := <-done
		return most, err
	}
}

// ended waits for the end of a transfer that another process has submitted.
func (n *Network) ended(ctx context.Context, q *transfer.Request) error {
	s := &client.Client{Conn: n.conn, Clock: clock.System, Who: q.Originator}
	p, err := s.Watch(ctx, client.Of(q), nil, nil)
	if err == nil && p.State != transfer.Successful {
		err = failed(p)
	}
	return err
}

// interrupted writes the ledgers of two agents as after a stop in the middle of a transfer. All but its last files are
// decided, and never existed.
func (r *resume) interrupted(dir, dest string) (*transfer.Request, error) {
	q := Job{Source: SourceAgent, Dest: DestAgent, Sources: []transfer.Path{"left/*"}, To: "left/", Settings: transfer.DefaultSettings()}.request()
	res := transfer.Resolution{Base: transfer.Path(filepath.Join(dest, "left")), Into: true}
	var decided transfer.ItemSet
	for n := range r.items - uint64(len(r.left.Names)) {
		decided.Add(n)
	}

	from, err := r.ledger(dir, SourceAgent)
	if err != nil {
		return nil, err
	}
	defer from.Close()

	to, err := r.ledger(dir, DestAgent)
	if err != nil {
		return nil, err
	}

	defer to.Close()

	now := time.Now()
	src := sender.NewRecord(*q, word.Origin{Principal: submitter()}, now)
	src.Nonce, src.Epoch, src.Dest, src.Resolution, src.Journal, src.Decided = 1, 1, to.IncarnationText(), &res, true, decided
	src.Progress.Started, src.Progress.Settings = now, q.Settings
	if err := src.Move(transfer.Accepted, transfer.Negotiating); err != nil {
		return nil, err
	}

	in := &ledger.Incoming{Request: *q, From: from.IncarnationText(), Principal: submitter(), State: transfer.Receiving, Epoch: 1, Nonce: 1,
		Settings: q.Settings, Resolution: res, Generations: ledger.Generations{Generation: to.Generation()}, Decided: decided, Started: now, LastContact: now}
	in.Request.Items = nil
	if err := r.journal(from, q.ID); err != nil {
		return nil, err
	}

	return q, errors.Join(from.Update(func(t *ledger.Tx) error { return t.PutSource(src) }),
		to.Update(func(t *ledger.Tx) error { return t.PutIncoming(in) }))
}

// ledger makes the ledger of an agent before its first start.
func (r *resume) ledger(dir string, agent transfer.AgentName) (*ledger.Ledger, error) {
	state := filepath.Join(dir, "state", string(agent))
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, unwritable(state, err)
	}
	return ledger.Open(state, ledger.Options{Log: r.env.Log})
}

// journal writes the items of the huge transfer.
func (r *resume) journal(l *ledger.Ledger, id transfer.ID) error {
	j, err := l.Journal(id)
	if err != nil {
		return err
	}
	defer j.Close()

	gone := r.items - uint64(len(r.left.Names))
	for n := range r.items {
		name := fmt.Sprintf("a-file-that-was-sent-%09d", n)
		if n >= gone {
			name = r.left.Names[n-gone]
		}
		it := transfer.Item{Type: transfer.ItemFile, Source: transfer.Path(filepath.Join(r.left.Dir, name)), Name: transfer.Path(name), Size: resumeSize}
		if err := j.Append(it); err != nil {
			return err
		}
		if n%(64<<10) == 0 {
			if err := j.Sync(); err != nil {
				return err
			}
		}
	}
	return j.End(ledger.Tally{})
}

func (r *resume) report(series []Series) *Report {
	t := Table{Title: "24 transfers at once of an agent that has just been started", Columns: []Column{{Name: "beside"}, {Name: "rate of the 24", Unit: "MB/s"},
		{Name: "longest wait for a heartbeat that was asked for", Unit: "s", Digits: 3}, {Name: "until the huge transfer had ended", Unit: "s", Digits: 1}, {Name: "peak source", Unit: "MiB"}}}
	alone, with := series[0], series[1]
	t.Add(Text("nothing"), Of(alone.Rate()), Of(alone.Extra(extraPulse)), Cell{}, Of(alone.Peak(RoleSource)))
	t.Add(Text("the resume of %d files", r.items), Of(with.Rate()), Of(with.Extra(extraPulse)), Of(with.Extra(extraResumed)), Of(with.Peak(RoleSource)))
	out := &Report{Tables: []Table{t}, Charts: []Chart{{Title: "Rate of 24 transfers", Kind: Bars, X: "beside", Y: "MB/s", Categories: []string{"nothing", "the resume"},
		Lines: []Line{{Name: "rate", Points: []Point{At(0, alone.Rate()), At(1, with.Rate())}}}}}}
	out.Bars = append(out.Bars, AtLeast("rate beside a huge resume, of that alone", "", with.Rate().Median/alone.Rate().Median, 0.8, 1),
		AtMost("longest wait for a heartbeat beside a huge resume", "s", with.Extra(extraPulse).Max, 1, 0.2))
	out.Note("The ledgers of both agents are written before the agents start: they say that all but the last %d files of a transfer of %d are decided. A resume reads the journal of its items and writes it again whole: that is its cost. A heartbeat is asked for every 20 ms.", len(r.left.Names), r.items)
	return out
}
