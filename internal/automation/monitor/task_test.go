package monitor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Each item of a task may have its own destination, with variables, and the destination agent may be one, too.
func TestItemsWithDestinations(t *testing.T) {
	d := files(func(d *Definition) {
		d.To, d.Batch, d.Request.Dest = "${FileName{token=1}{separator=_}}", 2, transfer.Location{}
		d.Request.Items = []transfer.RequestItem{{Source: transfer.File(TheFile), Dest: transfer.File("data/${FileName}")}, {Source: transfer.File("${FilePath}.ctl"), Dest: transfer.File("control/")}}
	})
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	s := &triggerVariables{agent: "ALPHA", monitor: "M", transfer: transfer.NewID(time.Now()), now: time.Now()}
	for _, name := range []string{"gamma_1", "gamma_2"} {
		s.files = append(s.files, file{Found: place.Found{Path: transfer.Path("/in/" + name), Rel: transfer.Path(name)}})
	}
	q, err := d.request(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, it := range q.Items {
		got += fmt.Sprintf("%s:%s ", it.Source, it.Dest)
	}
	want := "/in/gamma_1:data/gamma_1 /in/gamma_1.ctl:control/ /in/gamma_2:data/gamma_2 /in/gamma_2.ctl:control/ "
	if got != want || q.Destination != "GAMMA" || !q.Dest.IsZero() || q.Base != "" {
		t.Errorf("the request is to %s:%s from %q with %s, not %s", q.Destination, q.Dest, q.Base, got, want)
	}
	if d.Destination() != transfer.AgentName(d.To) || d.Request.Destination == "" {
		t.Errorf("the destination shown is %s of %s", d.Destination(), d.Request.Destination)
	}
}

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
