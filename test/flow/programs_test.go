//go:build linux

package flow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// A theatre is a network with agents that run programs, which wait for a signal file.
type theatre struct {
	*network.Network
	t    *testing.T
	dir  string
	args []string
}

// wait logs its begin with its process ID, waits for its file, and logs its end.
const wait = `#!/bin/sh
echo "begin $FERRY_CALL $$" >>"$1/log"
until [ -e "$1/go-$FERRY_CALL" ]; do sleep 0.02; done
echo "end $FERRY_CALL $$" >>"$1/log"
`

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	h := &theatre{t: t, dir: t.TempDir()}
	programs := filepath.Join(h.dir, "programs")
	for _, err := range []error{os.Mkdir(programs, 0o755), os.Chmod(programs, 0o755), os.WriteFile(filepath.Join(programs, "wait"), []byte(wait), 0o755),
		os.Chmod(filepath.Join(programs, "wait"), 0o755), os.WriteFile(filepath.Join(h.dir, "log"), nil, 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"--programs", programs}
	h.Network = network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Flags: map[string][]string{"ALPHA": flags, "BETA": flags}})
	for _, at := range transfer.CallPoints() {
		h.args = append(h.args, "--"+string(at), "wait", "--"+string(at)+"-arg", h.dir)
	}
	return h
}

// runs returns the processes that have begun or ended as the program of a call point.
func (h *theatre) runs(what string, at transfer.CallPoint) (pids []int) {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.dir, "log"))
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), fmt.Sprintf("%s %s ", what, at)); ok {
			n, err := strconv.Atoi(pid)
			if err != nil {
				h.t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}

func (h *theatre) let(points ...transfer.CallPoint) {
	h.t.Helper()
	for _, at := range points {
		if err := os.WriteFile(filepath.Join(h.dir, "go-"+string(at)), nil, 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestKilledWhileAProgramRuns kills or stops an agent while one of its programs runs. The running program ends, and the
// agent runs it again when it is back. The transfer continues, each file arrives once, and no other program runs twice.
func TestKilledWhileAProgramRuns(t *testing.T) {
	t.Parallel()
	for _, at := range transfer.CallPoints() {
		for _, end := range []string{"killed", "stopped"} {
			t.Run(string(at)+" "+end, func(t *testing.T) {
				h := newTheatre(t)
				h.Files("ALPHA", "in", 2, 50, 2000)
				who := "ALPHA"
				if at.AtDest() {
					who = "BETA"
				}
				h.let(slices.DeleteFunc(transfer.CallPoints(), func(p transfer.CallPoint) bool { return p == at })...)
				s := h.SendAsync(append(h.args, "-r", "ALPHA:in", "BETA:out/")...)
				h.Until("the program begins", func() bool { return len(h.runs("begin", at)) == 1 })
				if end == "killed" {
					h.Kill(who)
				} else {
					h.Stop(who)
				}
				first := h.runs("begin", at)[0]
				h.Until("the program dies with its agent", func() bool { return syscall.Kill(first, 0) != nil })
				h.Start(who)
				h.Until("the program begins again", func() bool { return len(h.runs("begin", at)) == 2 })
				h.let(at)
				sum := s.Wait().Ends("successful", 0).Summary

				h.Same("ALPHA", "in", "BETA", "out/in")
				once(t, h.Network, sum.ID, 51)
				for _, p := range transfer.CallPoints() {
					if begun, ended := h.runs("begin", p), h.runs("end", p); len(ended) != 1 || p != at && len(begun) != 1 {
						t.Errorf("%s began as %v and ended as %v", p, begun, ended)
					}
				}
			})
		}
	}
}

// TestManagerKilledWhileProgramsRun kills the queue manager while a program runs at either side. The transfer succeeds.
func TestManagerKilledWhileProgramsRun(t *testing.T) {
	t.Parallel()
	h := newTheatre(t)
	h.File("ALPHA", "a", 2, 3*mib)
	s := h.SendAsync(append(h.args, "ALPHA:a", "BETA:out/")...)
	for _, at := range transfer.CallPoints() {
		h.Until("the program begins", func() bool { return len(h.runs("begin", at)) == 1 })
		h.Kill(network.QM)
		h.let(at)
		h.Until("the program ends", func() bool { return len(h.runs("end", at)) == 1 })
		h.Start(network.QM)
	}
	sum := s.Wait().Ends("successful", 0).Summary
	h.Same("ALPHA", "a", "BETA", "out/a")
	once(t, h.Network, sum.ID, 1)
	for _, at := range transfer.CallPoints() {
		if begun := h.runs("begin", at); len(begun) != 1 {
			t.Errorf("%s began as %v", at, begun)
		}
	}
}
