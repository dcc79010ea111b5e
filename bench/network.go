package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/security/identities"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// Time for all processes to become ready. Each agent adds to it.
const (
	patience      = 2 * time.Minute
	agentPatience = 200 * time.Millisecond
)

// A NetworkConfig declares a network of real processes.
type NetworkConfig struct {
	Dir        string // state directories and logs
	Agents     []AgentConfig
	Together   bool                // coordination runs in the queue manager's process
	Cluster    bool                // three queue managers form a cluster
	Bindings   bool                // each agent in the process of a queue manager of its own, joined by channels
	Processors int                 // number of processors for all of them together; 0: all
	Nice       int                 // niceness above that of this process
	Listen     string              // HOST:PORT of the queue manager; default a free port of the loopback interface
	Manager    []string            // more flags of `ferry up`
	Commands   bool                // this process does not connect: the network has no identities, and may be of an earlier version
	Wrap       map[Role][]string   // command prefix for processes of a role, such as ip netns exec NAME; it must exec
	Via        map[Role]string     // HOST:PORT for a role to reach the queue manager, if it differs from Listen
	Env        map[string][]string // more environment of a process, by its name
}

// An AgentConfig declares one process of `ferry agent run`.
type AgentConfig struct {
	Role  Role
	Names []string // one agent, or several in one process
	Root  string   // root of all of them
	Flags []string
}

// A Network has a queue manager, coordination and agents, each a process of its own, and a connection of this process
// that submits transfers.
type Network struct {
	URL   string
	Meter *Meter // of all processes
	conn  *qmgr.Conn
	env   *Env
	cfg   NetworkConfig
	start *starter
	procs []*process
}

// A process is one process of a network.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string        // path of its stderr output
	ready chan struct{} // closed after the last expected sign of readiness
	ended chan struct{}
}

// StartNetwork starts a network and waits until every process is ready. Close ends it.
func (e *Env) StartNetwork(ctx context.Context, cfg NetworkConfig) (*Network, error) {
	if cfg.Listen == "" {
		listen, err := FreePort()
		if err != nil {
			return nil, err
		}
		cfg.Listen = listen
	}

	s, err := newStarter(cfg.Processors, cfg.Nice)
	if err != nil {
		return nil, err
	}

	n := &Network{URL: "nats://" + cfg.Listen, Meter: &Meter{}, env: e, cfg: cfg, start: s}
	if err := n.up(ctx); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Network) up(ctx context.Context) error {
	limit := patience
	for _, a := range n.cfg.Agents {
		limit += time.Duration(len(a.Names)) * agentPatience
	}

	ctx, cancel := context.WithTimeoutCause(ctx, limit, transfer.Errorf(transfer.KindTimeout, "the network is not ready after %s", limit))
	defer cancel()
	up := n.upApart
	switch {
	case n.cfg.Bindings:
		up = n.upBeside
	case n.cfg.Cluster:
		up = n.upTogether
	}
	if err := up(ctx); err != nil {
		return err
	}
	if n.cfg.Commands {
		return nil
	}
	var err error
	n.conn, err = n.Connect(ctx, n.url(RoleSubmitter), submitter())
	return err
}

// upApart starts a queue manager, and coordination and agents that connect to it.
func (n *Network) upApart(ctx context.Context) error {
	coord := "none"
	if n.cfg.Together {
		coord = "here"
	}

	up := append([]string{"up", "--listen", n.cfg.Listen, "--dir", n.state("QM"), "--coordination", coord, "--log-level", "warn"}, n.cfg.Manager...)
	if err := n.launch("QM", RoleManager, "queue manager", 1, up); err != nil {
		return err
	}
	if err := n.ready(ctx, n.procs...); err != nil {
		return err
	}
	if err := n.consent(ctx); err != nil {
		return err
	}

	if !n.cfg.Together {
		if err := n.launch("coordination", RoleCoordination, "coordination ready", 1,
			[]string{"coordination", "run", "--network", n.url(RoleCoordination), "--dir", n.state("coordination"), "--log-level", "warn"}); err != nil {
			return err
		}
	}

	for _, a := range n.cfg.Agents {
		args := append(append([]string{"agent", "run"}, a.Names...), "--network", n.url(a.Role), "--dir", n.state(a.Names[0]), "--root", a.Root, "--log-level", "warn")
		if err := n.launch(a.Names[0], a.Role, "agent ", len(a.Names), append(args, a.Flags...)); err != nil {
			return err
		}
	}
	return n.ready(ctx, n.procs...)
}

// submitter returns the token of the user that `ferry up` enrols, which is the user of this process. Agents know the
// enrolled users.
func submitter() string {
	return identity.Name{Role: identity.User, Name: strings.ToLower(client.Me().User)}.Token()
}

