//go:build linux

// Package network runs a whole Ferry network of real processes on one host, for tests that are told as stories. They
// start, kill and query agents, and make files from a seed and compare them. The first failure ends the test with the
// last lines of every process.
//
//	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}})
//	n.File("ALPHA", "in/a", 1, 1<<20)
//	n.Send("ALPHA:in/a", "BETA:out/").Ends("successful", 0)
//	n.Same("ALPHA", "in/a", "BETA", "out/a")
//
// The queue manager is one process, which includes coordination. Each agent is another one, in client mode. Every
// process has a state directory of its own.
package network

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ferry/internal/security/policy"
	"ferry/test/ports"
)

// QM names the process of the queue manager and coordination.
const QM = "QM"

// command is less than the time of any command, and more than that of a look at a file.
const command = 10 * time.Millisecond

// patience is the limit of each wait. It decides no result: every wait is for a condition.
const patience = 4 * time.Minute

// Setup declares a network.
type Setup struct {
	Ferry   string              // the binary; see Build
	Agents  []string            // started with it; others may follow with Add
	Flags   map[string][]string // more flags of a process, by its name
	Dir     string              // directory of all files; default the test's own temporary directory
	Roots   map[string]string   // of agents with a root outside Dir
	States  map[string]string   // of processes with a state directory outside Dir
	Env     map[string][]string // more environment of a process, by its name
	Wrap    map[string][]string // command that starts a process, such as ip netns exec NAME; it must exec
	Other   map[string][]string // program in Ferry's place for a process, such as an emulator and a binary of another architecture
	Listen  string              // HOST:PORT of the queue manager; default a free port of this host
	Cluster []Member            // the queue managers of one cluster, if there are several; Listen is ignored then
	Direct  string              // the agents' direct lane: tls, plain or off; default one of them, by the test's name
	Shape   string              // default SHAPE of the environment, or ShapeHub
}

// lanes are the possible direct lanes of a network's agents. The test's name decides, and in a campaign it has the
// seed. So all lanes are tested, and a repeated case is the same case.
var lanes = []string{"tls", "off", "plain"}

// A Network is up until the test ends. Its methods end the test on an error, so they belong in the test's own
// goroutine.
type Network struct {
	t     testing.TB
	setup Setup
	dir   string
	cwd   string // of commands
	url   string
	procs map[string]*process
	forks chan func()

	channel string            // address at QM for channels; "": each agent is at QM
	urls    map[string]string // of queue managers of agents' own, by the agent
	last    *Sending          // the last transfer submitted by SendAsync
}

// A process is one name in the network, running or not.
type process struct {
	name  string
	args  []string
	dir   string // working directory; "": that of the test
	log   *tail
	cmd   *exec.Cmd
	ready chan struct{} // closed by its line that it is ready
	ended chan struct{} // closed when the process is gone
}

// Build builds the binary into a directory, as it is shipped: without cgo. It leaves out only the information for
// debuggers, which takes a third of the linker's work.
func Build(dir string) (string, error) {
	out := filepath.Join(dir, "ferry")
	c := exec.Command("go", "build", "-ldflags=-w", "-o", out, "ferry/cmd/ferry")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("ferry cannot be built: %w\n%s", err, text)
	}
	return out, nil
}

// Up starts a network and takes it down at the end of the test.
func Up(t testing.TB, s Setup) *Network {
	t.Helper()
	n := &Network{t: t, setup: s, dir: s.Dir, procs: map[string]*process{}, forks: make(chan func()), urls: map[string]string{}}
	if n.dir == "" {
		n.dir = t.TempDir()
	}
	if err := os.Chmod(n.dir, 0o755); err != nil { // root uses no directory that others may write, and some tests have no umask
		t.Fatal(err)
	}
	// Not s.Dir, which this process itself may serve. A process that is being started enters its directory while the
	// runtime of this process may be stopped.
	n.cwd = t.TempDir()
	go n.fork()
	t.Cleanup(n.down)
	listen := s.Listen
	if listen == "" {
		listen = freePort(t)
	}
	n.url = "nats://" + listen
	if n.setup.Direct == "" {
		n.setup.Direct = lanes[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(lanes))]
	}
	up := []string{"up", "--listen", listen, "--dir", n.State(QM), "--direct", n.setup.Direct}
	switch shape := n.shape(); {
	case len(s.Cluster) > 0:
	case shape == ShapeCluster:
		n.setup.Cluster = make([]Member, 3)
	case shape == ShapeChannels:
		n.channel = freePort(t)
		if host, _, err := net.SplitHostPort(s.Listen); err == nil {
			n.channel = strings.Replace(n.channel, "127.0.0.1", host, 1)
		}
		up = append(up, "--channel-listen", n.channel)
	}
	switch {
	case len(n.setup.Cluster) > 0:
		n.cluster(n.setup.Cluster)
	case n.shape() == ShapeExternal:
		n.external()
	default:
		n.define(QM, "queue manager", append(up, s.Flags[QM]...))
		n.Start(QM)
	}
	n.consent()
	for _, a := range s.Agents {
		n.Add(a)
	}
	n.Start(s.Agents...)
	return n
}

