//go:build linux

package network

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/test/judge"
)

// A Job is one transfer of files with content of their own. No program except jobs writes to its directory at the
// destination, so that the judge can check it.
type Job struct {
	ID       string // once it is known
	From, To string // agents
	In, Out  string // directories beneath their roots: In/NAME arrives as Out/<base of In>/NAME
	Seed     uint64
	Count    int
	Size     int64    // of each file, plus or minus 3
	Delete   bool     // sent with --delete-source
	Archive  bool     // sent with --archive: In/NAME ends up as archive/<base of In>/NAME
	Deep     bool     // the files are spread over directories in directories
	Replace  bool     // the destination has other files, to be replaced
	Append   bool     // the destination has other files, to be appended to
	Listed   bool     // each file is named in the request, by --files-from
	Flags    []string // further ones
	Want     []string // final states that it may have; none: successful

	sums    map[string]judge.Sum // of the files at the destination in the end
	sent    map[string]judge.Sum // of the source, where it differs; see Append
	old     map[string]judge.Sum // of the files at the destination before
	list    string               // the file of --files-from
	sending *Sending
}

// name returns the name of the job's k-th file.
func (j *Job) name(k int) string {
	if j.Deep {
		return fmt.Sprintf("%d/%d/%06d", k%3, k%2, k)
	}
	return fmt.Sprintf("%06d", k)
}

// size returns the size of the job's k-th file: no two neighbours have the same.
func (j *Job) size(k int) int64 { return max(0, j.Size+int64(k%7)-3) }

// dest returns the path of the k-th file beneath the destination's root.
func (j *Job) dest(k int) string {
	return filepath.Join(j.Out, filepath.Base(j.In), j.name(k))
}

// Make makes a job's source files, and those at the destination that it replaces or appends to.
func (n *Network) Make(j *Job) {
	n.t.Helper()
	j.sums, j.old, j.sent = map[string]judge.Sum{}, map[string]judge.Sum{}, map[string]judge.Sum{}
	for k := range j.Count {
		if j.Replace || j.Append {
			j.old[j.name(k)] = n.stale(j, k)
		}
		n.FileK(j.From, filepath.Join(j.In, j.name(k)), j.Seed, uint64(k), j.size(k))
		sum, err := judge.Of(io.LimitReader(Content(j.Seed, uint64(k)), j.size(k)))
		n.must(err)
		j.sums[j.name(k)] = sum
		if j.Append {
			j.sent[j.name(k)] = sum
			sum, err = judge.Of(io.MultiReader(j.before(k), io.LimitReader(Content(j.Seed, uint64(k)), j.size(k))))
			n.must(err)
			j.sums[j.name(k)] = sum
		}
	}
	if j.Listed {
		j.list = filepath.Join(n.t.TempDir(), "list")
		n.must(os.WriteFile(j.list, []byte(strings.Join(slices.Sorted(maps.Keys(j.sums)), "\n")), 0o600))
	}
}

// stale makes the file at the destination that the job's k-th file replaces or is appended to.
func (n *Network) stale(j *Job, k int) judge.Sum {
	n.t.Helper()
	n.FileK(j.To, j.dest(k), j.Seed, uint64(j.Count+k), j.size(k)/2+1)
	sum, err := judge.Of(j.before(k))
	n.must(err)
	return sum
}

// before returns the content at the destination before the job's k-th file arrives.
func (j *Job) before(k int) io.Reader {
	return io.LimitReader(Content(j.Seed, uint64(j.Count+k)), j.size(k)/2+1)
}

// Begin makes a job's files and sends them, without waiting for the end.
func (n *Network) Begin(j *Job) *Sending {
	n.t.Helper()
	n.Make(j)
	return n.Resubmit(j)
}

// Resubmit sends a job after Make. The judge also gets the final state that its command reports.
func (n *Network) Resubmit(j *Job) *Sending {
	n.t.Helper()
	return n.ResubmitWith(nil, j)
}

