//go:build !linux

package script_test

import (
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// unprivileged needs Linux; elsewhere the scripts that use it fail and say so.
func unprivileged() {
	fmt.Fprintln(os.Stderr, "unprivileged: there is no way here to give up a privilege for one program; run these scripts on Linux")
	os.Exit(125)
}

func fifo(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "fifo PATH")
	ts.Fatalf("fifo: named pipes are made on Linux only; run these scripts there")
}