// consent sets the network's policy to permit a plain direct lane, if a process uses one.
func (n *Network) consent() {
	n.t.Helper()
	plain := n.setup.Direct == "plain"
	for _, flags := range n.setup.Flags {
		plain = plain || slices.Contains(flags, "plain")
	}
	if !plain || slices.Contains(n.setup.Flags[QM], "--insecure") {
		return
	}
	var rules policy.Policy
	n.must(json.Unmarshal(policy.Default, &rules))
	rules.DirectPlain = true
	data, err := json.Marshal(rules)
	n.must(err)
	c := exec.Command(n.setup.Ferry, "policy", "apply", "-")
	c.Dir, c.Env, c.Stdin = n.cwd, n.environment(), bytes.NewReader(data)
	if out, err := c.CombinedOutput(); err != nil {
		n.t.Fatalf("ferry policy apply: %v\n%s", err, out)
	}
}

// Add declares an agent and makes its root, but does not start it.
func (n *Network) Add(agent string) {
	n.t.Helper()
	n.must(os.MkdirAll(n.Root(agent), 0o755))
	if n.channel != "" {
		n.beside(agent)
	}
	n.define(agent, "agent "+agent+" ready", append([]string{"agent", "run", agent, "--network", n.URLOf(agent),
		"--dir", n.State(agent), "--root", n.Root(agent), "--direct", n.setup.Direct}, n.setup.Flags[agent]...))
}

// Move makes an agent that is not running connect to the queue manager of another one from its next start on.
func (n *Network) Move(agent, to string) {
	n.t.Helper()
	n.connect(agent, n.URLOf(to))
}

// connect makes an agent that is not running connect to a URL from its next start on.
func (n *Network) connect(agent, url string) {
	n.t.Helper()
	args := slices.Clone(n.process(agent).args)
	args[slices.Index(args, "--network")+1] = url
	n.process(agent).args = args
}

// AddOther declares a process that is no agent, with the arguments of ferry, and does not start it. It is ready when a
// line of its output begins with ready.
func (n *Network) AddOther(name, ready string, args ...string) {
	n.define(name, ready, args)
}

func (n *Network) define(name, ready string, args []string) {
	n.procs[name] = &process{name: name, args: args, log: &tail{ready: ready}}
}

// Root returns the root directory of an agent.
func (n *Network) Root(agent string) string {
	if r := n.setup.Roots[agent]; r != "" {
		return r
	}
	return filepath.Join(n.dir, "roots", agent)
}

// State returns the state directory of a process.
func (n *Network) State(who string) string {
	if s := n.setup.States[who]; s != "" {
		return s
	}
	return filepath.Join(n.dir, "state", who)
}

// Setenv replaces the additional environment of a process, from its next start on.
func (n *Network) Setenv(who string, env ...string) {
	if n.setup.Env == nil {
		n.setup.Env = map[string][]string{}
	}
	n.setup.Env[who] = env
}

// Pid returns the process number of a running process.
func (n *Network) Pid(who string) int {
	n.t.Helper()
	p := n.process(who)
	if !p.running() {
		n.t.Fatalf("%s is not running", who)
	}
	return p.cmd.Process.Pid
}

// Running reports whether a process has been started and has not ended.
func (n *Network) Running(who string) bool { return n.process(who).running() }

// Mkdir makes the root of an agent that is declared with AddOther.
func (n *Network) Mkdir(agent string) {
	n.t.Helper()
	n.must(os.MkdirAll(n.Root(agent), 0o755))
}

// ExitCode returns the exit code of a process that has ended.
func (n *Network) ExitCode(who string) int {
	n.t.Helper()
	return n.gone(who)
}

// Gone waits until a process has ended by itself, for example at a failpoint that kills it.
func (n *Network) Gone(who string) {
	n.t.Helper()
	n.gone(who)
}

