//go:build linux

// Package kill_test ends or stops the processes of a running network without notice. It kills them at the failpoints of
// the code and at random moments, and stops them for longer than the other processes' timeouts. Then it checks that
// every file has arrived once. make test-faults runs it.
package kill_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

func TestMain(m *testing.M) {
	lacking() // does not return in the program of withoutRenameat2
	os.Exit(campaign.Main(m))
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

const (
	source = "ALPHA"
	dest   = "BETA"
)

// A shape is a kind of work.
type shape struct {
	name string
	job  network.Job
}

// shapes are the four kinds of work that every fault meets. The large file has several checkpoints. The small files are
// more than one batch of the walk and several groups. The medium ones make new directories and delete their sources.
// The last ones replace other files.
var shapes = []shape{
	{"large", network.Job{Count: 1, Size: 60 * mib}},
	{"small", network.Job{Count: 1100, Size: 600}},
	{"deep", network.Job{Count: 12, Size: mib, Deep: true, Delete: true}},
	{"replace", network.Job{Count: 40, Size: 60 * kib, Replace: true}},
}

// together is a further kind: its files get their names together. After a kill at any point of the commit, in the end
// either all of them have their names or none.
var together = shape{"together", network.Job{Count: 60, Size: 100 * kib, Flags: []string{"--together"}}}

// records is a fifth kind, for the points that only record files meet: Ferry writes their attributes beside them.
// Records of one byte need no padding, so that the bytes equal those of the source.
var records = shape{"records", network.Job{Count: 40, Size: 60 * kib, Flags: []string{"--recfm", "FB", "--lrecl", "1"}}}

// listed is a sixth kind: a request that takes several messages.
var listed = shape{"listed", network.Job{Count: 2500, Size: 200, Listed: true}}

// archived is a seventh kind: sources that are moved once all have arrived, sent in an order.
var archived = shape{"archived", network.Job{Count: 12, Size: mib, Deep: true, Archive: true, Flags: []string{"--archive-when", "all", "--order", "-size"}}}

// appended is an eighth kind: files that are appended to others.
var appended = shape{"append", network.Job{Count: 40, Size: 60 * kib, Append: true}}

// stored is a ninth kind: the queue manager stores the data for a destination that may be away.
var stored = shape{"stored", network.Job{Count: 400, Size: 100 * kib, Flags: []string{"--delivery", "stored"}}}

// make returns a job of a shape, with files of their own seed, in directories that no other job of this test uses.
func (s shape) make(seed uint64, name string) *network.Job {
	j := s.job
	j.From, j.To, j.In, j.Out, j.Seed = source, dest, "in/"+name, "out/"+name, seed
	return &j
}

// up starts a network of the program with failpoints.
func up(t *testing.T, s network.Setup) *network.Network {
	t.Helper()
	s.Ferry = campaign.Tagged(t, "failpoint")
	if s.Agents == nil {
		s.Agents = []string{source, dest}
	}
	if s.Env == nil {
		s.Env = map[string][]string{}
	}
	return network.Up(t, s)
}

// moment waits for a random time up to limit, independent of the program's progress.
func moment(r *rand.Rand, limit time.Duration) {
	<-time.After(time.Duration(r.Int64N(int64(limit))))
}
