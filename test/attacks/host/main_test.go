//go:build linux

// Package host_test attacks a network of real processes on one host: with other users of the host, thousands of
// strangers at every port, port scanners, and searches for secrets outside of their files. It runs in a network
// namespace of its own, so that every port in it is Ferry's, and needs root for that. make test-attacks runs it;
// ATTACKS is short or full.
package host_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"ferry/test/flow/network"
)

// ferry is the binary under test, built once.
var ferry string

// full selects all tests, with the counts that docs/security.md names.
var full = os.Getenv("ATTACKS") == "full"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("ATTACKS") == "" {
		fmt.Println("attacks on a host are made under make test-attacks, and none was made here")
		return 0
	}
	if os.Getenv("ATTACKS_APART") == "" {
		return apart()
	}
	dir, err := os.MkdirTemp("", "ferry-attacks-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // other users run it, too
	}
	if err == nil {
		ferry, err = network.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// apart runs this program again in a network namespace with its loopback interface up.
func apart() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := exec.Command("sh", append([]string{"-c", `ip link set lo up && exec "$0" "$@"`, self}, os.Args[1:]...)...)
	c.Env = append(os.Environ(), "ATTACKS_APART=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := c.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "in a network namespace (which takes root): %v\n", err)
		return 1
	}
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// count returns the number of repetitions of a test.
func count(short, long int) int {
	if full {
		return long
	}
	return short
}