// Signal sends a process a signal, such as SIGSTOP.
func (n *Network) Signal(who string, s syscall.Signal) {
	n.t.Helper()
	n.signal(who, s)
}

// first returns HOST:PORT of the queue manager, or of the first one of a cluster.
func (n *Network) first() string {
	one, _, _ := strings.Cut(n.url, ",")
	return strings.TrimPrefix(one, "nats://")
}

// URL returns the URL of the queue manager.
func (n *Network) URL() string { return n.url }

// Path returns a path beneath an agent's root on this host.
func (n *Network) Path(agent, rel string) string { return n.Root(agent) + "/" + rel }

// fork starts processes from one thread that lives as long as the network. The kernel kills them when this thread ends,
// for any end of the test.
func (n *Network) fork() {
	runtime.LockOSThread()
	for f := range n.forks {
		f()
	}
}

func (n *Network) start(c *exec.Cmd, env ...string) error {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Env = append(n.environment(), env...)
	done := make(chan error)
	n.forks <- func() { done <- c.Start() }
	return <-done
}

// environment returns that of the test, with a home of its own and the network to use. A command waits longer for an
// answer than a user would: on a slow disk an answer takes seconds. A lost question is repeated in time.
func (n *Network) environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FERRY_") && !strings.HasPrefix(e, "HOME=") && !strings.HasPrefix(e, "XDG_") {
			env = append(env, e)
		}
	}
	return append(env, "HOME="+filepath.Join(n.dir, "home"), "FERRY_NETWORK="+n.url, "FERRY_TIMEOUT=30s")
}

// Launch starts processes and does not wait until they are ready.
func (n *Network) Launch(who ...string) {
	n.t.Helper()
	for _, name := range who {
		p := n.process(name)
		if p.running() {
			n.t.Fatalf("%s is running already", name)
		}
		argv := slices.Clone(n.setup.Wrap[name])
		if other := n.setup.Other[name]; other != nil {
			argv = append(argv, other...)
		} else {
			argv = append(argv, n.setup.Ferry)
		}
		argv = append(argv, p.args...)
		p.cmd = exec.Command(argv[0], argv[1:]...)
		p.cmd.Dir = p.dir
		p.ready, p.ended = make(chan struct{}), make(chan struct{})
		p.log.begin(p.ready)
		p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
		n.must(n.start(p.cmd, n.setup.Env[name]...))
		go func(c *exec.Cmd, ended chan struct{}) {
			c.Wait()
			close(ended)
		}(p.cmd, p.ended)
	}
}

// Ready waits until processes have reported that they are ready.
func (n *Network) Ready(who ...string) {
	n.t.Helper()
	for _, name := range who {
		p := n.process(name)
		select {
		case <-p.ready:
		case <-p.ended:
			select {
			case <-p.ready: // it was ready, and a failpoint ended it afterwards
			default:
				n.t.Fatalf("%s ended before it was ready", name)
			}
		case <-time.After(patience):
			n.t.Fatalf("%s is not ready after %s", name, patience)
		}
	}
}

// Start starts processes and waits until each is ready.
func (n *Network) Start(who ...string) {
	n.t.Helper()
	n.Launch(who...)
	n.Ready(who...)
}

// Kill kills processes, all at once, with SIGKILL.
func (n *Network) Kill(who ...string) {
	n.t.Helper()
	for _, name := range who {
		n.signal(name, syscall.SIGKILL)
	}
	for _, name := range who {
		n.gone(name)
	}
}

// EnsureKilled kills a process with SIGKILL, unless it has ended by itself.
func (n *Network) EnsureKilled(name string) {
	n.t.Helper()
	if err := n.process(name).cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		n.must(err)
	}
	n.gone(name)
}

// Stop asks processes to end, one after another, and expects exit code 0.
func (n *Network) Stop(who ...string) {
	n.t.Helper()
	for _, name := range who {
		n.signal(name, syscall.SIGTERM)
		if code := n.gone(name); code != 0 {
			n.t.Fatalf("%s was told to stop and ended with %d", name, code)
		}
	}
}

func (n *Network) signal(name string, s syscall.Signal) {
	n.t.Helper()
	p := n.process(name)
	if !p.running() {
		n.t.Fatalf("%s is not running", name)
	}
	n.must(p.cmd.Process.Signal(s))
}

