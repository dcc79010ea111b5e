package follow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A dry run names the exits at both ends that decide when the transfer starts, and no other.
func TestPreviewNamesExits(t *testing.T) {
	source := "the source-start exit of agent ALPHA decides when the transfer starts: it may cancel it, and leave out and rename files\n"
	dest := "the destination-start exit of agent BETA decides when the transfer starts: it may cancel it\n"
	for _, c := range []struct {
		exits []transfer.CallPoint
		want  string
	}{
		{nil, ""},
		{[]transfer.CallPoint{transfer.SourceStartExit}, source},
		{[]transfer.CallPoint{transfer.DestStartExit}, dest},
		{[]transfer.CallPoint{transfer.DestStartExit, transfer.SourceStartExit}, source + dest},
		{[]transfer.CallPoint{transfer.SourceEndExit, transfer.DestEndExit, transfer.MonitorExit}, ""},
	} {
		out, cmd := &bytes.Buffer{}, &cobra.Command{}
		cmd.SetOut(out)
		q := &transfer.Request{Source: "ALPHA", Destination: "BETA", Dest: transfer.File("in/")}
		showPreview(cmd, q, &wire.Preview{Exits: c.exits}, &transfer.Counts{})
		if _, got, _ := strings.Cut(out.String(), "\n"); got != c.want {
			t.Errorf("the exits %v: %q, want %q", c.exits, got, c.want)
		}
	}
}
