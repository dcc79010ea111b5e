package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"ferry/bench/peers"
	"ferry/internal/transfer"
)

func linkScenario() Scenario {
	return Scenario{
		Name:  "link",
		What:  "A link of 1 Gbit/s between two network namespaces, with iperf3 and FTP beside Ferry; and paths of 100 Mbit/s with round trips of 50 and 200 ms.",
		Tools: []string{"ip", "tc", "iperf3", "vsftpd", "curl"},
		Root:  true,
		Run:   runLink,
	}
}

// The rates of the scenario's links, in bits a second.
const (
	linkRate = 1_000_000_000
	pathRate = 100_000_000
)

func runLink(ctx context.Context, e *Env) (*Report, error) {
	r := &Report{}
	all, err := gigabit(ctx, e, r)
	if err != nil {
		return nil, err
	}

	for _, trip := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond} {
		more, err := longPath(ctx, e, r, trip)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}

	r.Bars = append(r.Bars, peakBar(all))
	return r, nil
}

// ends has the two ends of a link as namespaces, near with the source and the queue manager, far with the
// destination.
type ends struct {
	env       *Env
	dir       string
	near, far *namespace
	nearIP    string
	farIP     string
	closers   []func() // in the order of their creation
	lanes     []Lane
	pairs     map[string]*Pair // by the lane's name
	set       *FileSet
	iperf     *peers.Server
}

func newEnds(ctx context.Context, e *Env, name, nearIP, farIP string) (*ends, error) {
	dir, remove, err := e.Scratch(name)
	if err != nil {
		return nil, err
	}

	x := &ends{env: e, dir: dir, nearIP: nearIP, farIP: farIP, closers: []func(){remove}, pairs: map[string]*Pair{}, lanes: []Lane{DirectPlain, DirectTLS, QueueLane}}
	for _, end := range []struct {
		to   **namespace
		name string
	}{{&x.near, "near"}, {&x.far, "far"}} {
		n, err := newNamespace(ctx, end.name)
		if err != nil {
			x.close()
			return nil, err
		}
		x.closers = append(x.closers, n.remove)
		*end.to = n
	}
	return x, nil
}

func (x *ends) close() {
	for i := len(x.closers) - 1; i >= 0; i-- {
		x.closers[i]()
	}
	x.closers = nil
}

