package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ferry/internal/client"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A Lane is a lane in a case: the lane that the request asks for, and the direct lane's setting of both agents.
type Lane struct {
	Name   string // for display
	Lane   string // of the request
	Direct string // --direct of both agents; empty for their default
}

// The lanes that cases compare.
var (
	QueueLane   = Lane{Name: "queue lane", Lane: transfer.LaneQueue}
	DirectPlain = Lane{Name: "direct lane, plain", Lane: transfer.LaneDirect, Direct: "plain"}
	DirectTLS   = Lane{Name: "direct lane, TLS", Lane: transfer.LaneDirect, Direct: "tls"}
)

// Lacks returns the reason why a lane cannot be measured with this Ferry, or "".
func (l Lane) Lacks() string {
	q := Job{Source: "ANY", Dest: "OTHER", Sources: []transfer.Path{"a"}, To: "b", Lane: l.Lane}.request()
	if err := q.Check(); transfer.KindOf(err) == transfer.KindNotBuilt {
		return "not available: this Ferry has no " + l.Name
	}
	return ""
}

// Flags returns the flags of an agent for the lane.
func (l Lane) Flags() []string {
	if l.Direct == "" || l.Lacks() != "" {
		return nil
	}
	return []string{"--direct", l.Direct}
}

// A Job is one transfer to submit. An empty field stands for the agents' default.
type Job struct {
	Source, Dest transfer.AgentName
	Sources      []transfer.Path
	To           transfer.Path // a file or a directory
	Checksum     string
	Durability   string
	Lane         string
	Delivery     string
	Compress     string
	Settings     transfer.Settings
	Mode         string
	Content      transfer.Content
}

func (j Job) request() *transfer.Request {
	return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now().UTC(),
		Originator: client.Me(), Source: j.Source, Destination: j.Dest, Items: transfer.ItemsOf(j.Sources...), Dest: transfer.File(j.To),
		Durability: j.Durability, Lane: j.Lane, Delivery: j.Delivery, Compress: j.Compress, Settings: j.Settings,
		Options: transfer.Options{Recursive: true, Checksum: j.Checksum, Mode: j.Mode, Content: j.Content}}
}

// AsText returns the job in text mode, from one code page to another.
func (j Job) AsText(from, to string) Job {
	j.Mode, j.Content.FromEncoding, j.Content.ToEncoding = transfer.ModeText, from, to
	return j
}

// Lacks returns the reason why this Ferry lacks a function that the job needs, or "".
func (j Job) Lacks() string {
	if err := j.request().Check(); transfer.KindOf(err) == transfer.KindNotBuilt {
		return "not available: " + transfer.AsError(err).Text
	}
	return ""
}

// A Done is a transfer that has ended in success.
type Done struct {
	*transfer.Progress
	Wall time.Duration // from before the submission until the submitter knew the end
}

// Transfer submits a job from this process and waits for its end. Any end except success is an error.
func (n *Network) Transfer(ctx context.Context, j Job) (Done, error) {
	q := j.request()
	s := &client.Client{Conn: n.conn, Clock: clock.System, Who: q.Originator}
	start := time.Now()
	p, err := s.Submit(ctx, q, nil)
	if err == nil && (p == nil || !p.State.Final()) {
		p, err = s.Watch(ctx, client.Of(q), nil, nil)
	}

	d := Done{Progress: p, Wall: time.Since(start)}
	if err == nil && p.State != transfer.Successful {
		err = failed(p)
	}
	if err != nil {
		if dead := n.Alive(); dead != nil {
			err = dead
		}
		return d, err
	}
	return d, nil
}

func failed(p *transfer.Progress) error {
	why := "no reason is given"
	if p.Reason != nil {
		why = p.Reason.Error()
	} else if len(p.Failures) > 0 && p.Failures[0].Err != nil {
		why = p.Failures[0].Err.Error()
	}
	return transfer.Errorf(transfer.KindInternal, "transfer %s from %s to %s is %s: %s", p.ID, p.Source, p.Destination, p.State, why)
}

// Transfers runs jobs at once and waits for all. after, if not nil, is called at the end of each, by its own goroutine.
func (n *Network) Transfers(ctx context.Context, jobs []Job, after func(i int, d Done) error) ([]Done, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make([]Done, len(jobs))
	var all sync.WaitGroup
	for i, j := range jobs {
		all.Go(func() {
			d, err := n.Transfer(ctx, j)
			if err == nil && after != nil {
				err = after(i, d)
			}
			if err != nil {
				cancel(err)
			}
			done[i] = d
		})
	}

	all.Wait()
	return done, context.Cause(ctx)
}

