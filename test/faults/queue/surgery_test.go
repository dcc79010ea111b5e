//go:build linux

package queue_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

const (
	command = "FERRY_COMMAND"
	control = "FERRY_CONTROL"
	event   = "FERRY_EVENT"
)

// An operation changes a store behind its queue manager's back. It reports
// whether what it did can be noticed by anybody: where it cannot, nothing need
// be said.
type operation struct {
	name string
	do   func(*operating) (noticeable bool)
}

var operations = []operation{
	{"rolled back", (*operating).rollBack},
	{"emptied", (*operating).empty},
	{"bit flipped", (*operating).flipped},
	{"truncated", (*operating).truncated},
	{"reader behind", (*operating).behind},
	{"reader ahead", (*operating).ahead},
}

// TestCampaignStoreSurgery operates on the store in the middle of work.
func TestCampaignStoreSurgery(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "store-surgery", Unit: "repairs", Full: 10 * len(operations), Short: 3,
		What: "the queue manager's store is rolled back, emptied, bit-flipped, truncated, its readers are put back and ahead"},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) { surgery(t, seed, r) })
		})
}

// An operating is one case.
type operating struct {
	*network.Network
	t      *testing.T
	r      *rand.Rand
	store  store
	copies []string // of the store, at moments of the case, oldest first
	full   string   // the one in which GAMMA's commands are, none of them taken
	queued []*network.Job
	gamma  bool // GAMMA has taken them by the time of the operation
	ended  bool // the queue manager ended in order before it
}

