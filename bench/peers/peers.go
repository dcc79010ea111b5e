// Package peers runs the programs that Ferry is compared with: vsftpd with curl and lftp, OpenSSH's sftp and scp, an
// rsync daemon, rclone, cp, and iperf3 for the rate of a path.
//
// Each server runs on an unprivileged port, as the present user. Its configuration, keys and certificates are made for
// the run in a directory of its own. The host's own configuration is neither read nor changed. Close kills each started
// program with all its children.
//
// A peer has its best settings: no logging, no address look-ups, whole files instead of differences, the fastest cipher
// on a processor with AES, several connections if the program has that. docs/performance-peers.md describes the work of
// each peer for a file.
package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Kind is a kind of server.
type Kind string

// The kinds. None is for clients that need no server.
const (
	None    Kind = ""
	FTP     Kind = "vsftpd"
	FTPS    Kind = "vsftpd, TLS"
	FTPText Kind = "vsftpd, ASCII mode"
	SSH     Kind = "sshd"
	Rsync   Kind = "rsync daemon"
	DAV     Kind = "rclone serve webdav"
	DAVS    Kind = "rclone serve webdav, TLS"
)

// Secure reports whether the server's connections are encrypted.
func (k Kind) Secure() bool { return k == FTPS || k == SSH || k == DAVS }

// Program returns the name of the server's program.
func (k Kind) Program() string {
	switch k {
	case FTP, FTPS, FTPText:
		return "vsftpd"
	case SSH:
		return "sshd"
	case Rsync:
		return "rsync"
	case DAV, DAVS:
		return "rclone"
	case Iperf:
		return "iperf3"
	}
	return ""
}

// A Place has the directories and addresses of servers and clients.
type Place struct {
	Dir  string // for this package only: configurations, keys, logs; made if it is missing
	Root string // absolute path above sources and copies

	// The fields below may be empty. Address is the IP address that servers listen on, by default 127.0.0.1. Port is
	// the first of their ports, by default free ones of this network namespace. ServerWrap and ClientWrap are command
	// prefixes, such as ip netns exec NAME. Dial reaches Address from this process, to check that a server is ready.
	Address    string
	Port       int
	ServerWrap []string
	ClientWrap []string
	Dial       func(ctx context.Context, address string) (net.Conn, error)
}

// readyWithin is the most time that a server may take to listen.
const readyWithin = 20 * time.Second

// A Server is a running server.
type Server struct {
	Kind Kind
	Pid  int // process of the server, the parent of its children

	place  Place
	port   int
	dir    string
	cmd    *exec.Cmd
	ended  chan struct{}
	remove func() // removes the files outside of dir; nil: none
}

// Start starts a server and waits until it listens.
func Start(ctx context.Context, k Kind, p Place) (*Server, error) {
	if p.Address == "" {
		p.Address = "127.0.0.1"
	}

	if p.Dial == nil {
		p.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}

	program, err := Find(k.Program())
	if err != nil {
		return nil, err
	}

	s := &Server{Kind: k, place: p, dir: filepath.Join(p.Dir, strings.NewReplacer(" ", "-", ",", "").Replace(string(k))), ended: make(chan struct{})}
	if s.port, err = p.freePort(k); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, unwritable(s.dir, err)
	}

	args, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.run(append(append([]string{}, p.ServerWrap...), append([]string{program}, args...)...)); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare writes the server's input files, and returns its arguments.
func (s *Server) prepare(ctx context.Context) ([]string, error) {
	switch s.Kind {
	case FTP, FTPS, FTPText:
		return s.prepareFTP()
	case SSH:
		return s.prepareSSH(ctx)
	case Rsync:
		return s.prepareRsync()
	case DAV, DAVS:
		return s.prepareDAV()
	case Iperf:
		return s.prepareIperf()
	}
	return nil, transfer.Errorf(transfer.KindInternal, "there is no server of kind %q", s.Kind)
}

