//go:build linux

// Package faults_test breaks things under a running network for as long as it
// takes: full disks, and whatever else needs rights, time or both. It is run by
// make test-faults.
package faults_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

var ferry string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if _, asked := os.LookupEnv("CAMPAIGN"); !asked {
		fmt.Println("test/faults runs under make test-faults, and nothing of it ran here")
		return 0
	}
	dir, err := os.MkdirTemp("", "ferry-faults-")
	if err == nil {
		defer os.RemoveAll(dir)
		ferry, err = network.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const mib = 1 << 20

// small gives a file system of 32 MiB.
func small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small file system, which only root may do: run it as root")
	}
	dir := t.TempDir()
	must(t, syscall.Mount("ferry-faults", dir, "tmpfs", 0, "size=32m"))
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill takes all but the last few MiB of a file system, until it is removed.
func fill(t *testing.T, dir string, leave int64) (remove func()) {
	t.Helper()
	name := dir + "/ballast"
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	must(t, syscall.Fallocate(int(f.Fd()), 0, 0, 32*mib-leave))
	return func() { must(t, os.Remove(name)) }
}

// A destination whose disk is full makes the transfer wait and say so, and no
// item fails for it; when there is space again the transfer goes on by itself.
func TestFullDisk(t *testing.T) {
	for what, files := range map[string][2]int64{"one file": {1, 12 * mib}, "many files": {300, 40 << 10}, "files of some size": {6, 2 * mib}} {
		t.Run(what, func(t *testing.T) {
			disk := small(t)
			n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Roots: map[string]string{"BETA": disk}})
			n.Files("ALPHA", "in", 1, int(files[0]), files[1])
			remove := fill(t, disk, 3*mib)

			s := n.SendAsync("-r", "ALPHA:in", "BETA:out/")
			p := n.WaitState(s.ID(), "waiting")
			if p.Reason == nil || p.Reason.Kind != transfer.KindNoSpace || !strings.Contains(p.Reason.Text, "out/in") {
				t.Errorf("it waits, and the reason it gives is %s: %s", p.Reason.Kind, p.Reason)
			}
			if a := n.AgentOf("BETA"); a.State != "READY" && a.State != "ACTIVE" {
				t.Errorf("BETA is %s while its disk is full", a.State)
			}
			remove()

			sum := s.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "in", "BETA", "out/in")
			if records := n.Audit(sum.ID); len(n.Outcomes(records, "destination")) != int(files[0])+1 {
				t.Errorf("the destination has %d items on record, not %d", len(n.Outcomes(records, "destination")), files[0]+1)
			}
			n.Sound()
			n.NoTemporaries("BETA")
		})
	}
}

// Several transfers that together do not fit finish one after another as space
// comes: none of them holds what all of them would need.
func TestFullDiskWithSeveralTransfers(t *testing.T) {
	disk := small(t)
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Roots: map[string]string{"BETA": disk}})
	var all []*network.Sending
	for k := range 8 {
		n.File("ALPHA", fmt.Sprint("in/", k), uint64(k), 6*mib)
		all = append(all, n.SendAsync(fmt.Sprint("ALPHA:in/", k), "BETA:out/"))
	}
	n.Until("a transfer waits for space", func() bool {
		for _, s := range all {
			if _, ok := s.Saw(func(p network.Progress) bool {
				return p.State == "waiting" && p.Reason != nil && p.Reason.Kind == transfer.KindNoSpace
			}); ok {
				return true
			}
		}
		return false
	})
	for left := 8; left > 0; {
		n.Arrived("BETA", "out", 1)
		for name := range n.Landed("BETA", "out") {
			network.SameTree(t, n.Path("ALPHA", "in/"+name), n.Path("BETA", "out/"+name))
			must(t, os.Remove(n.Path("BETA", "out/"+name)))
			left--
		}
	}
	for _, s := range all {
		s.Wait().Ends("successful", 0)
	}
	n.NoTemporaries("BETA")
}
