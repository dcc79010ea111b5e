//go:build linux

// Package flow_test tests whole stories with real processes: the built ferry, real files, and SIGKILL. The comment of
// each test states the required result.
package flow_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"ferry/test/flow/network"
)

// ferry is the binary under test, built once.
var ferry string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ferry-flow-")
	if err == nil {
		defer os.RemoveAll(dir)
		ferry, err = network.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The stories wait for one another's processes more than for a processor.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// paced limits the rate of a transfer that a story interrupts in the middle of a file. The rest of the file takes more
// than 2 s then, so that the story is in time on a busy host.
const paced = "--limit=24M"

// up starts a queue manager and agents.
func up(t *testing.T, agents ...string) *network.Network {
	t.Helper()
	return network.Up(t, network.Setup{Ferry: ferry, Agents: agents})
}
