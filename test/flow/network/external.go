//go:build linux

package network

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The further processes of a network that has a server of NATS as its queue manager, QM.
const (
	Authority    = "AUTHORITY"
	Coordination = "COORDINATION"
)

// natsReady is the log line of a NATS server that is ready.
const natsReady = "Server is ready"

// external starts a NATS server as the queue manager, with the authority and coordination beside it. The server is
// built from the module that go.mod names and configured by `ferry authority export`.
func (n *Network) external() {
	n.t.Helper()
	program := filepath.Join(filepath.Dir(n.setup.Ferry), "nats-server")
	if _, err := os.Stat(program); err != nil {
		// Build under a name of this process first: tests run in parallel, and none may run an incomplete binary.
		made := filepath.Join(n.cwd, "nats-server")
		build := exec.Command("go", "build", "-o", made, "github.com/nats-io/nats-server/v2")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			n.t.Fatalf("nats-server cannot be built: %v\n%s", err, out)
		}
		n.must(os.Rename(made, program))
	}

	authority := n.State(Authority)
	n.Ferry("authority", "export", n.State(QM), "--dir", authority, "--name", QM, "--listen", strings.TrimPrefix(n.url, "nats://")).OK()
	if n.setup.Other == nil {
		n.setup.Other = map[string][]string{}
	}
	n.setup.Other[QM] = []string{program}
	n.define(QM, natsReady, []string{"-c", "nats-server.conf"})
	n.procs[QM].dir = n.State(QM)
	n.define(Authority, "authority", []string{"authority", "run", "--external", "--dir", authority})
	n.define(Coordination, "coordination", []string{"coordination", "run", "--external", "--dir", n.State(Coordination)})
	n.Start(QM)
	n.Start(Authority)
	n.Start(Coordination)
}
