package follow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ferry/internal/transfer"
)

// The end of a transfer names some of its failed items, and counts the others.
func TestFinishNamesSomeFailures(t *testing.T) {
	for _, c := range []struct {
		failures int
		failed   int64
		named    int
		more     string
	}{{3, 3, 3, ""}, {20, 20, 20, ""}, {21, 21, 20, "ferry: 1 item more failed; "}, {100, 5000, 20, "ferry: 4980 items more failed; "}} {
		p := &transfer.Progress{State: transfer.Failed, Code: transfer.CodeNothing, Counts: transfer.Counts{FilesFailed: c.failed}}
		for range c.failures {
			p.Failures = append(p.Failures, transfer.Outcome{Type: transfer.ItemFile, Path: "a", Err: transfer.Errorf(transfer.KindMissing, "it is gone")})
		}
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&out)
		_ = NewView(cmd, false, true).Finish(p)
		if n := strings.Count(out.String(), "it is gone"); n != c.named || (c.more != "") != strings.Contains(out.String(), " more failed; `ferry audit show ") || !strings.Contains(out.String(), c.more) {
			t.Errorf("of %d failures %d are named:\n%s", c.failed, n, out.String())
		}
	}
}
