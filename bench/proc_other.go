//go:build !linux

package bench

import (
	"os/exec"
	"runtime"
	"time"

	"ferry/internal/transfer"
)

// notHere returns the error of all functions that need Linux's /proc.
func notHere() error {
	return transfer.Errorf(transfer.KindNotBuilt, "`ferry-bench` measures processes through /proc of Linux; it does not run on %s", runtime.GOOS).
		WithHint("run it on Linux")
}

func cpuTime(int) (time.Duration, error) { return 0, notHere() }
func peakRSS(int) (int64, error)         { return 0, notHere() }
func resetPeak(int) error                { return notHere() }

type starter struct{}

func newStarter(int, int) (*starter, error) { return nil, notHere() }

func (*starter) start(*exec.Cmd) error { return notHere() }
func (*starter) stop()                 {}

func space(string) (int64, error) { return 0, notHere() }

func openFiles() (uint64, error) { return 0, notHere() }
