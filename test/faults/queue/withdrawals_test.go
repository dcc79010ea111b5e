//go:build linux

package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	msg "ferry/internal/wire"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// roundsPerCase is the maximum number of rounds of a network of these campaigns.
const roundsPerCase = 5

// rounds runs a campaign with rounds as its unit. A network serves several rounds, and several cases run at once.
func rounds(t *testing.T, c *campaign.C, name string, atOnce int, one func(*testing.T, uint64, *rand.Rand, int)) {
	for seed, done := c.Seed, 0; done < c.Count; {
		begun := done
		if !t.Run("from", func(t *testing.T) {
			for range atOnce {
				n, this := min(roundsPerCase, c.Count-begun), seed
				if n == 0 {
					break
				}
				t.Run(fmt.Sprint(this), func(t *testing.T) {
					t.Parallel()
					one(t, this, campaign.Rand(this), n)
					if t.Failed() {
						t.Logf("this case again: make test-faults CAMPAIGN=%s SEED=%d COUNT=%d", name, this, n)
					}
				})
				begun, seed = begun+n, seed+1
			}
		}) {
			return
		}
		c.Add(begun - done)
		done = begun
	}
}

// TestCampaignWithdrawals withdraws requests before their agent has them, with kills of all processes. A request
// reported as withdrawn or cancelled never runs.
func TestCampaignWithdrawals(t *testing.T) {
	const name = "withdrawals"
	campaign.Run(t, campaign.Spec{Name: name, Unit: "rounds", Full: 200, Short: 3,
		What: "requests are given up by their submitters or cancelled while they are queued; agent, queue manager and submitters are killed, withdrawals lost"},
		func(t *testing.T, c *campaign.C) {
			rounds(t, c, name, 3, func(t *testing.T, seed uint64, r *rand.Rand, n int) {
				w := &withdrawing{t: t, r: r, Network: network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"}})}
				w.File("ALPHA", "a", seed, 3000)
				for k := range n {
					w.round(k, int(seed)*roundsPerCase+k)
				}
			})
		})
}

// A withdrawing is one case.
type withdrawing struct {
	*network.Network
	t   *testing.T
	r   *rand.Rand
	all []*asked
}

// An asked is one request, with its command.
type asked struct {
	*network.Sending
	dest     string
	patient  bool // it waits for ever: the request must run
	detached bool
	killed   bool
	cancel   bool // it is cancelled while the agent is away
}

// The ways of a round.
const (
	byTime   = iota // submitters give up while the agent stops and starts
	byCancel        // requests are cancelled while the agent is away
	lost            // submitters give up, and their withdrawals are lost
	ways
)

func (w *withdrawing) round(k, serial int) {
	way := serial % ways
	w.all = nil
	if w.r.IntN(2) == 0 {
		w.Kill("ALPHA")
	} else {
		w.Stop("ALPHA")
	}
	for i := range 12 {
		w.ask(fmt.Sprintf("out%d/%d", k, i), way)
	}
	w.wait(way)
	if way == byCancel {
		w.cancel()
	}
	if way == lost {
		w.Wire().Drop(control, "ferry.control.>")
	}
	if !w.Running("ALPHA") {
		w.Start("ALPHA")
	}
	for range w.r.IntN(3) {
		w.shake(way != lost)
	}
	w.judge(k, w.over())
}

// ask submits a request.
func (w *withdrawing) ask(dest string, way int) {
	a := &asked{dest: dest}
	args := []string{"ALPHA:a", "BETA:" + dest}
	switch x := w.r.IntN(8); {
	case way == byCancel && x > 0:
		a.detached, a.cancel = true, true
		args = append(args, "--detach")
	case x == 0:
		a.patient = true
		args = append(args, "--recovery-timeout", "-1")
	default:
		a.killed = x == 1
		args = append(args, "--recovery-timeout", fmt.Sprintf("%dms", 3000+w.r.IntN(3500)))
	}
	a.Sending = w.SendAsync(args...)
	w.all = append(w.all, a)
}

// wait waits for the end of the commands that can end without the agent, and kills random ones meanwhile.
func (w *withdrawing) wait(way int) {
	w.t.Helper()
	manager := w.r.IntN(2) == 0 // it is killed, too: then a withdrawal is less certain
	tick := time.NewTicker(time.Duration(300+w.r.IntN(900)) * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(w.all, func(a *asked) bool { return !a.patient && a.Running() }) {
		<-tick.C
		if k := slices.IndexFunc(w.all, func(a *asked) bool { return a.killed && a.Running() }); k >= 0 {
			w.all[k].Kill()
		}
		if w.r.IntN(2) > 0 {
			continue
		}
		if way == byTime && w.r.IntN(2) == 0 {
			if w.Running("ALPHA") {
				w.Kill("ALPHA")
			} else {
				w.Launch("ALPHA")
			}
		} else if manager && w.r.IntN(2) == 0 {
			w.Kill(network.QM)
			w.Start(network.QM)
		}
	}
}

// cancel cancels the requests of other submitters. The cancels follow other commands, which keep their reader busy when
// the agent starts.
func (w *withdrawing) cancel() {
	w.t.Helper()
	who, wire := client.Me(), w.Wire()
	for range 100 {
		c := msg.Control{V: msg.Version, ID: transfer.NewID(time.Now()), Kind: msg.ControlCancel, Body: msg.Marshal(msg.OfTransfer{Transfer: transfer.NewID(time.Now())}), Originator: who}
		wire.Enqueue(msg.ControlSubject("ALPHA", msg.Manager), "", w.Signed(word.Control, "ALPHA", c.ID, msg.Marshal(c)))
	}
	var cancels []*network.Sending
	for _, a := range w.all {
		if a.cancel {
			cancels = append(cancels, w.Async("transfer", "cancel", "--timeout", "10s", "--agent", "ALPHA", a.ID()))
		}
	}
	for _, c := range cancels {
		if r := c.Wait(); r.Code != 2 || !strings.Contains(r.Stderr, "it gets the command when it is there") {
			w.t.Fatalf("a cancel at an agent that is away ends with %d: %s", r.Code, r.Stderr)
		}
	}
}

// shake kills the agent or the queue manager and restarts it.
func (w *withdrawing) shake(manager bool) {
	who := []string{"ALPHA", network.QM}[w.r.IntN(2)]
	if !manager {
		who = "ALPHA"
	}
	w.Kill(who)
	w.Start(who)
}

// over waits until no request is queued, no transfer runs, and all withdrawals and cancels are recorded.
func (w *withdrawing) over() (state map[string]string) {
	w.t.Helper()
	for _, a := range w.all {
		if a.patient {
			a.Wait().Ends("successful", 0)
		}
	}
	wire := w.Wire()
	w.Until("every command is taken", func() bool { n, _ := wire.Stored(command); return n == 0 })
	w.UntilEvery("every transfer is over and on record", 50*time.Millisecond, func() bool {
		state = map[string]string{}
		for _, p := range w.Transfers() {
			if !slices.Contains([]string{"successful", "failed", "cancelled", "withdrawn"}, p.State) {
				return false
			}
			state[p.ID] = p.State
		}
		return !slices.ContainsFunc(w.all, func(a *asked) bool {
			r := a.Wait()
			return (a.cancel || withdrawn(r)) && state[idOf(r, a)] == ""
		})
	})
	return state
}

// withdrawn reports whether a command has reported the withdrawal of its request.
func withdrawn(r network.Result) bool {
	return r.Code == 69 && strings.Contains(r.Stderr, "it is withdrawn")
}

// judge compares the reports with the arrived files.
func (w *withdrawing) judge(k int, state map[string]string) {
	w.t.Helper()
	said := map[string]int{}
	for _, a := range w.all {
		r := a.Wait()
		arrived, s := w.Exists("BETA", a.dest), state[idOf(r, a)]
		switch {
		case a.cancel:
			said["cancelled"]++
			if arrived || s != "cancelled" {
				w.t.Errorf("round %d: what was cancelled while it was queued is %s, its file has arrived: %v\n%s", k, s, arrived, r.Stderr)
			}
		case withdrawn(r):
			said["withdrawn"]++
			if arrived || s != "withdrawn" && s != "cancelled" {
				w.t.Errorf("round %d: what was said to be withdrawn is %s, its file has arrived: %v\n%s", k, s, arrived, r.Stderr)
			}
		case r.Code == 0:
			said["successful"]++
			if !arrived {
				w.t.Errorf("round %d: what was said to be successful is %s, and no file has arrived", k, s)
			}
		default:
			said["open"]++
		}
	}
	w.t.Logf("round %d: %v", k, said)
}

// idOf returns the ID of a command's transfer, which an error names.
func idOf(r network.Result, a *asked) string {
	if id := a.Last().ID; id != "" {
		return id
	}
	if _, rest, ok := strings.Cut(r.Stderr, " transfer "); ok {
		id, _, _ := strings.Cut(rest, " ")
		return id
	}
	return ""
}
