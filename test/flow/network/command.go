//go:build linux

package network

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ferry/internal/transfer"
)

// A Reason is an error as JSON shows it.
type Reason struct {
	Kind transfer.Kind `json:"kind"`
	Text string        `json:"text"`
	Hint string        `json:"hint"`
}

func (r *Reason) String() string {
	if r == nil {
		return "no reason"
	}
	return r.Text
}

// A Progress is a transfer as `ferry` shows it while it runs.
type Progress struct {
	MessageType string  `json:"message_type"`
	ID          string  `json:"id"`
	State       string  `json:"state"`
	Code        int     `json:"result_code"`
	Reason      *Reason `json:"reason"`
	Place       int     `json:"place"`
	Files       int64   `json:"files"`
	FilesFailed int64   `json:"files_failed"`
	Bytes       int64   `json:"bytes"`
	BytesSent   int64   `json:"bytes_sent"`
	BytesHeld   int64   `json:"bytes_held"`
	Resumes     int64   `json:"resumes"`
	BytesResent int64   `json:"bytes_resent"`
	Ended       string  `json:"ended"`
	Lane        string  `json:"lane"`
	LaneReason  string  `json:"lane_reason"`
	Source      string  `json:"source"`
	Destination string  `json:"destination"`
	RunAhead    int64   `json:"run_ahead"`
}

// MayResend returns the permitted cost of one interruption in bytes (R16): a checkpoint and the run-ahead. That is 25
// MiB unless the agents have found a long path, which a busy host can look like.
func (p *Progress) MayResend() int64 {
	const half = 25 << 20 / 2
	return half + max(half, p.RunAhead)
}

// Final reports whether the transfer is over.
func (p *Progress) Final() bool {
	switch p.State {
	case "successful", "partial", "failed", "cancelled":
		return true
	}
	return false
}

// A Summary is the last line of `ferry send --json`, with the names of the contract.
type Summary struct {
	MessageType string  `json:"message_type"`
	ID          string  `json:"id"`
	State       string  `json:"state"`
	ResultCode  int     `json:"result_code"`
	Files       int64   `json:"files"`
	FilesFailed int64   `json:"files_failed"`
	Bytes       int64   `json:"bytes"`
	Seconds     float64 `json:"seconds"`
	Lane        string  `json:"lane"`
	Resumes     int64   `json:"resumes"`
	BytesResent int64   `json:"bytes_resent"`
	Directories int64   `json:"directories"`
	Warnings    int64   `json:"warnings"`
}

// A Result is the result of a command.
type Result struct {
	n       *Network
	Args    []string
	Code    int
	Stdout  string
	Stderr  string
	Summary Summary // of a send that ended with one
}

// Ends expects a send to have ended in a state with a result code.
func (r Result) Ends(state string, code int) Result {
	r.n.t.Helper()
	if r.Summary.State != state || r.Summary.ResultCode != code || r.Code != code {
		r.n.t.Fatalf("ferry %s ended in state %q with code %d (exit code %d), not %q with %d\n%s\n%s",
			strings.Join(r.Args, " "), r.Summary.State, r.Summary.ResultCode, r.Code, state, code, r.Stderr, r.Stdout)
	}
	return r
}

// OK expects a command to have ended with 0.
func (r Result) OK() Result {
	r.n.t.Helper()
	if r.Code != 0 {
		r.n.t.Fatalf("ferry %s ended with %d\n%s\n%s", strings.Join(r.Args, " "), r.Code, r.Stderr, r.Stdout)
	}
	return r
}

// A Sending is a `ferry send` that runs.
type Sending struct {
	n     *Network
	cmd   *exec.Cmd
	err   tail
	ended chan struct{}
	fail  error

	mu   sync.Mutex
	out  bytes.Buffer
	line int
	seen []Progress
}

// Write takes the output on stdout, line by line.
func (s *Sending) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Write(b)
	for {
		rest := s.out.Bytes()[s.line:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return len(b), nil
		}
		var p Progress
		if json.Unmarshal(rest[:end], &p) == nil && p.ID != "" {
			s.seen = append(s.seen, p)
		}
		s.line += end + 1
	}
}

// Last returns the newest line of the command.
func (s *Sending) Last() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return Progress{}
	}
	return s.seen[len(s.seen)-1]
}

// Saw returns the first line of the command that satisfies is.
func (s *Sending) Saw(is func(Progress) bool) (Progress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.seen {
		if is(p) {
			return p, true
		}
	}
	return Progress{}, false
}

// Errors returns the output on stderr so far.
func (s *Sending) Errors() string { return s.err.text() }

// Running reports whether the command has not ended yet.
func (s *Sending) Running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// ID waits until the transfer's ID is known: coordination lists a transfer as soon as it is submitted.
func (s *Sending) ID() string {
	s.n.t.Helper()
	s.n.Until("the transfer has an ID", func() bool { return s.Last().ID != "" || !s.Running() })
	if s.Last().ID == "" {
		s.n.t.Fatalf("ferry %s ended without an ID: %s", strings.Join(s.cmd.Args[1:], " "), s.Errors())
	}
	return s.Last().ID
}

