package transfer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	cliaudit "ferry/internal/cli/audit"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/wire"
)

// FuzzShown: answers of coordination and agents are shown without a panic, and without control characters of a
// terminal.
func FuzzShown(f *testing.F) {
	const id = `"01890a5d-ac96-774b-bcce-b302099a8057"`
	for _, s := range []string{
		`{"v":1,"progress":{"id":` + id + `,"state":"successful","source":"ALPHA","destination":"BETA","lane":"queue","job":"a\u001b[2Jb"}}`,
		`{"v":1,"progress":{"state":"par\u001bked","failures":[{"item":1}]}}`,
		`{"v":1,"progress":{"state":"partial","failures":[{"item":1,"error":{"kind":3,"text":"a\nb"}}],"files_failed":3,"reason":{"kind":200}}}`,
		`{"v":1,"agents":[{"agent":"ALPHA","state":"READY","host":"h\u0007","roots":["/a\nb"]}]}`,
		`{"v":1,"agent":"A1","incarnation":"0000000000000001","n":1,"time":"2026-03-01T12:00:00Z","event":"accepted","request":{"more_sources":1}}`,
		`{"v":1,"agent":"A1","incarnation":"0000000000000001","n":1,"time":"2026-03-01T12:00:00Z","event":"item","items":[{"item":1,"digest":"x\u001b"},{"item":2}]}`,
		`{"v":1,"agent":"A1","incarnation":"0000000000000001","n":1,"time":"2026-03-01T12:00:00Z","event":"submitted","originator":"u\u009b@h","text":"t"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if r, err := audit.Decode(data); err == nil {
			cliaudit.ShowRecord(cmd, &r)
			output.Table(&out, [][]string{{output.Stamp(r.Time), string(r.Agent), string(r.Event), r.Transfer.String(), cliaudit.Describe(&r)}})
		}
		if a, err := wire.DecodeAnswer(data); err == nil {
			if a.Progress != nil {
				showTransfer(cmd, a.Progress, client.Recorded{}, true)
				v := follow.NewView(cmd, false, false)
				v.Show(a.Progress)
				v.Finish(a.Progress)
				json.Marshal(view.TransferOf(a.Progress))
			}
			for _, g := range a.Agents {
				output.Table(&out, [][]string{{string(g.Agent), g.Status, g.Host, g.Mode, g.Reason, strings.Join(g.Roots, " ")}})
			}
		}
		shown := out.String()
		if bad := strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && (r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0) }); bad >= 0 {
			t.Fatalf("%q is shown with a control character: %q", data, shown[max(0, bad-20):min(len(shown), bad+20)])
		}
	})
}
