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

// An operation changes a store while its queue manager is stopped. It returns whether the change can be noticed. If
// not, no report is required.
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

// TestCampaignStoreSurgery changes the store during transfers.
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
	full   string   // the copy with all of GAMMA's commands, none of them taken
	queued []*network.Job
	gamma  bool // GAMMA has taken them by the time of the operation
	ended  bool // the queue manager ended in order before it
}

// surgery runs a case: transfers that have ended, run, are accepted or only submitted, then an operation, and the check
// of their results.
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
	if noticeable { // before new commands use the numbers that agents remember
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

// work brings transfers into the states before the operation, and copies the store meanwhile.
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

// newest waits until a transfer without a job is in a state, and returns its ID.
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

// noticed waits until the queue manager or an agent reports that the queue manager is degraded, with the reason.
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

// rollBack replaces the whole store, or only the library's part, by a copy. Running transfers were stored after the
// copy. If nothing else was stored since, waiting commands may store their requests again before any check. The numbers
// then equal those that agents remember, and only Ferry's own files beside the library's show the rollback.
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

// empty removes the whole store, the library's part, or one stream.
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

// flipped flips a bit: in a command that no agent has taken, in a stream's description, or anywhere. After a kill the
// end of a stream may legitimately be torn. Requests lost there are submitted again, perhaps before any check.
func (o *operating) flipped() bool {
	switch k := o.r.IntN(3); {
	case k == 0 && !o.gamma:
		// The ID is text in the request; the bit is in the text after it.
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

// truncated cuts a file: a stream's description, the block of the audit batches, which ALPHA knows to be stored, or
// any.
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

// behind sets the readers of commands back to the beginning or to a position between. In half of the cases it also
// restores the messages that they had read. A process that remembers a later position notices that. After a kill there
// may be none: the last message was taken, and the queue manager's memory is some seconds old.
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

// ahead sets the readers of commands ahead of all messages ever stored, or sets the stream back behind its readers.
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