// Measure runs jobs at once and returns their sample, with the lane of the data. check, if not nil, verifies the copies
// afterwards and removes them, outside of the measurement.
func (n *Network) Measure(ctx context.Context, jobs []Job, check func() error) (Sample, error) {
	s, err := n.Meter.Measure(func() (Sample, error) {
		var s Sample
		start := time.Now()
		done, err := n.Transfers(ctx, jobs, nil)
		s.Wall = time.Since(start)
		for _, d := range done {
			if d.Progress != nil {
				s.Bytes += d.Bytes
				s.Files += d.Files
				s.Lane = d.Lane
			}
		}
		return s, err
	})
	if err != nil {
		return s, err
	}

	for _, j := range jobs {
		if j.Lane == transfer.LaneDirect && s.Lane != transfer.LaneDirect {
			return s, transfer.Errorf(transfer.KindInternal, "the data took the %s lane where the direct one was asked for", s.Lane)
		}
	}

	if check != nil {
		err = check()
	}
	return s, err
}

// A Summary is the last line of `ferry send --json`.
type Summary = transfer.Summary

// Send runs `ferry send --json` as a process of its own, and measures from its start to its exit. Any end except
// success is an error.
func (n *Network) Send(ctx context.Context, args ...string) (Summary, time.Duration, error) {
	return runSend(n.sending(ctx, args...))
}

// sending returns a `ferry send --json` that is not started.
func (n *Network) sending(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, n.env.Ferry, append([]string{"send", "--json", "--network", n.url(RoleSubmitter)}, args...)...)
	c.Env = n.environment()
	c.Dir = n.cfg.Dir
	return c
}

// runSend runs a send and reads its summary.
func runSend(c *exec.Cmd) (Summary, time.Duration, error) {
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	start := time.Now()
	err := c.Run()
	wall := time.Since(start)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var s Summary
	if e := json.Unmarshal([]byte(lines[len(lines)-1]), &s); e != nil || s.MessageType != "summary" {
		return s, wall, transfer.Errorf(transfer.KindInternal, "ferry %s ended without a summary (%v): %s",
			strings.Join(c.Args[1:], " "), err, strings.TrimSpace(errs.String()))
	}

	if s.State != transfer.Successful {
		return s, wall, transfer.Errorf(transfer.KindInternal, "ferry %s ended %s with %d: %s",
			strings.Join(c.Args[1:], " "), s.State, s.ResultCode, strings.TrimSpace(errs.String()))
	}
	return s, wall, nil
}

// Copies returns jobs that move a set from one agent to another, with the set's parent and dest as their roots: as one
// transfer of the whole set, or as one for each part. The copy is in dest under the directory name and the set's name.
// The returned function verifies it and removes it.
func (s *FileSet) Copies(j Job, dest, name string, parts bool) ([]Job, func() error) {
	check := func() error {
		if err := s.Verify(filepath.Join(dest, name, s.Name())); err != nil {
			return err
		}
		return os.RemoveAll(filepath.Join(dest, name))
	}
	if !parts {
		j.Sources, j.To = []transfer.Path{transfer.Path(s.Name())}, transfer.Path(name+"/")
		return []Job{j}, check
	}

	var jobs []Job
	for _, p := range s.Parts {
		one := j
		one.Sources = []transfer.Path{transfer.Path(s.Name() + "/" + p)}
		one.To = transfer.Path(fmt.Sprintf("%s/%s/", name, s.Name()))
		jobs = append(jobs, one)
	}
	return jobs, check
}

// Shares returns n jobs that move a set, each with every n-th file by name. The copies are in dest under the directory
// name and the number of the share. The returned function verifies them and removes them.
func (s *FileSet) Shares(j Job, dest, name string, n int) ([]Job, func() error) {
	jobs := make([]Job, n)
	for i := range jobs {
		jobs[i] = j
		jobs[i].To = transfer.Path(fmt.Sprintf("%s/%d/", name, i))
	}

	for i, file := range s.Names {
		jobs[i%n].Sources = append(jobs[i%n].Sources, transfer.Path(s.Name()+"/"+file))
	}

	return jobs, func() error {
		for i, file := range s.Names {
			if err := s.verify(filepath.Join(dest, name, fmt.Sprint(i%n), filepath.Base(file)), file); err != nil {
				return err
			}
		}
		return os.RemoveAll(filepath.Join(dest, name))
	}
}