// ResubmitWith is Resubmit with additions to the environment of the command.
func (n *Network) ResubmitWith(env []string, j *Job) *Sending {
	n.t.Helper()
	j.sending = n.AsyncWith(env, append([]string{"send", "--json"}, j.args()...)...)
	return j.sending
}

// Submit sends a job after Make, without waiting for its end.
func (n *Network) Submit(j *Job) {
	n.t.Helper()
	j.ID = n.Detach(j.args()...)
}

func (j *Job) args() []string {
	args := append([]string{"-r"}, j.Flags...)
	if j.Delete {
		args = append(args, "--delete-source")
	}
	if j.Archive {
		args = append(args, "--archive", "archive")
	}
	if j.Replace {
		args = append(args, "--if-exists", "overwrite")
	}
	if j.Append {
		args = append(args, "--if-exists", "append")
	}
	if j.Listed {
		return append(args, "--files-from", j.list, j.From+":"+j.In, j.To+":"+filepath.Join(j.Out, filepath.Base(j.In))+"/")
	}
	return append(args, j.From+":"+j.In, j.To+":"+j.Out+"/")
}

// End waits for any end of a job with a known ID, by asking coordination. It reports the state of the transfer if it
// does not end in time.
func (n *Network) End(j *Job, limit time.Duration) (state string, ended bool) {
	n.t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r := n.Ferry("transfer", "show", "--json", j.ID)
		var p Progress
		if r.Code == 0 && json.Unmarshal([]byte(r.Stdout), &p) == nil {
			state = p.State
			if p.Final() {
				return state, true
			}
			if p.Reason != nil {
				state += " (" + p.Reason.Text + ")"
			}
		}
		if time.Now().After(deadline) {
			return state, false
		}
		<-tick.C
	}
}

// Judge waits until jobs have ended and both sides have sent their last audit records, and asks the judge. change may
// add or remove facts before.
func (n *Network) Judge(change func(*judge.Facts), jobs ...*Job) {
	n.t.Helper()
	for _, v := range judge.Judge(n.Facts(change, jobs...)) {
		n.t.Errorf("%s", v)
	}
}

// Facts returns the facts for Judge.
func (n *Network) Facts(change func(*judge.Facts), jobs ...*Job) judge.Facts {
	n.t.Helper()
	return facts(n, n.settled, change, jobs...)
}

// FactsAtOnce returns the facts about jobs with the temporaries that are there. Facts would wait until they are removed.
func FactsAtOnce(n *Network, jobs ...*Job) judge.Facts {
	n.t.Helper()
	return facts(n, func(...string) {}, nil, jobs...)
}

func facts(n *Network, settled func(agents ...string), change func(*judge.Facts), jobs ...*Job) judge.Facts {
	n.t.Helper()
	f := judge.Facts{Source: map[string]judge.Sum{}, Destination: map[string]judge.Sum{}}
	seen := map[string]bool{}
	read := func(into map[string]judge.Sum, agent, dir string) {
		if seen[agent+":"+dir] {
			return
		}
		seen[agent+":"+dir] = true
		files, _, err := judge.Tree(n.Path(agent, dir))
		n.must(err)
		for name, sum := range files {
			into[agent+":"+filepath.Join(dir, name)] = sum
		}
	}
	for _, j := range jobs {
		state, ended := n.End(j, patience)
		if !ended {
			f.Unfinished = append(f.Unfinished, fmt.Sprintf("transfer %s is %s", j.ID, state))
			f.Transfers = append(f.Transfers, judge.Transfer{ID: j.ID, Want: j.Want, Together: j.together(), Items: j.items()})
			continue
		}
		t := n.transferFacts(j, state)
		if said, ok := n.said(j); !ok {
			f.Unfinished = append(f.Unfinished, fmt.Sprintf("ferry send has not ended, and transfer %s is %s", j.ID, state))
		} else if said != "" {
			t.Finals = append(t.Finals, said)
		}
		f.Transfers = append(f.Transfers, t)
	}
	for _, j := range jobs {
		if !seen[j.From] || !seen[j.To] {
			settled(j.From, j.To)
		}
		for _, a := range []string{j.From, j.To} {
			if !seen[a] {
				seen[a] = true
				for name := range n.Temporaries(a) {
					f.Temporaries = append(f.Temporaries, a+":"+strings.TrimPrefix(name, n.Root(a)))
				}
			}
		}
		read(f.Source, j.From, j.In)
		if j.Archive {
			read(f.Source, j.From, j.archive())
		}
		read(f.Destination, j.To, j.Out)
	}
	if r := n.Ferry("audit", "verify"); r.Code != 0 {
		f.Audit = append(f.Audit, strings.TrimSpace(r.Stdout+r.Stderr))
	}
	if change != nil {
		change(&f)
	}
	return f
}

