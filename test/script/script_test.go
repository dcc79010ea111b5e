// Package script_test runs the command line as people do. Each file of
// testdata is a script that reads as a page of the manual: what to type, what
// comes back, with which result code.
package script_test

import (
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// builtVersion is what the binary under test says it is.
const builtVersion = "1.2.3-script"

func TestMain(m *testing.M) {
	// The scripts wait for their processes more than for a processor.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"unprivileged": unprivileged})
}

// TestScripts gives each script a state directory, a home and a free port of
// its own, and no FERRY_ variable.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	// Without what only a debugger needs, a third of the linker's work.
	build := exec.Command("go", "build", "-o", bin, "-ldflags", "-w -X main.version="+builtVersion,
		"./cmd/ferry", "./cmd/ferry-bench", "github.com/nats-io/nats-server/v2")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building ferry: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Deadline:            time.Now().Add(9 * time.Minute), // of all scripts: a command that hangs is ended, and its script fails
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			port, err := freePort()
			if err != nil {
				return err
			}
			me, err := user.Current()
			if err != nil {
				return err
			}
			for k, v := range map[string]string{
				"BIN":            bin,
				"PATH":           bin + string(filepath.ListSeparator) + env.Getenv("PATH"),
				"HOME":           filepath.Join(env.WorkDir, "home"),
				"XDG_STATE_HOME": filepath.Join(env.WorkDir, "state"),
				"PORT":           port,
				"URL":            "nats://127.0.0.1:" + port,
				"VERSION":        builtVersion,
				"WHO":            strings.ToLower(me.Username),
				"GOTRACEBACK":    "all",
			} {
				env.Setenv(k, v)
			}
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: commands,
	})
}

func exe(name string) string {
	if filepath.Separator == '\\' {
		return name + ".exe"
	}
	return name
}

var (
	portsMu sync.Mutex
	ports   = map[int]bool{} // handed out
)

// freePort finds a port on which nobody listens. It stays below the ports that
// systems give to outgoing connections, so that none of those takes it.
func freePort() (string, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for {
		n := 20_000 + rand.IntN(12_000)
		if ports[n] {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(n))
		if err == nil {
			ports[n] = true
			return strconv.Itoa(n), l.Close()
		}
		if !strings.Contains(err.Error(), "in use") {
			return "", err
		}
	}
}
