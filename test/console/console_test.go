//go:build unix

// Package console_test types the commands of the documents. Each document is one session of a shell, in the order of
// its blocks that are marked console.
package console_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/test/ports"
)

// A step is one line that is typed and the lines that the document says come back.
type step struct {
	line int
	typed,
	shown string
}

// steps are those of a document's console blocks. A block with a language and a name, as "xml nightly.xml", is a file that
// the user writes.
func steps(text string) (all []step) {
	inside, file := false, false
	for n, l := range strings.Split(text, "\n") {
		switch {
		case file && l == "```":
			all[len(all)-1].typed += "END"
			file = false
		case file:
			all[len(all)-1].typed += l + "\n"
		case !inside && named.MatchString(l):
			all = append(all, step{line: n + 1, typed: "cat > " + named.FindStringSubmatch(l)[1] + " <<'END'\n"})
			file = true
		case strings.HasPrefix(l, "```"):
			inside = !inside && l == "```console"
		case !inside:
		case strings.HasPrefix(l, "$ "):
			all = append(all, step{line: n + 1, typed: l[2:]})
		case len(all) > 0:
			all[len(all)-1].shown += l + "\n"
		}
	}
	return all
}

var (
	named   = regexp.MustCompile("^```[a-z]+ ([a-z.]+)$")
	ids     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	digests = regexp.MustCompile(`[0-9a-f]{16,}`)
	people  = regexp.MustCompile(`[a-z0-9_.-]+@[A-Za-z0-9.-]+`)
	members = regexp.MustCompile(`ferry://[a-z0-9]+/[a-z]+/[^ ,]+`)
	running = regexp.MustCompile(` \S+ +\S+ +(bindings|client) `) // the host and the version of an agent
	numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	rates   = regexp.MustCompile(` \([0-9.]+ [kMG]?i?B/s\)`) // shown for transfers that took long enough to have a rate
	blanks  = regexp.MustCompile(` +`)
)

// shape returns a text without the parts that differ from run to run.
func shape(s string) string {
	s = running.ReplaceAllString(members.ReplaceAllString(people.ReplaceAllString(s, "USER@HOST"), "IDENTITY"), " HOST VERSION $1 ")
	s = rates.ReplaceAllString(digests.ReplaceAllString(ids.ReplaceAllString(s, "ID"), "DIGEST"), "")
	return strings.TrimSpace(blanks.ReplaceAllString(numbers.ReplaceAllString(s, "N"), " "))
}

// TestWhatIsTyped runs README.md and every document with console blocks. Where a document
// names /tmp/ferry-try and port 4222, the test has a directory and a port of its own.
func TestWhatIsTyped(t *testing.T) {
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir() // the ferry that the developer uses in bin stays as it is
	build := exec.Command("make", "build", "PROGRAMS="+programs)
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	docs, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	typed := 0
	for _, doc := range append([]string{filepath.Join(top, "README.md")}, docs...) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		if all := steps(string(text)); len(all) > 0 {
			typed++
			t.Run(filepath.Base(doc), func(t *testing.T) { session(t, top, programs, all) })
		}
	}
	if typed < 2 {
		t.Errorf("only %d documents have anything to type", typed)
	}
}

// session types a document's lines into one shell, as a user does who pastes them.
func session(t *testing.T, top, programs string, all []step) {
	dir := filepath.Join(t.TempDir(), "try")
	free, release, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	port := strconv.Itoa(free)
	own := strings.NewReplacer("/tmp/ferry-try", dir, "4222", port, "$PWD/bin", programs)
	var script strings.Builder
	script.WriteString("set -m\n")
	for n, s := range all {
		// Each step has an output file of its own.
		out := filepath.Join(filepath.Dir(dir), strconv.Itoa(n))
		typed := own.Replace(s.typed)
		script.WriteString("exec >" + out + ".out 2>&1\n" + patient(typed, own.Replace(s.shown)) + "\necho $? >" + out + ".code\n")
	}
	// kill returns before a process has ended, and an agent that ends still writes its files.
	script.WriteString("kill $(jobs -p) 2>/dev/null\nwait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir = top
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "PROGRAMS="+programs, "PATH="+programs+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+filepath.Join(home, "state"), "GOPATH="+gopath(t), "GOCACHE="+gocache(t),
		"FERRY_TIMEOUT=30s") // on a slow disk an answer takes longer than the default of --timeout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil && ctx.Err() != nil {
		t.Errorf("the session: %v", err)
	}
	for n, s := range all {
		out := filepath.Join(filepath.Dir(dir), strconv.Itoa(n))
		got, _ := os.ReadFile(out + ".out")
		code, _ := os.ReadFile(out + ".code")
		if string(bytes.TrimSpace(code)) != "0" {
			t.Errorf("line %d: %s\nended with %s:\n%s", s.line, s.typed, code, got)
			continue
		}
		has := map[string]bool{}
		for _, l := range strings.Split(string(got), "\n") {
			has[shape(l)] = true
		}
		for _, want := range strings.Split(strings.TrimSpace(own.Replace(s.shown)), "\n") {
			if !has[shape(want)] {
				t.Errorf("line %d: %s\nthe document shows\n%s\nand this comes:\n%s", s.line, s.typed, want, got)
			}
		}
	}
}

// until repeats a shell command that must succeed, for as long as a busy host may need.
const until = "for i in $(seq 900); do %s && break; sleep 0.1; done"

var startsAgent = regexp.MustCompile(`^ferry agent run (\w+) .*&$`)

// patient returns a line that a user types, with the pause that a user makes before it or after it. shown is the output
// in the document.
func patient(typed, shown string) string {
	switch agent := startsAgent.FindStringSubmatch(typed); {
	case agent != nil: // an agent that was just started is known a moment later
		return typed + "\n" + fmt.Sprintf(until, "ferry agent ls | grep -qE '^"+agent[1]+" +READY'")
	case strings.HasPrefix(typed, "ferry audit find"): // the records of an agent's last action come a moment later
		return fmt.Sprintf(until, typed)
	case strings.HasPrefix(typed, "ferry transfer ls"): // so is the end of a transfer
		return fmt.Sprintf(until, "[ $("+typed+" | wc -l) -gt 1 ] && ! "+typed+" | grep -qE ' (queued|accepted|negotiating|waiting|running) '") + "\n" + typed
	case strings.HasPrefix(typed, "ferry status"): // and so is its failure; the status itself may have any result code
		first, _, _ := strings.Cut(shown, "\n")
		return fmt.Sprintf(until, "s=$(ferry status); grep -qxF '"+first+"' <<< \"$s\" && grep -qx 'running: 0' <<< \"$s\"") + "\n" + typed
	case strings.HasPrefix(typed, "ferry agent ls"): // an agent is ACTIVE for a moment after its last transfer
		return fmt.Sprintf(until, "s=$(ferry agent ls) && ! grep -q ' ACTIVE ' <<< \"$s\"") + "\n" + typed
	}
	return typed
}

func gopath(t *testing.T) string  { return goenv(t, "GOPATH") }
func gocache(t *testing.T) string { return goenv(t, "GOCACHE") }

func goenv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
