// Package estate_test gives an estate of IBM MQ MFT to Ferry as it is: scripts of cron and of containers, definitions in
// XML, scripts of Ant. Each runs, or is refused by name. None fails without a word.
package estate_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/test/ports"
)

// A sample is a script or a document of an estate.
type sample struct {
	file string
	as   string // the command that takes it: see run
	code int
	says string // expression for its output
	made string // a file of BETA that it makes
}

// scripts are the shell scripts. A script that is refused has the name of the command in its output.
var scripts = []sample{
	{file: "cron-copy.sh", says: "orders copied as [0-9a-f]{48}", made: "orders/copy.csv"},
	{file: "cron-move.sh", says: "spool is empty"},
	{file: "cron-text.sh", says: "the text is the same", made: "host/street.ebcdic"},
	{file: "cron-list.sh", says: "1 of 3 failed\n1\n", made: "list/stock.csv"},
	{file: "cron-trigger.sh", says: "the flag counts", made: "flags/stock.csv"},
	{file: "cron-queue.sh", says: "the queue is empty", made: "words/all.txt"},
	{file: "cron-schedule.sh", says: "no night is left"},
	{file: "cron-template.sh", says: "the template is gone"},
	{file: "cron-cancel.sh", says: "it is cancelled"},
	{file: "cron-programs.sh", says: "the load counts", made: "load/in.csv"},
	{file: "monitor-create.sh", says: "the file has come", made: "watched/new.csv"},
	{file: "monitor-export.sh", says: "the monitor is changed"},
	{file: "monitor-stop.sh", says: "the monitor has stopped and started"},
	{file: "monitor-lines.sh", says: "the chosen files have come", made: "chosen/orders.csv"},
	{file: "health-agents.sh", says: "ALPHA BETA"},
	{file: "health-ping.sh", says: "the agent is there"},
	{file: "health-details.sh", says: "(READY|ACTIVE) with 25 transfers at most"},
	{file: "log-subscriber.sh", says: "orders\\.csv\nresult code 0\n", made: "subscribed.csv"},
	{file: "container-setup.sh", says: "the container has run"},
	{file: "container-bridge.sh", code: 1, says: "fteCreateBridgeAgent .*Ferry has no bridges"},
}

// samples are the documents.
var samples = []sample{
	{file: "request-one.xml", as: "submit", says: "successful", made: "xml/one.csv"},
	{file: "request-tree.xml", as: "submit", says: "successful", made: "xml/tree/a.csv"},
	{file: "request-text.xml", as: "submit", says: "successful", made: "xml/text.csv"},
	{file: "request-several.xml", as: "submit", says: "successful", made: "xml/second/stock.csv"},
	{file: "request-move.xml", as: "submit", says: "successful", made: "xml/moved.csv"},
	{file: "request-overwrite.xml", as: "submit", says: "successful", made: "xml/over.csv"},
	{file: "request-exists.xml", as: "submit", code: 40, says: "there\\.csv exists already"},
	{file: "request-labels.xml", as: "submit", says: "successful", made: "xml/labels.csv"},
	{file: "request-programs.xml", as: "submit", says: "successful", made: "xml/programs.csv"},
	{file: "request-trigger.xml", as: "submit", says: "successful", made: "xml/trigger.csv"},
	{file: "request-unmet.xml", as: "submit", code: 42, says: "does not exist as a file of 5242880 bytes or more"},
	{file: "request-schedule.xml", as: "keep", says: "[0-9a-f]{12}"},
	{file: "request-unschedule.xml", as: "keep", code: 26, says: "schedule 6"},
	{file: "request-cancel.xml", as: "submit", code: 43, says: "is not one of Ferry's"},
	{file: "request-ping.xml", as: "submit", says: "ALPHA"},
	{file: "request-call.xml", as: "submit", says: "exit code 4"},
	{file: "request-queue.xml", as: "submit", says: "successful"},
	{file: "request-messages.xml", as: "submit", says: "successful", made: "xml/messages.txt"},
	{file: "request-dataset.xml", as: "submit", says: "SPACE of a data set"},
	{file: "request-filespace.xml", as: "submit", code: 64, says: "sends to a file space at line 10"},
	{file: "request-server.xml", as: "submit", code: 64, says: "sftp://host\\.example/orders\\.csv"},
	{file: "request-jcl.xml", as: "submit", code: 64, says: "<command type=\"jcl\">, which is not built yet"},
	{file: "request-unknown.xml", as: "submit", code: 43, says: "the element <compression> in <transferSet> is unknown"},
	{file: "definition-items.xml", as: "define", says: "BFGRP0032I", made: "xml/defined/stock.csv"},
	{file: "monitor-match.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_MATCH"},
	{file: "monitor-same.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_SAME"},
	{file: "monitor-size.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_SIZE"},
	{file: "monitor-nomatch.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_NOMATCH"},
	{file: "monitor-any.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_ANY"},
	{file: "monitor-all.xml", as: "monitor", code: 1, says: "allOf"},
	{file: "monitor-lines.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_LINES"},
	{file: "monitor-queue.xml", as: "monitor", says: "BFGCL0251I.*SAMPLE_QUEUE"},
	{file: "ant-many.xml", as: "ant", says: "BUILD SUCCESSFUL", made: "ant/many.csv"},
	{file: "ant-spread.xml", as: "ant", says: "both have the orders", made: "ant/spread/orders.csv"},
	{file: "ant-ready.xml", as: "ant", says: "ping 0, call 0"},
	{file: "ant-archive.xml", as: "ant", code: 1, says: "ant-archive\\.xml:3: the element <zip> in <target>"},
	{file: "ant-list.xml", as: "ant", code: 1, says: "ant-list\\.xml:3: the element <foreach> in <target>"},
	{file: "agent.properties", as: "import", code: 20, says: "not taken .*sourceTransferStartExitClasses"},
}

