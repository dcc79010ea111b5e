package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
)

// A command that did its work and cannot write its output says so, and its result code is not 0. A reader that is gone
// has read enough.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		err  error
		args []string
		code int
	}{
		{syscall.ENOSPC, []string{"ferry", "version"}, transfer.CodeOutput},
		{syscall.ENOSPC, []string{"ferry", "codepages", "--json"}, transfer.CodeOutput},
		{syscall.ENOSPC, []string{"ferry", "no-such-command"}, transfer.CodeUsage},
		{syscall.EPIPE, []string{"ferry", "version"}, transfer.CodeSuccess},
		{nil, []string{"ferry", "version"}, transfer.CodeSuccess},
	} {
		var stderr strings.Builder
		code := Main("test", c.args, failing{c.err}, &stderr)
		said := strings.Contains(stderr.String(), "standard output could not be written: write: ")
		if code != c.code || said != (code == transfer.CodeOutput) {
			t.Errorf("%q with %v ends with %d: %s", c.args, c.err, code, stderr.String())
		}
	}
}

// failing is an output with an error for each write; nil: it takes all.
type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, fmt.Errorf("write: %w", f.err)
	}
	return len(p), nil
}
