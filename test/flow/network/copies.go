//go:build linux

package network

import (
	"path/filepath"
	"syscall"

	"ferry/test/judge"
)

// A Copy is one file of a job, by its two names on this host.
type Copy struct {
	Source, Dest string
	Sum          judge.Sum
	Old          *judge.Sum // the file at Dest before; nil: none
}

// Copies returns the files of a job that Make has made.
func (n *Network) Copies(j *Job) (all []Copy) {
	n.t.Helper()
	for k := range j.Count {
		c := Copy{Source: n.Path(j.From, filepath.Join(j.In, j.name(k))), Dest: n.Path(j.To, j.dest(k)), Sum: j.sums[j.name(k)]}
		if old, ok := j.old[j.name(k)]; ok {
			c.Old = &old
		}
		all = append(all, c)
	}
	return all
}

// Hand sends a job with --detach, after Make, and does not wait for the receipt. Once the request is accepted, no
// command submits it again.
func (n *Network) Hand(j *Job) *Sending {
	n.t.Helper()
	return n.Async(append([]string{"send", "--json", "--detach"}, j.args()...)...)
}

// Records returns the audit records of a transfer that both sides have ended.
func (n *Network) Records(id string) []Record {
	n.t.Helper()
	return n.records(id)
}

// Abort ends a command that should have ended by itself, and returns the stacks of its goroutines.
func (s *Sending) Abort() string {
	s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.ended
	return s.Errors()
}
