package campaign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binaries are the programs that this test process has built, by their tags.
var binaries struct {
	sync.Mutex
	dir   string
	built map[string]string
}

// Main is the TestMain of a package of campaigns. Without CAMPAIGN in the
// environment it runs nothing, and says so.
func Main(m *testing.M) int {
	if _, asked := os.LookupEnv("CAMPAIGN"); !asked {
		fmt.Println("campaigns run under make test-faults, and nothing of this package ran here")
		return 0
	}
	defer func() {
		binaries.Lock()
		defer binaries.Unlock()
		if binaries.dir != "" {
			os.RemoveAll(binaries.dir)
		}
	}()
	return m.Run()
}

// Ferry is the program as it is shipped.
func Ferry(t testing.TB) string { return Tagged(t) }

// Tagged is the program built with build tags, such as failpoint.
func Tagged(t testing.TB, tags ...string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	key := strings.Join(tags, ",")
	if name := binaries.built[key]; name != "" {
		return name
	}
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "ferry-campaign-")
		if err != nil {
			t.Fatal(err)
		}
		// Other users run it, too.
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		binaries.dir, binaries.built = dir, map[string]string{}
	}
	out := filepath.Join(binaries.dir, "ferry"+strings.ReplaceAll("-"+key, ",", "-"))
	c := exec.Command("go", "build", "-ldflags=-w", "-tags", key, "-o", out, "ferry/cmd/ferry")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("ferry cannot be built: %v\n%s", err, text)
	}
	binaries.built[key] = out
	return out
}