// ipAll runs several ip commands in a namespace.
func ipAll(ctx context.Context, n *namespace, commands ...[]string) error {
	for _, c := range commands {
		if err := n.ip(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

// cable joins the ends by a pair of interfaces, each with a limited sending rate.
func (x *ends) cable(ctx context.Context, rate int64) error {
	if err := ipAll(ctx, x.near,
		[]string{"link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", x.far.name},
		[]string{"addr", "add", x.nearIP + "/24", "dev", "cable"},
		[]string{"link", "set", "cable", "up"}); err != nil {
		return err
	}
	if err := ipAll(ctx, x.far,
		[]string{"addr", "add", x.farIP + "/24", "dev", "cable"},
		[]string{"link", "set", "cable", "up"}); err != nil {
		return err
	}

	for _, n := range []*namespace{x.near, x.far} {
		if err := n.limit(ctx, "cable", rate); err != nil {
			return err
		}
	}
	return nil
}

// relays joins ends without a cable. Each has the other's address as one of its own. Connections to that address, at
// one of the ports, go over the path.
func (x *ends) relays(ctx context.Context, p *Path, farPorts, nearPorts []int) error {
	for _, n := range []*namespace{x.near, x.far} {
		if err := ipAll(ctx, n, []string{"addr", "add", x.nearIP + "/32", "dev", "lo"}, []string{"addr", "add", x.farIP + "/32", "dev", "lo"}); err != nil {
			return err
		}
	}

	back := p.Reverse()
	x.closers = append(x.closers, p.Close, back.Close)
	for _, way := range []struct {
		p        *Path
		from, to *namespace
		ip       string
		ports    []int
	}{{p, x.near, x.far, x.farIP, farPorts}, {back, x.far, x.near, x.nearIP, nearPorts}} {
		for _, port := range way.ports {
			address := fmt.Sprintf("%s:%d", way.ip, port)
			l, err := way.from.listen(address)
			if err != nil {
				return err
			}
			x.serve(way.p, l, func() (net.Conn, error) { return way.to.dial(ctx, address) })
		}
	}
	return nil
}

// serve relays until the ends are closed.
func (x *ends) serve(p *Path, l net.Listener, dial func() (net.Conn, error)) {
	x.closers = append(x.closers, func() { l.Close() })
	go p.Serve(l, dial)
}

// First ports in the namespaces, one for each pair: of the queue managers, of the direct lanes of the agents, and of
// the peers.
const (
	managerPort = 4222
	directPort  = 4322 // of the destinations
	sourcePort  = 4332
	peerPort    = 5200
)

// start makes the files and starts a pair for each lane, and iperf3. The submitter is in neither namespace. It reaches
// the queue manager by a relay without delay.
func (x *ends) start(ctx context.Context, files int, size int64, listen bool) (err error) {
	if x.set, err = MakeFiles(filepath.Join(x.dir, "sets", "files"), files, size, Random); err != nil {
		return err
	}

	direct := NewPath(0, 0)
	x.closers = append(x.closers, direct.Close)
	for i, lane := range x.lanes {
		if lane.Lacks() != "" {
			continue
		}
		manager := fmt.Sprintf("%s:%d", x.nearIP, managerPort+i)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return transfer.Errorf(transfer.KindInternal, "no port of the loopback interface can be listened at: %w", err)
		}
		x.serve(direct, l, func() (net.Conn, error) { return x.near.dial(ctx, manager) })
		pair, err := x.pair(ctx, i, lane, l.Addr().String(), listen)
		if err != nil {
			return err
		}
		x.closers = append(x.closers, pair.Close)
		x.pairs[lane.Name] = pair
	}

	x.iperf, err = x.server(ctx, peers.Iperf)
	return err
}

// pair starts the i-th pair. The submitter reaches its queue manager by via. With listen its agents accept direct
// connections at the pair's ports, otherwise at ports of their choice.
func (x *ends) pair(ctx context.Context, i int, lane Lane, via string, listen bool) (*Pair, error) {
	p := &Pair{SourceRoot: filepath.Dir(x.set.Dir), DestRoot: filepath.Join(x.dir, fmt.Sprint("copies", i))}
	if err := os.MkdirAll(p.DestRoot, 0o755); err != nil {
		return nil, unwritable(p.DestRoot, err)
	}

	flags := func(ip string, port int) []string {
		if !listen || lane.Direct == "" {
			return lane.Flags()
		}
		return append(lane.Flags(), "--direct-listen", fmt.Sprintf("%s:%d", ip, port+i))
	}
	var err error
	p.Network, err = x.env.StartNetwork(ctx, NetworkConfig{Dir: filepath.Join(x.dir, fmt.Sprint("network", i)),
		Listen: fmt.Sprintf("%s:%d", x.nearIP, managerPort+i),
		Wrap:   map[Role][]string{RoleSource: x.near.wrap(), RoleManager: x.near.wrap(), RoleCoordination: x.near.wrap(), RoleDestination: x.far.wrap()},
		Via:    map[Role]string{RoleSubmitter: via},
		Agents: []AgentConfig{
			{Role: RoleSource, Names: []string{string(SourceAgent)}, Root: p.SourceRoot, Flags: flags(x.nearIP, sourcePort)},
			{Role: RoleDestination, Names: []string{string(DestAgent)}, Root: p.DestRoot, Flags: flags(x.farIP, directPort)},
		}})
	return p, err
}

// server starts a server at the far end, with its client at the near one.
func (x *ends) server(ctx context.Context, k peers.Kind) (*peers.Server, error) {
	dir := filepath.Join(x.dir, "peers")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, unwritable(dir, err)
	}
	s, err := peers.Start(ctx, k, peers.Place{Dir: dir, Root: x.dir, Address: x.farIP, Port: peerPort,
		ServerWrap: x.far.wrap(), ClientWrap: x.near.wrap(), Dial: x.far.dial})
	if err == nil {
		x.closers = append(x.closers, s.Close)
	}
	return s, err
}

// iperfName is the case that measures the link itself.
const iperfName = "iperf3"

// iperfCase sends as many bytes as the files have.
func (x *ends) iperfCase() Case {
	return Case{Name: iperfName, Run: func(ctx context.Context) (Sample, error) {
		m := &Meter{}
		m.Add(RoleServer, x.iperf.Pid)
		return m.Measure(func() (Sample, error) {
			got, err := peers.MeasurePath(ctx, x.iperf, x.set.Bytes())
			return Sample{Wall: got.Time, Bytes: got.Bytes}, err
		})
	}}
}

// ferry returns the case of a lane. suffix follows the lane's name in the case's name.
func (x *ends) ferry(l Lane, suffix string, set *FileSet, j Job) Case {
	name := ferryCase(l) + suffix
	pair := x.pairs[l.Name]
	if pair == nil {
		return Case{Name: name, Lacks: l.Lacks()}
	}
	j.Lane, j.Durability = l.Lane, transfer.DurabilityProcess
	return pair.Case(name, set, j, false)
}

// gigabit measures the link of the reports.
func gigabit(ctx context.Context, e *Env, r *Report) ([]Series, error) {
	x, err := newEnds(ctx, e, "link", "10.77.0.1", "10.77.0.2")
	if err != nil {
		return nil, err
	}
	defer x.close()

	if err := x.cable(ctx, linkRate); err != nil {
		return nil, err
	}

	files, size := 100, int64(10_000_000)
	if e.Short {
		files, size = 4, 1_000_000
	}
	if err := x.start(ctx, files, size, false); err != nil {
		return nil, err
	}

	cases := []Case{x.iperfCase()}
	for _, l := range x.lanes {
		cases = append(cases, x.ferry(l, "", x.set, Job{}))
	}

	for _, l := range []Lane{DirectPlain, QueueLane} {
		cases = append(cases, x.ferry(l, ", no checksum", x.set, Job{Checksum: "none"}), x.ferry(l, ", MD5", x.set, Job{Checksum: "md5"}))
	}

	for _, c := range peers.Clients() {
		if c.One != "" || c.Program != "curl" {
			continue
		}
		server, err := x.server(ctx, c.Server)
		if err != nil {
			return nil, err
		}
		cases = append(cases, Case{Name: c.Name, Run: func(ctx context.Context) (Sample, error) { return x.peer(ctx, c, server) }})
	}

	series, err := e.Interleave(ctx, cases)
	if err != nil {
		return nil, err
	}

	title := fmt.Sprintf("1 Gbit/s, %d files of %.0f MB", files, float64(size)/1e6)
	r.Tables = append(r.Tables, linkTable(title, series))
	r.Charts = append(r.Charts, peerChart(title, series))
	r.Bars = append(r.Bars, gigabitBars(series)...)
	r.Note("The link is a pair of interfaces between two network namespaces of this host, each limited by a token bucket (tc tbf) to 1 Gbit/s. The queue manager stands at the source's end, so that data on the queue lane cross the link once. iperf3 measures the rate of one TCP connection, in bytes within TCP; Ferry's rate is in bytes of files.")
	r.Note("A lane through the queue manager has no TLS yet; the bar for it is not passed.")
	return series, nil
}

// peer measures a peer's copy over the link, verifies it and removes it.
func (x *ends) peer(ctx context.Context, c peers.Client, server *peers.Server) (Sample, error) {
	const to = "copies"
	defer os.RemoveAll(filepath.Join(x.dir, to))
	s, err := measurePeer(ctx, c, peers.Place{}, server, peers.Work{Set: "sets/" + x.set.Name(), To: to, Files: x.set.Names}, func() error { return nil })
	if err != nil {
		return s, err
	}
	s.Bytes, s.Files = x.set.Bytes(), int64(len(x.set.Names))
	return s, x.set.Verify(filepath.Join(x.dir, to, x.set.Name()))
}

// Settings for the measurement of a path. An agent keeps explicit settings, and finds the others itself as far as it
// can.
var (
	pathDefaults = transfer.Settings{ChunkSize: 256 << 10, WindowSize: 10, FrameSize: 5, CheckpointInterval: 1}
	pathNarrow   = transfer.Settings{ChunkSize: 64 << 10, WindowSize: 10, FrameSize: 1, CheckpointInterval: 1}
)

// Names of the settings in cases.
const (
	fixedSettings  = ", fixed: 256 KiB x 10 x 5"
	narrowSettings = ", fixed: 64 KiB x 10 x 1"
	selfSettings   = ", self-found"
)

// longPath measures a path with a round trip.
func longPath(ctx context.Context, e *Env, r *Report, trip time.Duration) ([]Series, error) {
	x, err := newEnds(ctx, e, "path", "10.77.1.1", "10.77.1.2")
	if err != nil {
		return nil, err
	}
	defer x.close()

	farPorts, nearPorts := []int{peers.Place{Port: peerPort}.PortOf(peers.Iperf)}, []int{}
	for i := range x.lanes {
		farPorts = append(farPorts, directPort+i)
		nearPorts = append(nearPorts, managerPort+i, sourcePort+i)
	}
	if err := x.relays(ctx, NewPath(trip, pathRate/8), farPorts, nearPorts); err != nil {
		return nil, err
	}

	files := 20
	if e.Short {
		files = 4
	}
	if err := x.start(ctx, files, e.Total/int64(files), true); err != nil {
		return nil, err
	}

	// A case with a narrow window needs no more files to show its rate.
	few, err := MakeFiles(filepath.Join(x.dir, "sets", "few"), max(1, files/5), x.set.Size, Random)
	if err != nil {
		return nil, err
	}

	cases := []Case{x.iperfCase()}
	for _, l := range x.lanes {
		cases = append(cases, x.ferry(l, selfSettings, x.set, Job{}))
	}

	for _, l := range []Lane{DirectPlain, QueueLane} {
		cases = append(cases, x.ferry(l, fixedSettings, x.set, Job{Settings: pathDefaults}), x.ferry(l, narrowSettings, few, Job{Settings: pathNarrow}))
	}

	series, err := e.Interleave(ctx, cases)
	if err != nil {
		return nil, err
	}

	title := fmt.Sprintf("100 Mbit/s, round trip %s, %d files of %.0f MB", trip, files, float64(x.set.Size)/1e6)
	r.Tables = append(r.Tables, linkTable(title, series))
	r.Charts = append(r.Charts, peerChart(title, series))
	r.Bars = append(r.Bars, pathBars(trip, series)...)
	r.Note("The path with a round trip of %s is a relay that delays each direction by half of it and lets 100 Mbit/s through. TCP ends at the relay, so that iperf3 and the connections of both lanes see no slow start and no loss. The comparison is of the waits of the protocols above TCP. A transfer's time has the several round trips of its opening and its end in it. A case held to 64 KiB x 10 x 1 moves a fifth of the files.", trip)
	return series, nil
}