// limit is the time of one sample. It decides nothing: a sample ends, or the product is wrong.
const limit = 4 * time.Minute

// An estate is a network with the files and the commands of the samples.
type estate struct {
	dir       string
	env       []string
	out, in   string // roots of ALPHA and BETA
	ferry     string
	fte       string // directory of MQ MFT's commands
	testdata  string
	manager   *exec.Cmd
	managerIs bytes.Buffer
}

// newEstate builds Ferry and starts a network.
func newEstate(t *testing.T) *estate {
	dir := t.TempDir()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	e := &estate{dir: dir, out: filepath.Join(dir, "alpha"), in: filepath.Join(dir, "beta"), ferry: filepath.Join(dir, "bin", "ferry"), fte: filepath.Join(dir, "fte"), testdata: testdata}
	build := exec.Command("go", "build", "-o", e.ferry, "-ldflags", "-w", "./cmd/ferry")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, text := range map[string]string{"alpha/orders.csv": "order 1\norder 2\n", "alpha/stock.csv": "stock 1\n", "alpha/moved.csv": "moved\n", "alpha/tree/a.csv": "a\n", "alpha/tree/b.csv": "b\n",
		"beta/there.csv": "there\n", "programs/load.sh": "#!/bin/sh\nexit $1\n", "programs/wait.sh": "#!/bin/sh\nsleep 1000\n", "home/x": "", "alpha/idle/.keep": "", "message": "a message\n"} {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	port, release, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	e.env = []string{"PATH=" + e.fte + ":" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "TMPDIR=" + dir,
		"FERRY_NETWORK=" + url, "FERRY_TIMEOUT=30s", "FERRY_FTE_MESSAGES=bfg", "OUT=" + e.out, "IN=" + e.in, "TZ=UTC"}
	e.manager = exec.Command(e.ferry, "up", "--name", "QM1", "--dir", filepath.Join(dir, "qm"), "--listen", url[len("nats://"):], "--publish-xml", "--programs", filepath.Join(dir, "programs"),
		"--agent", "ALPHA="+e.out, "--agent", "BETA="+e.in)
	e.manager.Dir, e.manager.Env = dir, slices.DeleteFunc(slices.Clone(e.env), func(v string) bool { return strings.HasPrefix(v, "FERRY_") })
	e.manager.Stdout, e.manager.Stderr = &e.managerIs, &e.managerIs
	if err := e.manager.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.manager.Process.Signal(syscall.SIGTERM), e.manager.Wait()); err != nil {
			t.Errorf("the network has ended with %v", err)
		}
		if t.Failed() {
			t.Logf("%s", &e.managerIs)
		}
	})
	for _, args := range [][]string{{"ferry", "ready", url}, {"ferry", "install-fte", "--messages", "bfg", e.fte},
		{"ferry", "queue", "create", "ESTATE.WORDS"}, {"ferry", "queue", "create", "ESTATE.XML"}, {"ferry", "queue", "create", "ESTATE.MANY"}, {"ferry", "queue", "create", "ESTATE.WATCHED"},
		{"ferry", "queue", "create", "ESTATE.MESSAGES"}, {"ferry", "queue", "put", "ESTATE.MESSAGES", "message"}} {
		if code, out := e.run(t, dir, args...); code != 0 {
			t.Fatalf("%q ends with %d: %s", args, code, out)
		}
	}
	return e
}