// gone waits until a process has ended and returns its exit code.
func (n *Network) gone(name string) int {
	n.t.Helper()
	p := n.process(name)
	select {
	case <-p.ended:
	case <-time.After(patience):
		n.t.Fatalf("%s has not ended after %s", name, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// DeleteQueueManagerStore removes the stores of the stopped queue managers: of QM, or of the members of a cluster. At
// least one must be stopped.
func (n *Network) DeleteQueueManagerStore() {
	n.t.Helper()
	n.DeleteStores(n.Managers()...)
}

// DeleteStores is DeleteQueueManagerStore at some queue managers.
func (n *Network) DeleteStores(managers ...string) {
	n.t.Helper()
	deleted := false
	for _, who := range managers {
		store := n.StoreDir(who)
		if _, err := os.Stat(store); err != nil {
			n.t.Fatalf("queue manager %s has no store: %v", who, err)
		}
		if !n.process(who).running() {
			deleted = true
			n.must(os.RemoveAll(store))
		}
	}
	if !deleted {
		n.t.Fatal("the queue manager is running on the store that is to be deleted")
	}
}

// PeakRSS returns the maximum memory that a running process has had, in bytes.
func (n *Network) PeakRSS(who string) int64 {
	n.t.Helper()
	p := n.process(who)
	if !p.running() {
		n.t.Fatalf("%s is not running", who)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	n.must(err)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			n.must(err)
			return kib << 10
		}
	}
	n.t.Fatalf("the kernel does not say how much memory %s has had", who)
	return 0
}

// Until waits for a condition.
func (n *Network) Until(what string, holds func() bool) {
	n.t.Helper()
	n.UntilEvery(what, 5*time.Millisecond, holds)
}

// UntilEvery waits for a condition. Between two checks it waits for pause, and at least twice as long as a check took.
// After a check that took as long as a command does, it waits for an eighth of the time since the first check, too, up
// to half a second. Otherwise checks could take the processor from the observed processes, and from those of other tests.
func (n *Network) UntilEvery(what string, pause time.Duration, holds func() bool) {
	n.t.Helper()
	limit, first := time.After(patience), time.Now()
	for {
		began := time.Now()
		if holds() {
			return
		}
		took := time.Since(began)
		wait := max(pause, 2*took)
		if took > command {
			wait = max(wait, min(time.Since(first)/8, time.Second/2))
		}
		select {
		case <-time.After(wait):
		case <-limit:
			n.t.Fatalf("gave up after %s waiting until %s", patience, what)
		}
	}
}

func (n *Network) process(name string) *process {
	n.t.Helper()
	p := n.procs[name]
	if p == nil {
		n.t.Fatalf("there is no %s in this network", name)
	}
	return p
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// down kills the running processes. If the test has failed, it shows the last lines of each process.
func (n *Network) down() {
	if n.t.Failed() && n.last != nil {
		n.t.Logf("the last transfer: %s", n.last.describe())
	}
	for _, p := range n.procs {
		if p.running() {
			p.cmd.Process.Kill()
			<-p.ended
		}
	}
	close(n.forks)
	if n.t.Failed() {
		for name, p := range n.procs {
			n.t.Logf("the last lines of %s:\n%s", name, strings.ReplaceAll(p.log.last(40), n.dir, "DIR"))
		}
	}
}

func (n *Network) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// freePort reserves an address for a queue manager, and the port after it, until the test ends.
func freePort(t testing.TB) string {
	t.Helper()
	port, release, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// A tail keeps the output of a process over all its runs, and detects the line that reports that it is ready, if ready
// is set.
type tail struct {
	ready string

	mu    sync.Mutex
	buf   bytes.Buffer
	from  int // beginning of the present run
	close func()
}

// started is written between two runs of a process.
const started = "--- started\n"

func (w *tail) begin(ready chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.WriteString(started)
	w.from = w.buf.Len()
	w.close = sync.OnceFunc(func() { close(ready) })
}

// Write takes the output of a process.
func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	if w.ready == "" {
		return len(b), nil
	}
	for line := range bytes.Lines(w.buf.Bytes()[w.from:]) {
		if _, text, ok := bytes.Cut(line, []byte(" [INF] ")); ok {
			line = text // of a server of NATS
		}
		if bytes.HasPrefix(line, []byte(w.ready)) && bytes.HasSuffix(line, []byte("\n")) {
			w.close()
			w.from = w.buf.Len()
			break
		}
	}
	return len(b), nil
}

func (w *tail) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *tail) last(lines int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for s := bufio.NewScanner(bytes.NewReader(w.buf.Bytes())); s.Scan(); {
		all = append(all, s.Text())
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
