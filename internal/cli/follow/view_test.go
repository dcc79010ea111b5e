package follow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ferry/internal/transfer"
)

// TestReplacedIsNotSkipped: a file that was replaced before it was read is not reported as one that is at the
// destination.
func TestReplacedIsNotSkipped(t *testing.T) {
	for _, c := range []struct {
		kinds      []transfer.Kind
		says, line string
	}{
		{[]transfer.Kind{transfer.KindSkipped, transfer.KindReplaced, transfer.KindReplaced},
			"ferry: skipped 1 file already at the destination\nferry: left out 2 files, each replaced before it was read\n", "0 files, 0 B in 0.00 s, 1 skipped, 2 replaced"},
		{[]transfer.Kind{transfer.KindReplaced}, "ferry: left out 1 file, each replaced before it was read\n", "0 files, 0 B in 0.00 s, 1 replaced"},
		{[]transfer.Kind{transfer.KindSkipped}, "ferry: skipped 1 file already at the destination\n", "0 files, 0 B in 0.00 s, 1 skipped"},
	} {
		p := &transfer.Progress{State: transfer.Successful}
		for _, kind := range c.kinds {
			p.Add(&transfer.Outcome{Type: transfer.ItemFile, Err: transfer.Errorf(kind, "x")})
		}
		var out, said bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		if err := NewView(cmd, false, false).Finish(p); err != nil || said.String() != c.says || !strings.HasSuffix(strings.TrimSpace(out.String()), c.line) {
			t.Errorf("%v: %v, %q, %q", c.kinds, err, said.String(), out.String())
		}
		if s := p.Summary(); s.FilesSkipped != int64(len(c.kinds)) || s.FilesReplaced != p.FilesReplaced {
			t.Errorf("%v: the summary is %+v", c.kinds, s)
		}
	}
}
