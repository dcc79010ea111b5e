//go:build linux

package link_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignMovedAddress changes the address of an agent's host during a transfer by the direct lane. The transfer
// resumes over a new path.
func TestCampaignMovedAddress(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "moved-address", What: "the address of source or destination changes in the middle of a transfer by the direct lane",
		Unit: "changes", Full: 20, Root: true, Tools: []string{"ip", "tc", "nsenter"}},
		func(t *testing.T, c *campaign.C) { c.Cases(t, moveAddress) })
}

func moveAddress(t *testing.T, seed uint64, r *rand.Rand) {
	s := &story{t: t, r: r, w: lay(t)}
	who := []string{destination, source}[seed%2]
	s.w.throttle(source, 30)
	s.n = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{source, destination}, Wrap: s.w.wrap(), Listen: s.w.listen(), Direct: "tls"})
	j := &network.Job{In: "in/large", Out: "out/large", Count: 1, Size: 60 * mib, From: source, To: destination, Seed: seed * 100, Flags: []string{"--lane", "direct"}}
	s.n.Make(j)
	s.jobs = []*network.Job{j}
	s.sent = []*network.Sending{s.n.Resubmit(j)}
	j.ID = s.sent[0].ID()
	s.n.Growing(destination, int64(1+r.IntN(20))*mib)
	p := s.w.ports[who]
	next := fmt.Sprintf("%s1", p.addr) // 10.201.N.3 becomes 10.201.N.31
	run(t, "ip -n "+p.name+" addr del "+p.addr+"/24 dev "+p.inside)
	run(t, "ip -n "+p.name+" addr add "+next+"/24 dev "+p.inside)
	changed := time.Now()
	moved, _ := s.moves()
	s.sent[0].WaitFor(toCross)
	s.n.Judge(nil, j)
	st := s.n.Status(j.ID)
	t.Logf("%s moved; it went on after %.1f s, ended after %.1f s; resumes %d, again %d KiB", who, moved.Seconds(), time.Since(changed).Seconds(), st.Resumes, st.BytesResent>>10)
	if st.Lane != "direct" {
		t.Errorf("it ended by the lane %s: %s", st.Lane, st.LaneReason)
	}
}
