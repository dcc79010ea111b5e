// Package script_test runs the command line as users do. Each file of testdata is a script that reads as a page of the
// manual: commands, their output and their result codes.
package script_test

import (
	"flag"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ferry/test/ports"
)

// builtVersion is the version of the binary under test.
const builtVersion = "1.2.3-script"

func TestMain(m *testing.M) {
	// The scripts wait for their processes more than for a processor.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"unprivileged": unprivileged})
}

// TestScripts gives each script a state directory, a home and a free port of its own. It sets no FERRY_ variable but
// FERRY_TIMEOUT: on a slow disk an answer may take longer than the default of --timeout. A lost question is repeated in
// time.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	// Without the tables of a debugger, the linker has a third less to do.
	for module, programs := range map[string][]string{
		".":     {"./cmd/ferry", "github.com/nats-io/nats-server/v2"},
		"bench": {"./cmd/ferry-bench"},
	} {
		args := []string{"build", "-o", bin, "-ldflags", "-w -X main.version=" + builtVersion}
		build := exec.Command("go", append(args, programs...)...)
		build.Dir = filepath.Join("..", "..", module)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %q: %v\n%s", programs, err, out)
		}
	}
	testscript.Run(t, testscript.Params{
		Deadline:            time.Now().Add(13 * time.Minute), // of all scripts: a command that hangs is ended, and its script fails
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			port, err := freePort(env.Defer)
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
				"FERRY_TIMEOUT":  "30s",
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

// freePort reserves a port for a queue manager, and the one after it, until a script ends.
func freePort(later func(func())) (string, error) {
	port, release, err := ports.Take()
	if err != nil {
		return "", err
	}
	later(release)
	return strconv.Itoa(port), nil
}