// Connect connects to the queue manager under a name. As the submitter it uses the identity of the user. Otherwise it
// uses that of the queue manager, which may use any name.
func (n *Network) Connect(ctx context.Context, url, name string) (*qmgr.Conn, error) {
	cc := qmgr.ConnConfig{URL: url, Name: "ferry-bench", Self: name, Timeout: patience, Log: n.env.Log}
	founder := "QM"
	if n.cfg.Cluster {
		founder = "QM1"
	}
	dir, err := keyfile.Open(filepath.Join(n.state(founder), "identities", "qm"))
	if err == nil {
		cc.Identity, err = identity.Load(dir)
	}
	if err == nil && name == submitter() {
		cc.Identity, err = n.users().Load(cc.Identity.Name().Network)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the network is insecure
		return nil, err
	}
	return qmgr.Connect(ctx, cc)
}

// users returns the identities of the user of the processes.
func (n *Network) users() *identities.Store {
	state := filepath.Join(n.home(), ".local", "state", "ferry")
	if runtime.GOOS == "darwin" {
		state = filepath.Join(n.home(), "Library", "Application Support", "ferry")
	}
	return identities.At(filepath.Join(state, "identities"))
}

func (n *Network) home() string { return filepath.Join(n.cfg.Dir, "home") }

// url returns the URL for a role to reach the queue manager.
func (n *Network) url(r Role) string {
	if via := n.cfg.Via[r]; via != "" {
		return "nats://" + via
	}
	return n.URL
}

func (n *Network) state(name string) string { return filepath.Join(n.cfg.Dir, "state", name) }

// launch starts a process. It is ready after signs lines on stdout that begin with sign.
func (n *Network) launch(name string, role Role, sign string, signs int, args []string) error {
	p := &process{name: name, log: filepath.Join(n.cfg.Dir, "logs", name), ready: make(chan struct{}), ended: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(p.log), 0o755); err != nil {
		return unwritable(p.log, err)
	}

	log, err := os.Create(p.log)
	if err != nil {
		return unwritable(p.log, err)
	}
	defer log.Close()

	argv := append(append(slices.Clone(n.cfg.Wrap[role]), n.env.Ferry), args...)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(n.environment(), n.cfg.Env[name]...)
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.start.start(p.cmd); err != nil {
		return transfer.Errorf(transfer.KindInternal, "%s cannot be started: %w", name, err)
	}

	n.procs = append(n.procs, p)
	n.Meter.Add(role, p.cmd.Process.Pid)
	go func() {
		listen(out, sign, signs, p.ready)
		p.cmd.Wait()
		close(p.ended)
	}()
	return nil
}

// listen reads the whole output, and closes ready at the last expected sign.
func listen(out io.Reader, sign string, signs int, ready chan<- struct{}) {
	for s := bufio.NewScanner(out); s.Scan(); {
		if strings.HasPrefix(s.Text(), sign) {
			if signs--; signs == 0 {
				close(ready)
			}
		}
	}
	io.Copy(io.Discard, out) // a line that is too long only ends the scanner
}

// environment returns this process's environment, without settings of Ferry and with a home of the network's own.
func (n *Network) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "FERRY_") || strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "XDG_")
	})
	return append(env, "HOME="+n.home())
}

// ready waits until processes are ready.
func (n *Network) ready(ctx context.Context, procs ...*process) error {
	for _, p := range procs {
		select {
		case <-p.ready:
		case <-p.ended:
			return transfer.Errorf(transfer.KindInternal, "%s ended before it was ready: %s", p.name, p.last())
		case <-ctx.Done():
			return transfer.Errorf(transfer.KindOf(context.Cause(ctx)), "%s is not ready: %w: %s", p.name, context.Cause(ctx), p.last())
		}
	}
	return nil
}

// last returns the end of a process's stderr output.
func (p *process) last() string {
	data, err := os.ReadFile(p.log)
	if err != nil || len(data) == 0 {
		return "it wrote nothing on stderr"
	}
	return strings.TrimSpace(string(data[max(0, len(data)-1000):]))
}

// Alive returns an error if a process of the network has ended.
func (n *Network) Alive() error {
	for _, p := range n.procs {
		select {
		case <-p.ended:
			return transfer.Errorf(transfer.KindInternal, "%s has ended in the course of the measurement: %s", p.name, p.last())
		default:
		}
	}
	return nil
}

// Close ends all processes. It may be called more than once.
func (n *Network) Close() {
	if n.conn != nil {
		n.conn.Close()
		n.conn = nil
	}

	var gone sync.WaitGroup
	for _, p := range n.procs {
		p.cmd.Process.Kill()
		gone.Go(func() { <-p.ended })
	}

	gone.Wait()
	n.procs = nil
	if n.start != nil {
		n.start.stop()
		n.start = nil
	}
}

// Pids returns the process numbers of a role.
func (m *Meter) Pids(r Role) (pids []int) {
	for _, p := range m.procs {
		if p.role == r {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// FreePort returns a free address on the loopback interface. Its port is below the range that the kernel uses for
// outgoing connections, which could otherwise take it first.
func FreePort() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr, nil
		}
	}
	return "", transfer.Errorf(transfer.KindInternal, "no free port was found between 12000 and 32000")
}