// said returns the final state that the command of a job has reported, or "". ended is false if the command does not
// end.
func (n *Network) said(j *Job) (state string, ended bool) {
	n.t.Helper()
	if j.sending == nil {
		return "", true
	}
	select {
	case <-j.sending.ended:
	case <-time.After(patience):
		return "", false
	}
	p := Progress{State: j.sending.Wait().Summary.State}
	if !p.Final() {
		return "", true // it was killed, or does not know the state
	}
	return p.State, true
}

// settled waits until agents have removed their temporaries. The judge names those that are left.
func (n *Network) settled(agents ...string) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, a := range agents {
		for len(n.Temporaries(a)) > 0 && time.Now().Before(deadline) {
			<-tick.C
		}
	}
}

// archive returns the archive directory beneath the source's root.
func (j *Job) archive() string { return filepath.Join("archive", filepath.Base(j.In)) }

// together reports whether all files are to arrive, or none.
func (j *Job) together() bool { return slices.Contains(j.Flags, "--together") }

// items returns a job's files for the judge.
func (j *Job) items() (all []judge.Item) {
	for k := range j.Count {
		it := judge.Item{Source: j.From + ":" + filepath.Join(j.In, j.name(k)), Dest: j.To + ":" + j.dest(k),
			Sum: j.sums[j.name(k)], Delete: j.Delete}
		if j.Archive {
			it.Archive = j.From + ":" + filepath.Join(j.archive(), j.name(k))
		}
		if old, ok := j.old[j.name(k)]; ok {
			it.Replaces = &old
		}
		if sent, ok := j.sent[j.name(k)]; ok {
			it.Sent = &sent
		}
		all = append(all, it)
	}
	return all
}

// transferFacts reads the records of both sides about a job that has ended.
func (n *Network) transferFacts(j *Job, state string) judge.Transfer {
	n.t.Helper()
	t := judge.Transfer{ID: j.ID, Want: j.Want, Together: j.together(), Items: j.items(), Finals: []string{state}, Reported: map[string]bool{}, Committed: map[string]int{},
		Records: &[2]map[string]int{{}, {}}}
	for _, r := range n.records(j.ID) {
		side := 0
		if r.Role == "destination" {
			side = 1
		}
		if r.Event == "completed" && side == 0 {
			t.Finals = append(t.Finals, r.State)
		}
		if r.Event == "warning" || r.Event == "deleted" {
			continue // records after the verdict do not count, nor those about the sources
		}
		for _, o := range r.Items {
			if o.Type == "directory" {
				continue
			}
			name := j.To + ":" + strings.TrimPrefix(o.Path, n.Root(j.To)+"/")
			t.Records[side][name]++
			if side == 1 && o.Error == nil {
				t.Committed[name]++
			}
			if side == 0 {
				t.Reported[name] = o.Error == nil
			}
		}
	}
	return t
}

// records waits until coordination has the last record of both sides, or until a test has no patience left, and returns a transfer's records.
func (n *Network) records(id string) (all []Record) {
	n.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if r := n.Ferry("audit", "show", "--json", id); r.Code == 0 {
			all = each[Record](n, r)
			last := map[string]bool{}
			for _, rec := range all {
				if rec.Event == "completed" || rec.Event == "failed" || rec.Event == "cancelled" {
					last[rec.Role] = true
				}
			}
			if last["source"] && last["destination"] {
				return all
			}
		}
		if time.Now().After(deadline) {
			return all
		}
		<-tick.C
	}
}
