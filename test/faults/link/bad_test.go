//go:build linux

package link_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignNetworkBad sends over slow links that lose packets. Transfers take long, and end.
func TestCampaignNetworkBad(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "network-bad", What: "the links carry 8 Mbit/s, and those of source and destination lose 1 to 10 in a hundred packets each way",
		Unit: "transfers", Full: 30, Root: true, Tools: []string{"ip", "tc", "nsenter"}},
		func(t *testing.T, c *campaign.C) { c.Cases(t, overBadLines) })
}

func overBadLines(t *testing.T, seed uint64, r *rand.Rand) {
	s := &story{t: t, r: r, w: lay(t)}
	percent := 1 + r.IntN(10)
	for _, who := range []string{network.QM, source, destination} {
		s.w.throttle(who, 8)
	}
	s.w.lose(percent, source, destination) // commands reach the queue manager over its own link
	s.n = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{source, destination}, Wrap: s.w.wrap(), Listen: s.w.listen()})
	shapes := []network.Job{
		{In: "in/large", Out: "out/large", Count: 1, Size: int64(4+r.IntN(12)) * mib},
		{In: "in/small", Out: "out/small", Count: 300, Size: int64(r.IntN(16 << 10))},
		{In: "in/moved", Out: "out/moved", Count: 40, Size: int64(r.IntN(200 << 10)), Delete: true, Deep: true},
	}
	j := &shapes[r.IntN(len(shapes))]
	j.From, j.To, j.Seed = source, destination, seed*100
	s.n.Make(j)
	s.jobs = []*network.Job{j}
	observer := s.n.Observe(destination, "out", j)
	x := s.n.Resubmit(j)
	s.sent = append(s.sent, x)
	j.ID = x.ID()
	x.WaitFor(toCross)
	s.n.Judge(observer.Tell, j)
	p := s.n.Status(j.ID)
	lost := s.w.lost(source, destination)
	if lost == 0 {
		t.Error("no packet was lost")
	}
	t.Logf("%d%% lost, %d packets; %s %d x %d, resumes %d, again %d KiB", percent, lost, j.In, j.Count, j.Size, p.Resumes, p.BytesResent>>10)
}

// lose makes links lose a percentage of packets, in both directions.
func (w *wires) lose(percent int, whose ...string) {
	w.t.Helper()
	sink := w.bridge + "s"
	run(w.t, "ip link add "+sink+" type veth peer name "+sink+"x") // both stay down: packets sent there are lost
	w.t.Cleanup(func() { command("ip link del " + sink) })
	for _, who := range whose {
		p := w.ports[who]
		for _, where := range []struct{ tc, device string }{{"tc", p.outside}, {"tc -n " + p.name, p.inside}} {
			if where.tc != "tc" { // a redirection needs a device of the same name space
				run(w.t, "ip -n "+p.name+" link add "+sink+" type veth peer name "+sink+"x")
			}
			run(w.t, where.tc+" qdisc add dev "+where.device+" ingress")
			w.redirect(where.tc, where.device, sink, percent)
		}
	}
}

// lost returns the number of packets that links have lost so far.
func (w *wires) lost(whose ...string) (count int) {
	w.t.Helper()
	for _, who := range whose {
		p := w.ports[who]
		for _, line := range []string{"tc -s filter show dev " + p.outside, "tc -n " + p.name + " -s filter show dev " + p.inside} {
			for _, m := range sentPackets.FindAllStringSubmatch(run(w.t, line+" parent ffff:"), -1) {
				n, err := strconv.Atoi(m[1])
				must(w.t, err)
				count += n
			}
		}
	}
	return count
}

// sentPackets matches the number of redirected packets in the output of tc.
var sentPackets = regexp.MustCompile(`Sent \d+ bytes (\d+) pkt`)

// redirect sends a percentage of the packets that come in at a device to another device. A classic BPF program draws a
// random number for each packet.
func (w *wires) redirect(tc, device, to string, percent int) {
	w.t.Helper()
	const draw = 1<<32 - 4096 + 56 // the extension of the load instruction that gives a random number
	program := fmt.Sprintf("4,32 0 0 %d,53 0 1 %d,6 0 0 0,6 0 0 1", draw, uint64(percent)<<32/100)
	line := fmt.Sprintf("%s filter add dev %s parent ffff: protocol all bpf bytecode", tc, device)
	run(w.t, line, program, "flowid", "1:1", "action", "mirred", "egress", "redirect", "dev", to)
}
