//go:build linux

// Package link_test breaks the network between real processes. Source, destination and queue manager have a network
// name space each, joined by a bridge. Commands run on the host, which reaches the queue manager at all times. Packets
// are lost, delayed or reordered only by cuts and throttling, except in TestCampaignNetworkBad and in the campaigns
// with a delayed link.
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

// run runs a command of the host to its end. Its arguments are the words of line, and more, which may have spaces.
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

// hostSlack returns the factor of permitted times for the host: the short form runs beside other work, and its times may be
// a fifth longer. Bytes and resumes have the same limits in both forms.
func hostSlack() float64 {
	if os.Getenv("COUNT") == "short" {
		return 1.2
	}
	return 1
}
