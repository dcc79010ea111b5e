package follow

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"ferry/internal/cli/output"
	"ferry/internal/cli/output/outputtest"
	"ferry/internal/transfer"
)

var update = flag.Bool("update", false, "write the screens anew")

// The output at 40, 80 and 200 columns, with and without UTF-8, is kept in testdata.
func TestScreens(t *testing.T) {
	large := &transfer.Progress{State: transfer.Running, Current: "/srv/out/überweisungen-2026-11-22.dat", Lane: "direct", Found: transfer.Found{FilesTotal: 1, BytesTotal: 2 << 30, Walked: true}, Traffic: transfer.Traffic{BytesSent: 850 << 20, Epoch: 1}}
	many := &transfer.Progress{State: transfer.Running, Current: "/srv/out/many/f00123.xml", Counts: transfer.Counts{Files: 9_120}, Found: transfer.Found{FilesTotal: 20_000, BytesTotal: 20_000 << 10, Walked: true}, Traffic: transfer.Traffic{BytesSent: 9 << 20, Epoch: 2, BytesWire: 3 << 20}, Promised: transfer.Promised{Compress: transfer.CompressFast}}
	walking := &transfer.Progress{State: transfer.Running, Counts: transfer.Counts{Files: 12}, Found: transfer.Found{FilesTotal: 4_711, BytesTotal: 1 << 30}, Traffic: transfer.Traffic{BytesSent: 5 << 20}}
	again := &transfer.Progress{State: transfer.Negotiating, Found: transfer.Found{FilesTotal: 1, BytesTotal: 2 << 30, Walked: true}, Traffic: transfer.Traffic{BytesSent: 850 << 20, Epoch: 3}}
	ending := &transfer.Progress{State: transfer.Settling, Counts: transfer.Counts{Files: 3, Bytes: 3 << 20}, Found: transfer.Found{FilesTotal: 3, BytesTotal: 3 << 20, Walked: true}, Traffic: transfer.Traffic{BytesSent: 3 << 20}}
	var shown strings.Builder
	for _, s := range []output.Screen{{Width: 40}, {Width: 80}, {Width: 200}, {Width: 80, ASCII: true}, {Width: 21}} {
		fmt.Fprintf(&shown, "%d columns", s.Width)
		if s.ASCII {
			shown.WriteString(", ASCII")
		}
		shown.WriteString(":\n")
		for _, p := range []*transfer.Progress{large, many, walking, again, ending} {
			line := bar(s, p, 107.3*(1<<20))
			if n := utf8.RuneCountInString(line); n >= s.Width {
				t.Errorf("%d columns hold %d characters: %s", s.Width, n, line)
			}
			shown.WriteString("  |" + line + "\n")
		}
		var out bytes.Buffer
		s.Table(&out, [][]string{
			{"ID", "STATE", "FROM", "TO", "FILES", "FAILED", "BYTES", "SUBMITTED", "JOB", "REASON"},
			{"01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "partial", "ALPHA", "BETA", "1", "1", "4 B", "2026-11-20 22:00:00", "nightly", "/srv/in/größe.xml exists already; remove it or use --if-exists overwrite"},
			{"01a20772-f3c1-7aab-9803-6cf40de780e6", "successful", "ALPHA", "BETA", "20000", "0", "19.5 MiB", "2026-11-20 22:00:04", "nightly", ""},
		})
		for l := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if n := utf8.RuneCountInString(l); n >= s.Width && s.Width >= 40 {
				t.Errorf("%d columns hold %d characters: %s", s.Width, n, l)
			}
			shown.WriteString("  |" + l + "\n")
		}
	}
	outputtest.Screens(t, *update, shown.String())
}
