package monitor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A line of a trigger file goes to the destination of the task: to the file or the directory that it names.
func TestDestinationsOfLines(t *testing.T) {
	for to, want := range map[string]string{"": "a:x b:", ToFile: "line 2 of the trigger file names no destination", ToDirectory: "line 2"} {
		d := files(func(d *Definition) { d.TriggerFile = &TriggerFile{To: to} })
		s := &triggerVariables{agent: "ALPHA", monitor: "M", transfer: transfer.NewID(time.Now()), now: time.Now(), files: []file{{}}}
		q, err := d.request(s, []line{{1, "a", "x"}, {2, "b", ""}})
		got := ""
		if err == nil {
			for _, it := range q.Items {
				got += fmt.Sprintf("%s:%s ", it.Source, it.Dest)
			}
		} else {
			got = err.Error()
		}
		if !strings.HasPrefix(strings.TrimSpace(got), want) {
			t.Errorf("to %q: %s", to, got)
		}
	}
	d := files(func(d *Definition) { d.TriggerFile = &TriggerFile{To: ToDirectory} })
	s := &triggerVariables{agent: "ALPHA", monitor: "M", transfer: transfer.NewID(time.Now()), now: time.Now(), files: []file{{}}}
	if q, err := d.request(s, []line{{1, "a", "x"}, {2, "b", "y/"}}); err != nil || q.Items[0].Dest != transfer.File("x/") || q.Items[1].Dest != transfer.File("y/") {
		t.Errorf("to directories: %+v, %v", q, err)
	}
}
