//go:build linux

// Package link_test breaks the network between real processes. Source,
// destination and queue manager have a network name space each, joined by a
// bridge; the host, where people ask, reaches the queue manager at all times.
// There is no loss, delay or reordering of packets but what cutting and
// throttling bring about, except in the campaign that says so.
package link_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const mib = 1 << 20

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command of the host to its end: the words of a line, and others
// that may have spaces in them.
func run(t *testing.T, line string, more ...string) string {
	t.Helper()
	out, err := command(line, more...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", line, strings.Join(more, " "), err, out)
	}
	return out
}

func command(line string, more ...string) (string, error) {
	words := append(strings.Fields(line), more...)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	return string(out), err
}
