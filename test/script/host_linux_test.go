package script_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// unprivileged runs a program that may read and write only as permissions allow, also where the tests run as root.
func unprivileged() {
	runtime.LockOSThread() // this thread gives up its privileges and then becomes the program
	if os.Geteuid() == 0 {
		for _, c := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				fail("giving up privileges: %v", err)
			}
		}
	}
	if len(os.Args) < 2 {
		fail("usage: unprivileged PROGRAM ARG...")
	}
	name, err := exec.LookPath(os.Args[1])
	if err != nil {
		fail("%v", err)
	}
	fail("%s: %v", name, syscall.Exec(name, os.Args[1:], os.Environ()))
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(125)
}

func fifo(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "fifo PATH")
	ts.Check(unix.Mkfifo(ts.MkAbs(args[0]), 0o600))
}