func (s *Server) run(argv []string) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return unwritable(s.dir, err)
	}
	defer log.Close()

	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = environment(s.dir)
	ownGroup(s.cmd)
	dieWithUs(s.cmd)
	started := make(chan error, 1)
	go func() {
		// The kernel takes the end of the thread that started a process for the end of its parent. So this thread stays
		// until the server has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.cmd.Wait()
		}
		close(s.ended)
	}()
	if err := <-started; err != nil {
		return transfer.Errorf(transfer.KindInternal, "%s cannot be started: %w", s.Kind, err)
	}

	s.Pid = s.cmd.Process.Pid
	return nil
}

// ready waits until the server accepts a connection.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, transfer.Errorf(transfer.KindTimeout, "%s does not listen after %s", s.Kind, readyWithin))
	defer cancel()
	for {
		c, err := s.place.Dial(ctx, s.Address())
		if err == nil {
			c.Close()
			return nil
		}
		select {
		case <-s.ended:
			return transfer.Errorf(transfer.KindInternal, "%s ended before it listened: %s", s.Kind, s.said())
		case <-ctx.Done():
			return transfer.Errorf(transfer.KindOf(context.Cause(ctx)), "%w: %s", context.Cause(ctx), s.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Address returns the server's address as HOST:PORT.
func (s *Server) Address() string { return fmt.Sprintf("%s:%d", s.place.Address, s.port) }

// said returns the end of the server's output.
func (s *Server) said() string {
	data, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil || len(data) == 0 {
		return "it wrote nothing"
	}
	return strings.TrimSpace(string(data[max(0, len(data)-1000):]))
}

// Close kills the server with its children, and removes its directory.
func (s *Server) Close() {
	killGroup(s.cmd)
	<-s.ended
	os.RemoveAll(s.dir)
	if s.remove != nil {
		s.remove()
	}
}

// offsets separate the ports of the servers of one place, counted from Port.
var offsets = map[Kind]int{FTP: 0, FTPS: 1, SSH: 2, Rsync: 3, DAV: 4, DAVS: 5, Iperf: 6, FTPText: 7}

// PortOf returns the port of a kind of server in a place with a Port.
func (p Place) PortOf(k Kind) int { return p.Port + offsets[k] }

func (p Place) freePort(k Kind) (int, error) {
	if p.Port > 0 {
		return p.PortOf(k), nil
	}
	for range 100 {
		port := 12000 + rand.IntN(20000) // below the range that the kernel uses for outgoing connections
		if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", p.Address, port)); err == nil {
			l.Close()
			return port, nil
		}
	}
	return 0, transfer.Errorf(transfer.KindInternal, "no free port of %s was found between 12000 and 32000", p.Address)
}

// Find returns the path of a program. sshd must be called by its whole path, and servers are in directories outside of
// an ordinary user's PATH.
func Find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", transfer.Errorf(transfer.KindInternal, "the program %s is not installed", program).
		WithHint("`make bench-peers` installs it on Debian and Ubuntu")
}

// environment returns this process's environment, with a home without settings.
func environment(home string) []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "HOME", name == "SSH_AUTH_SOCK", strings.HasPrefix(name, "XDG_"), strings.HasPrefix(name, "RSYNC_"),
			strings.HasPrefix(name, "RCLONE_"), strings.HasPrefix(name, "LFTP_"), strings.HasSuffix(strings.ToLower(name), "_proxy"):
		default:
			env = append(env, e)
		}
	}
	return append(env, "HOME="+home, "LC_ALL=C")
}

func unwritable(path string, err error) error {
	return transfer.Errorf(transfer.KindOf(err), "the configuration of a peer cannot be written to %s: %w", path, err)
}

// write writes a file in a server's own directory and returns its path.
func (s *Server) write(name, text string) (string, error) {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", unwritable(path, err)
	}
	return path, nil
}
