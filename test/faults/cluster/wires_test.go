//go:build linux

package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ferry/test/faults/image"
	"ferry/test/flow/network"
)

// A wires gives each member of a cluster a network of its own with two interfaces. Agents and commands, which are on
// the host, use one of them. The other one is for routes and can be taken down.
type wires struct {
	t       *testing.T
	members []network.Member
	wrap    map[string][]string
	routes  []string       // the hosts' ends of the interfaces for routes
	disks   []*image.Image // of the members
}

func command(line string) ([]byte, error) {
	f := strings.Fields(line)
	return exec.Command(f[0], f[1:]...).CombinedOutput()
}

func run(t *testing.T, line string) {
	t.Helper()
	if out, err := command(line); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// own finds a number that no other test on this host uses.
func own(t *testing.T) int {
	t.Helper()
	for number := 1; number < 250; number++ {
		l, err := net.Listen("unix", fmt.Sprintf("@ferry-cluster-%d", number)) // closed at the end of the process
		if err == nil {
			t.Cleanup(func() { l.Close() })
			return number
		}
	}
	t.Fatal("250 tests have wires on this host")
	return 0
}

// lay sets the networks up until the test ends.
func lay(t *testing.T, members int) *wires {
	t.Helper()
	number := own(t)
	w := &wires{t: t, wrap: map[string][]string{}}
	nets := []struct{ bridge, prefix string }{{fmt.Sprintf("fca%d", number), fmt.Sprintf("10.203.%d.", number)}, {fmt.Sprintf("fcr%d", number), fmt.Sprintf("10.204.%d.", number)}}
	for _, n := range nets {
		command("ip link del " + n.bridge) // from a run that was killed, as the name spaces below
		run(t, "ip link add "+n.bridge+" type bridge")
		t.Cleanup(func() { command("ip link del " + n.bridge) })
		run(t, "ip link set "+n.bridge+" up")
	}
	run(t, "ip addr add "+nets[0].prefix+"1/24 dev "+nets[0].bridge)
	for k := range members {
		space := fmt.Sprintf("ferry-c%d-%d", number, k)
		command("ip netns del " + space)
		run(t, "ip netns add "+space)
		t.Cleanup(func() { command("ip netns del " + space) })
		run(t, "ip -n "+space+" link set lo up")
		for c, n := range nets {
			outside, inside := fmt.Sprintf("fco%d%c%d", number, 'a'+k, c), fmt.Sprintf("fci%d%c%d", number, 'a'+k, c)
			run(t, "ip link add "+outside+" type veth peer name "+inside+" netns "+space)
			t.Cleanup(func() { command("ip link del " + outside) })
			run(t, "ip link set "+outside+" master "+n.bridge)
			run(t, "ip link set "+outside+" up")
			run(t, fmt.Sprintf("ip -n %s addr add %s%d/24 dev %s", space, n.prefix, 2+k, inside))
			run(t, "ip -n "+space+" link set "+inside+" up")
			if c == 1 {
				w.routes = append(w.routes, outside)
			}
		}
		w.members = append(w.members, network.Member{Listen: fmt.Sprintf("%s%d:4222", nets[0].prefix, 2+k), Routes: fmt.Sprintf("%s%d:6222", nets[1].prefix, 2+k)})
		w.wrap[network.MemberName(k)] = []string{"nsenter", "--net=/run/netns/" + space}
	}
	return w
}

// pull takes down a member's interface for routes; plug brings it up.
func (w *wires) pull(k int) { w.t.Helper(); run(w.t, "ip link set "+w.routes[k]+" down") }
func (w *wires) plug(k int) { w.t.Helper(); run(w.t, "ip link set "+w.routes[k]+" up") }

// states gives each member a disk of its own for its state.
func (w *wires) states(r *rand.Rand) map[string]string {
	w.t.Helper()
	dirs := map[string]string{}
	for k := range w.members {
		im := image.New(w.t, network.MemberName(k), image.Options(r))
		w.disks = append(w.disks, im)
		dirs[network.MemberName(k)] = filepath.Join(im.Dir, "state")
	}
	return dirs
}

// blackout cuts the power of members at the same moment, and mounts the remains of their disks.
func (w *wires) blackout(n *network.Network, members ...int) {
	w.t.Helper()
	for _, k := range members {
		n.Freeze(network.MemberName(k))
	}
	for _, k := range members {
		w.disks[k].Cut()
	}
	for _, k := range members {
		n.Kill(network.MemberName(k))
		w.disks[k].Remount()
	}
}