// run runs a command of the estate in a directory.
func (e *estate) run(t *testing.T, dir string, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	for _, in := range []string{e.fte, filepath.Dir(e.ferry)} {
		if at := filepath.Join(in, args[0]); c.Err != nil || args[0] == "ferry" {
			if _, err := os.Stat(at); err == nil {
				c = exec.CommandContext(t.Context(), at, args[1:]...)
			}
		}
	}
	c.Dir, c.Env, c.Stdout, c.Stderr, c.WaitDelay = dir, e.env, &b, &b, 10*time.Second
	killed := time.AfterFunc(limit, func() { c.Process.Kill() })
	defer killed.Stop()
	err := c.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatalf("%q: %v", args, err)
	}
	return c.ProcessState.ExitCode(), b.String()
}

// take gives a sample to its command.
func (e *estate) take(t *testing.T, s sample) (code int, out string) {
	dir := t.TempDir()
	file := filepath.Join(e.testdata, "samples", s.file)
	switch s.as {
	case "":
		return e.run(t, dir, "sh", filepath.Join(e.testdata, "scripts", s.file))
	case "submit":
		return e.run(t, dir, "ferry", "submit", "--wait", file)
	case "keep":
		return e.run(t, dir, "ferry", "submit", file)
	case "define":
		return e.run(t, dir, "fteCreateTransfer", "-w", "-sa", "ALPHA", "-da", "BETA", "-td", file)
	case "monitor":
		return e.run(t, dir, "fteCreateMonitor", "-ix", file, "-f")
	case "ant":
		return e.run(t, dir, "fteAnt", "-f", file)
	case "import":
		of := filepath.Join(dir, "QM1", "agents", "SAMPLE")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(of, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(of, s.file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e.run(t, dir, "ferry", "import", "--dry-run", filepath.Join(dir, "QM1"))
	}
	t.Fatalf("nothing takes %s", s.file)
	return 0, ""
}

// Each script and document of an estate runs as it is, or is refused by name. One network has them all, at the same
// time as far as they may be.
func TestEstate(t *testing.T) {
	e := newEstate(t)
	t.Run("all", func(t *testing.T) {
		for _, s := range slices.Concat(scripts, samples) {
			t.Run(s.file, func(t *testing.T) {
				t.Parallel()
				code, out := e.take(t, s)
				if code != s.code {
					t.Errorf("the result code is %d, not %d", code, s.code)
				}
				if !regexp.MustCompile(s.says).MatchString(out) {
					t.Errorf("the output has no %q", s.says)
				}
				if _, err := os.Stat(filepath.Join(e.in, filepath.FromSlash(s.made))); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("it says:\n%s", out)
				}
			})
		}
	})
}

// The tables have each file of testdata, and there are as many as were asked for.
func TestEverySampleIsInTheTables(t *testing.T) {
	for dir, table := range map[string][]sample{"scripts": scripts, "samples": samples} {
		named := map[string]bool{}
		for _, s := range table {
			named[s.file] = true
		}
		files, err := os.ReadDir(filepath.Join("testdata", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !named[f.Name()] {
				t.Errorf("nothing takes %s", f.Name())
			}
			delete(named, f.Name())
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			t.Errorf("%s is not in testdata", name)
		}
	}
	if len(scripts) != 20 || len(samples) != 38 {
		t.Errorf("there are %d scripts and %d samples", len(scripts), len(samples))
	}
}