// surgery runs a case: transfers that have ended, run, are accepted and are only
// submitted, an operation, and what must come of them all.
func surgery(t *testing.T, seed uint64, r *rand.Rand) {
	op := operations[seed%uint64(len(operations))]
	o := &operating{t: t, r: r, gamma: r.IntN(2) == 0, Network: network.Up(t, network.Setup{Shape: network.ShapeHub,
		Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA", "GAMMA"}})}
	o.store = store{t, r, o.Store()}
	jobs, sendings := o.work(seed)
	if o.ended = r.IntN(3) == 0; o.ended {
		o.Stop(network.QM)
	} else {
		o.Kill(network.QM)
	}
	noticeable := op.do(o)
	t.Logf("%s; GAMMA had taken its commands: %v; to be noticed: %v", op.name, o.gamma, noticeable)
	if o.Start(network.QM); !o.gamma {
		o.Start("GAMMA")
	}
	if noticeable { // before new commands give the store back the numbers that somebody remembers
		o.noticed()
	}
	later := &network.Job{From: "GAMMA", To: "ALPHA", In: "later", Out: "later", Seed: seed + 1000, Count: 5, Size: 10_000}
	jobs, sendings = append(jobs, later), append(sendings, o.Begin(later))
	for i, s := range sendings {
		jobs[i].ID = s.ID()
		s.Wait().Ends("successful", 0)
	}
	o.Judge(nil, jobs...)
}

// work brings transfers to where the operation is to find them, and copies the
// store on the way.
func (o *operating) work(seed uint64) (jobs []*network.Job, sendings []*network.Sending) {
	begin := func(j *network.Job) *network.Sending {
		j.Seed = seed + uint64(len(jobs))
		s := o.Begin(j)
		jobs, sendings = append(jobs, j), append(sendings, s)
		return s
	}
	o.copy()
	ended := begin(&network.Job{From: "ALPHA", To: "BETA", In: "ended", Out: "b1", Count: 10, Size: 5000, Delete: o.r.IntN(2) == 0})
	ended.Wait().Ends("successful", 0)
	o.copy()
	o.Stop("GAMMA")
	accepted := begin(&network.Job{From: "ALPHA", To: "GAMMA", In: "accepted", Out: "g1", Count: 10, Size: 5000})
	o.WaitState(accepted.ID(), "waiting", "negotiating")
	o.copy()
	wire := o.Wire()
	for i := range 4 {
		j := &network.Job{From: "GAMMA", To: "BETA", In: fmt.Sprint("queued", i), Out: fmt.Sprint("b2", i), Count: 3, Size: 5000}
		begin(j)
		j.ID = o.newest("queued")
		o.queued = append(o.queued, j)
	}
	o.Until("the commands for GAMMA are stored", func() bool { n, _ := wire.Stored(command); return n >= 4 })
	o.full = o.copy()
	if o.gamma {
		o.Start("GAMMA")
		for _, j := range o.queued {
			o.WaitState(j.ID, "accepted", "negotiating", "running", "successful")
		}
		o.copy()
	}
	begin(&network.Job{From: "ALPHA", To: "BETA", In: "running", Out: "b3", Count: 2, Size: 64 << 20})
	o.Growing("BETA", 1<<20+o.r.Int64N(30<<20))
	return jobs, sendings
}

// newest waits until a transfer that no job has is in a state, and is its ID.
func (o *operating) newest(state string) (id string) {
	o.t.Helper()
	o.UntilEvery("a new transfer is "+state, 50*time.Millisecond, func() bool {
		for _, p := range o.Transfers() {
			if p.State == state && !slices.ContainsFunc(o.queued, func(j *network.Job) bool { return j.ID == p.ID }) {
				id = p.ID
				return true
			}
		}
		return false
	})
	return id
}

func (o *operating) copy() string {
	c := o.Frozen(network.QM, o.Store())
	o.copies = append(o.copies, c)
	return c
}

// noticed waits until the queue manager or an agent says that it is degraded,
// and why.
func (o *operating) noticed() {
	o.t.Helper()
	o.Until("somebody says that the queue manager is degraded", func() bool {
		manager, agents := o.Degraded()
		for name, reason := range agents {
			if !strings.Contains(reason, "queue manager") {
				o.t.Fatalf("%s is degraded, and its reason is %q", name, reason)
			}
		}
		if manager != "" || len(agents) > 0 {
			o.t.Logf("degraded: %q, %v", manager, agents)
		}
		return manager != "" || len(agents) > 0
	})
}

// rollBack puts the whole store, or only what is the library's, back to a copy.
// What is running has been stored since. Where it is all that has been, and whoever waits
// stores his request again at once, the numbers may be those that somebody remembers before
// anybody looks; only what lies beside the library's files tells then.
func (o *operating) rollBack() bool {
	which := o.r.IntN(len(o.copies))
	whole := o.r.IntN(2) == 0
	if whole {
		must(o.t, os.RemoveAll(o.store.dir))
		must(o.t, os.CopyFS(o.store.dir, os.DirFS(o.copies[which])))
	} else {
		o.store.replace(o.copies[which], "jetstream")
	}
	o.t.Logf("copy %d of %d, whole: %v", which, len(o.copies), whole)
	return !whole || which < len(o.copies)-1
}

// empty removes the whole store, what is the library's, or one stream.
func (o *operating) empty() bool {
	switch o.r.IntN(3) {
	case 0:
		must(o.t, os.RemoveAll(o.store.dir))
	case 1:
		must(o.t, os.RemoveAll(filepath.Join(o.store.dir, "jetstream")))
	default:
		must(o.t, os.RemoveAll(filepath.Join(o.store.dir, o.store.streams(), []string{command, event}[o.r.IntN(2)])))
	}
	return true
}

// flipped flips a bit: in a command that nobody has taken, in a stream's
// description, or anywhere. After a kill the end of a stream may rightly be torn;
// what is lost there is submitted again, and may be so before anybody looks.
func (o *operating) flipped() bool {
	switch k := o.r.IntN(3); {
	case k == 0 && !o.gamma:
		// The ID is in text in the request; the bit is in the text behind it.
		name, at := o.store.holding(command, o.queued[o.r.IntN(len(o.queued))].ID)
		if at >= 0 {
			at += o.r.IntN(60)
		}
		o.store.flip(name, at)
		return o.ended
	case k < 2:
		o.store.flip(o.store.pick("*/meta.*"), -1)
		return true
	}
	o.store.flip(o.store.any(), -1)
	return false
}

// truncated cuts a file: a stream's description, the block of the audit's
// batches, which ALPHA knows to have stored, or any.
func (o *operating) truncated() bool {
	switch o.r.IntN(3) {
	case 0:
		o.store.cut(o.store.pick("*/meta.*"))
		return true
	case 1:
		o.store.cut(o.store.pick(event + "/msgs/*.blk"))
		return o.ended
	}
	o.store.cut(o.store.any())
	return false
}

// behind puts the readers of commands back, to where they have read nothing or
// somewhere between, in half of the cases together with all that they have read.
// That is noticed by who remembers more; after a kill nobody may: what came last
// was taken, and what the queue manager remembers is some seconds old.
func (o *operating) behind() bool {
	back := o.r.IntN(2) == 0
	if back {
		o.store.replace(o.full, filepath.Join(o.store.streams(), command))
	}
	for _, name := range o.store.readers(command) {
		if p := o.store.position(name); o.r.IntN(2) == 0 {
			o.store.stand(name, position{})
		} else {
			k := o.r.Uint64N(p.ackStream + 1)
			o.store.stand(name, position{min(p.ackConsumer, k), k, min(p.ackConsumer, k), k})
		}
	}
	return back && o.ended
}

// ahead puts the readers of commands ahead of all that was ever stored, or the
// stream behind its readers.
func (o *operating) ahead() bool {
	if o.r.IntN(2) == 0 {
		o.store.replace(o.copies[1], filepath.Join(o.store.streams(), command, "msgs"))
		return true
	}
	for _, name := range o.store.readers(command) {
		p, far := o.store.position(name), 100+o.r.Uint64N(10_000)
		o.store.stand(name, position{p.ackConsumer + far, p.ackStream + far, p.consumer + far, p.stream + far})
	}
	return true
}
