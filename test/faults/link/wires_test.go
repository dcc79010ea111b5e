//go:build linux

package link_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"ferry/test/flow/network"
)

const (
	source      = "ALPHA"
	destination = "BETA"
)

// A wires has name spaces with a link each to one bridge of the host.
type wires struct {
	t      *testing.T
	bridge string
	ports  map[string]*port
}

// A port is one process's end of its link.
type port struct {
	name    string // of the name space, and of the process in it
	outside string // the link's end on the bridge
	inside  string // its end in the name space
	addr    string
	rate    string // of sent data: the words of a tbf; "": no limit
}

// own returns a number that no other process of this host has at the moment.
func own(t *testing.T) int {
	t.Helper()
	for number := range 250 {
		l, err := net.Listen("unix", fmt.Sprintf("@ferry-wires-%d", number))
		if err == nil {
			t.Cleanup(func() { l.Close() })
			return number
		}
	}
	t.Fatal("250 tests have wires on this host")
	return 0
}

// lay sets the links up until the test ends. Their names and addresses belong to this process of the host.
func lay(t *testing.T) *wires {
	t.Helper()
	number := own(t)
	bridge := fmt.Sprintf("fyb%d", number)
	command("ip link del " + bridge) // from a run that was killed, as the name spaces below
	w := &wires{t: t, bridge: bridge, ports: map[string]*port{}}
	run(t, "ip link add "+bridge+" type bridge")
	t.Cleanup(func() { command("ip link del " + bridge) })
	run(t, fmt.Sprintf("ip addr add 10.201.%d.1/24 dev %s", number, bridge))
	run(t, "ip link set "+bridge+" up")
	for k, who := range []string{network.QM, source, destination} {
		p := &port{name: fmt.Sprintf("ferry-%d-%s", number, who), outside: fmt.Sprintf("fyo%d%c", number, 'a'+k),
			inside: fmt.Sprintf("fyi%d%c", number, 'a'+k), addr: fmt.Sprintf("10.201.%d.%d", number, 2+k)}
		w.ports[who] = p
		command("ip link del " + p.outside) // a deleted name space removes its links only later
		command("ip netns del " + p.name)
		run(t, "ip netns add "+p.name)
		t.Cleanup(func() { command("ip netns del " + p.name) })
		run(t, "ip link add "+p.outside+" type veth peer name "+p.inside+" netns "+p.name)
		t.Cleanup(func() { command("ip link del " + p.outside) })
		w.join(p)
		run(t, "ip -n "+p.name+" link set lo up")
	}
	return w
}

// join attaches the ends of a link.
func (w *wires) join(p *port) {
	w.t.Helper()
	run(w.t, "ip link set "+p.outside+" master "+w.bridge)
	run(w.t, "ip link set "+p.outside+" up")
	run(w.t, "ip -n "+p.name+" addr add "+p.addr+"/24 dev "+p.inside)
	run(w.t, "ip -n "+p.name+" link set "+p.inside+" up")
}

// wrap returns the commands that start processes in their name spaces. It does not use ip netns exec, which would keep
// every file system busy that is mounted on the host at the moment.
func (w *wires) wrap() map[string][]string {
	all := map[string][]string{}
	for who, p := range w.ports {
		all[who] = strings.Fields(p.enter())
	}
	return all
}

// wrapBeside is wrap for a network with a queue manager beside each agent.
func (w *wires) wrapBeside() map[string][]string {
	all := w.wrap()
	for _, who := range []string{source, destination} {
		all[network.QM+"-"+who] = all[who]
	}
	return all
}

// enter returns the command that runs another one in a port's name space.
func (p *port) enter() string { return "nsenter --net=/run/netns/" + p.name }

// listen returns the address of the queue manager.
func (w *wires) listen() string { return w.ports[network.QM].addr + ":4222" }

// throttle limits the sending rate of a process, in Mbit/s.
func (w *wires) throttle(who string, mibits int) {
	w.t.Helper()
	p := w.ports[who]
	p.rate = fmt.Sprintf("tbf rate %dmbit burst 256kb latency 100ms", mibits)
	run(w.t, "tc -n "+p.name+" qdisc replace dev "+p.inside+" root "+p.rate)
}

// A cut is one way of breaking a link and restoring it.
type cut struct {
	what  string
	cut   func(w *wires, p *port)
	mend  func(w *wires, p *port)
	burst bool // it is over at once, and done several times
}

// cuts are all ways. A process finds no carrier, no route, lost packets, failing calls, reset connections, or a link
// that works in one direction only.
var cuts = []cut{
	{what: "link down", cut: func(w *wires, p *port) { run(w.t, "ip link set "+p.outside+" down") },
		mend: func(w *wires, p *port) { run(w.t, "ip link set "+p.outside+" up") }},
	{what: "interface down", cut: func(w *wires, p *port) { run(w.t, "ip -n "+p.name+" link set "+p.inside+" down") },
		mend: func(w *wires, p *port) { run(w.t, "ip -n "+p.name+" link set "+p.inside+" up") }},
	{what: "black hole", cut: func(w *wires, p *port) { run(w.t, "bridge link set dev "+p.outside+" state 0") },
		mend: func(w *wires, p *port) { run(w.t, "bridge link set dev "+p.outside+" state 3") }},
	{what: "black hole route", cut: func(w *wires, p *port) { run(w.t, "ip -n "+p.name+" route add blackhole "+w.ports[network.QM].addr) },
		mend: func(w *wires, p *port) { run(w.t, "ip -n "+p.name+" route del blackhole "+w.ports[network.QM].addr) }},
	{what: "reset", burst: true, cut: func(w *wires, p *port) { run(w.t, p.enter()+" ss -K dst "+w.ports[network.QM].addr) },
		mend: func(*wires, *port) {}},
	{what: "deaf", cut: func(w *wires, p *port) { run(w.t, "tc qdisc replace dev "+p.outside+" root pfifo limit 0") },
		mend: func(w *wires, p *port) { run(w.t, "tc qdisc del dev "+p.outside+" root") }},
	{what: "mute", cut: func(w *wires, p *port) {
		run(w.t, "tc -n "+p.name+" qdisc replace dev "+p.inside+" root pfifo limit 0")
	},
		mend: func(w *wires, p *port) {
			if p.rate == "" {
				run(w.t, "tc -n "+p.name+" qdisc del dev "+p.inside+" root")
			} else {
				run(w.t, "tc -n "+p.name+" qdisc replace dev "+p.inside+" root "+p.rate)
			}
		}},
}
