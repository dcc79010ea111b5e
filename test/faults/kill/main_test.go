//go:build linux

// Package kill_test ends the processes of a running network in ways that they
// cannot answer: killed wherever a failpoint is named in the code, killed at
// any moment, stopped for longer than the others wait; and then looks whether
// every file has arrived once. It is run by make test-faults.
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
	lacking() // does not return where this is the program that lacks something
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

// shapes are the four kinds of work that every fault meets. The large file has
// several checkpoints; the small files are more than one batch of the walk and
// several groups; the medium ones make new directories and delete their
// sources; the last ones replace other files.
var shapes = []shape{
	{"large", network.Job{Count: 1, Size: 60 * mib}},
	{"small", network.Job{Count: 1100, Size: 600}},
	{"deep", network.Job{Count: 12, Size: mib, Deep: true, Delete: true}},
	{"replace", network.Job{Count: 40, Size: 60 * kib, Replace: true}},
}

// together is a further kind, whose files get their names together: a kill at any point of the
// commit leaves none of them with its name in the end, or all.
var together = shape{"together", network.Job{Count: 60, Size: 100 * kib, Flags: []string{"--together"}}}

// records is a fifth kind, for what only record files meet: their attributes come
// to lie beside them. Records of one byte need no padding: the bytes stay those of the
// source.
var records = shape{"records", network.Job{Count: 40, Size: 60 * kib, Flags: []string{"--recfm", "FB", "--lrecl", "1"}}}

// listed is a sixth kind: a request that takes several messages.
var listed = shape{"listed", network.Job{Count: 2500, Size: 200, Listed: true}}

// archived is a seventh kind: sources that are moved once all have arrived, sent in an order.
var archived = shape{"archived", network.Job{Count: 12, Size: mib, Deep: true, Archive: true, Flags: []string{"--archive-when", "all", "--order", "-size"}}}

// appended is an eighth kind: files that are put at the ends of others.
var appended = shape{"append", network.Job{Count: 40, Size: 60 * kib, Append: true}}

// stored is a ninth kind: what the queue manager keeps for a destination that may be away.
var stored = shape{"stored", network.Job{Count: 400, Size: 100 * kib, Flags: []string{"--delivery", "stored"}}}

// make gives a job of a shape, of files with a seed of their own, in directories
// that no other job of this test uses.
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

// moment waits for a random while of at most limit: what is asked for is an
// instant that nothing decides.
func moment(r *rand.Rand, limit time.Duration) {
	<-time.After(time.Duration(r.Int64N(int64(limit))))
}