// Interrupt sends the command a signal, as Ctrl-C does.
func (s *Sending) Interrupt() {
	s.n.t.Helper()
	s.n.must(s.cmd.Process.Signal(syscall.SIGINT))
}

// Wait waits for the end of the command.
func (s *Sending) Wait() Result {
	s.n.t.Helper()
	return s.WaitFor(patience)
}

// WaitFor is Wait with a limit of its own, for a command that takes long.
func (s *Sending) WaitFor(limit time.Duration) Result {
	s.n.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			s.cmd.Process.Kill()
			<-s.ended
		}
		s.n.t.Fatalf("ferry %s has not ended after %s\n%s\n%s", strings.Join(s.cmd.Args[1:], " "), limit, s.Errors(), lastLines(s.out.String(), 5))
	}
	s.n.must(s.fail)
	r := Result{n: s.n, Args: s.cmd.Args[1:], Code: s.cmd.ProcessState.ExitCode(), Stdout: s.out.String(), Stderr: s.Errors()}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if sum := (Summary{}); json.Unmarshal([]byte(lines[len(lines)-1]), &sum) == nil && sum.MessageType == "summary" {
		r.Summary = sum
	}
	return r
}

// describe describes the progress of the command, with its last lines.
func (s *Sending) describe() string {
	how := "is running"
	if !s.Running() {
		how = fmt.Sprintf("ended with %d", s.cmd.ProcessState.ExitCode())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("ferry %s %s\n%s\n%s", strings.Join(s.cmd.Args[1:], " "), how, s.Errors(), lastLines(s.out.String(), 5))
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Async starts a ferry command in a directory of its own, without waiting for its end.
func (n *Network) Async(args ...string) *Sending {
	n.t.Helper()
	return n.AsyncWith(nil, args...)
}

// AsyncWith is Async with additions to the command's environment.
func (n *Network) AsyncWith(env []string, args ...string) *Sending {
	n.t.Helper()
	return n.run(env, append([]string{n.setup.Ferry}, args...))
}

// FerryBeside is Ferry in the environment of a process, such as its name space.
func (n *Network) FerryBeside(who string, args ...string) Result {
	n.t.Helper()
	return n.run(nil, slices.Concat(n.setup.Wrap[who], []string{n.setup.Ferry}, args)).Wait()
}

func (n *Network) run(env, argv []string) *Sending {
	n.t.Helper()
	s := &Sending{n: n, ended: make(chan struct{})}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Dir = n.cwd
	s.cmd.Stdout, s.cmd.Stderr = s, &s.err
	n.must(n.start(s.cmd, env...))
	go func() {
		var exit *exec.ExitError
		if err := s.cmd.Wait(); !errors.As(err, &exit) {
			s.fail = err
		}
		close(s.ended)
	}()
	return s
}

// Ferry runs a ferry command to its end.
func (n *Network) Ferry(args ...string) Result {
	n.t.Helper()
	return n.Async(args...).Wait()
}

// SendAsync starts `ferry send --json`.
func (n *Network) SendAsync(args ...string) *Sending {
	n.t.Helper()
	n.last = n.Async(append([]string{"send", "--json"}, args...)...)
	return n.last
}

// Send runs `ferry send --json` to its end.
func (n *Network) Send(args ...string) Result {
	n.t.Helper()
	return n.SendAsync(args...).Wait()
}

// Detach submits a transfer without waiting, and returns its ID. It accepts that the agent has not taken the transfer
// yet.
func (n *Network) Detach(args ...string) string {
	n.t.Helper()
	r := n.Async(append([]string{"send", "--json", "--detach"}, args...)...).Wait()
	var p Progress
	if err := json.Unmarshal([]byte(r.Stdout), &p); err != nil || p.ID == "" || r.Code != 0 && r.Code != 3 {
		n.t.Fatalf("ferry %s: %d %s %s", strings.Join(r.Args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return p.ID
}

// each decodes JSON Lines.
func each[T any](n *Network, r Result) []T {
	n.t.Helper()
	r.OK()
	var all []T
	for line := range strings.Lines(r.Stdout) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			n.t.Fatalf("ferry %s wrote what is not JSON: %v\n%s", strings.Join(r.Args, " "), err, line)
		}
		all = append(all, v)
	}
	return all
}

// Status returns the output of `ferry transfer show`.
func (n *Network) Status(id string) Progress {
	n.t.Helper()
	all := each[Progress](n, n.Ferry("transfer", "show", "--json", id))
	if len(all) != 1 {
		n.t.Fatalf("ferry transfer show %s showed %d transfers", id, len(all))
	}
	return all[0]
}

// Transfers returns the output of `ferry transfer ls`, newest first.
func (n *Network) Transfers(flags ...string) []Progress {
	n.t.Helper()
	return each[Progress](n, n.Ferry(append([]string{"transfer", "ls", "--json"}, flags...)...))
}

// A Monitor is the output of `ferry monitor show`.
type Monitor struct {
	State     string  `json:"state"`
	Problem   *Reason `json:"problem"`
	Triggers  int     `json:"triggers"`
	Submitted int     `json:"submitted"`
	Refused   int     `json:"refused"`
	Waiting   int     `json:"waiting"`
	History   int     `json:"history"`
}

// MonitorOf returns the status of a monitor of an agent.
func (n *Network) MonitorOf(agent, name string) Monitor {
	n.t.Helper()
	all := each[Monitor](n, n.Ferry("monitor", "show", name, "--agent", agent, "--json"))
	if len(all) != 1 {
		n.t.Fatalf("ferry monitor show %s showed %d monitors", name, len(all))
	}
	return all[0]
}

// unknownTransfer is the code of a command about an unknown transfer.
const unknownTransfer = 26

// WaitState waits until a transfer is in one of the states. Another final state ends the test. A coordination that was
// killed and restarted learns of the newest transfers from their sources, and does not know them until then.
func (n *Network) WaitState(id string, states ...string) Progress {
	n.t.Helper()
	var p Progress
	n.UntilEvery(fmt.Sprintf("transfer %s is %s", id, strings.Join(states, " or ")), 50*time.Millisecond, func() bool {
		r := n.Ferry("transfer", "show", "--json", id)
		if r.Code == unknownTransfer {
			return false
		}
		all := each[Progress](n, r)
		if len(all) != 1 {
			n.t.Fatalf("ferry transfer show %s showed %d transfers", id, len(all))
		}
		p = all[0]
		for _, s := range states {
			if p.State == s {
				return true
			}
		}
		if p.Final() {
			n.t.Fatalf("transfer %s is %s (%s), not %s", id, p.State, p.Reason, strings.Join(states, " or "))
		}
		return false
	})
	return p
}

// An Agent is the entry of an agent in `ferry agent ls`.
type Agent struct {
	Agent  string `json:"agent"`
	State  string `json:"state"`
	Age    int64  `json:"age_ns"`
	Outbox int    `json:"outbox"`
	Mode   string `json:"mode"`
	Reason string `json:"reason"`
}

// AgentOf returns the entry of an agent in `ferry agent ls`, or the zero Agent if it is not listed.
func (n *Network) AgentOf(name string) Agent {
	n.t.Helper()
	for _, a := range each[Agent](n, n.Ferry("agent", "ls", "--json")) {
		if a.Agent == name {
			return a
		}
	}
	return Agent{}
}

// An Outcome is the end of one item, as in an audit record.
type Outcome struct {
	Item   uint64  `json:"item"`
	Type   string  `json:"type"`
	Path   string  `json:"path"`
	Source string  `json:"source"`
	Size   int64   `json:"size"`
	Digest string  `json:"digest"`
	SrcSum string  `json:"source_digest"`
	Taken  string  `json:"taken"`
	Error  *Reason `json:"error"`

	Written *transfer.Written `json:"written"` // where the bytes were converted
}

// A Record is one audit record.
type Record struct {
	Agent       string          `json:"agent"`
	Event       string          `json:"event"`
	Role        string          `json:"role"`
	Transfer    string          `json:"transfer"`
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	Originator  json.RawMessage `json:"originator"`
	Job         string          `json:"job"`
	Items       []Outcome       `json:"items"`
	State       string          `json:"state"`
	Error       *Reason         `json:"error"`
	Code        int             `json:"result_code"`
}

// Audit waits until coordination has the last record of both sides on a transfer, and returns all of its records,
// oldest first.
func (n *Network) Audit(id string) (all []Record) {
	n.t.Helper()
	n.UntilEvery("the audit of "+id+" is complete", 50*time.Millisecond, func() bool {
		r := n.Ferry("audit", "show", "--json", id)
		if r.Code != 0 {
			return false // coordination may be starting
		}
		source, dest := false, false
		all = each[Record](n, r)
		for _, rec := range all {
			last := rec.Transfer == id && (rec.Event == "completed" || rec.Event == "failed" || rec.Event == "cancelled")
			source = source || last && rec.Role == "source"
			dest = dest || last && rec.Role == "destination"
		}
		return source && dest
	})
	return all
}

// Outcomes returns the outcomes of a transfer's items that a side has recorded. No item may be recorded twice.
func (n *Network) Outcomes(records []Record, role string) map[uint64]Outcome {
	n.t.Helper()
	all := map[uint64]Outcome{}
	for _, r := range records {
		if r.Role != role || r.Event == "deleted" {
			continue
		}
		for _, o := range r.Items {
			if _, twice := all[o.Item]; twice {
				n.t.Fatalf("item %d of transfer %s is in the audit of the %s twice", o.Item, r.Transfer, role)
			}
			all[o.Item] = o
		}
	}
	return all
}

// Sound expects the audit log to verify.
func (n *Network) Sound() {
	n.t.Helper()
	r := n.Ferry("audit", "verify").OK()
	if !strings.HasPrefix(r.Stdout, "sound: ") {
		n.t.Fatalf("ferry audit verify: %s", r.Stdout)
	}
}
