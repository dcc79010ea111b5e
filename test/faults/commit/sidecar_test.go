//go:build linux

package commit_test

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	records "ferry/internal/content/record"
	"ferry/internal/place/local/intent"
)

// Sidecars of record files, in the product's format.
const (
	fixed    = `{"v":1,"recfm":"FB","lrecl":80,"blksize":27920,"encoding":"IBM-1047"}` + "\n"
	variable = `{"v":1,"recfm":"VB","lrecl":255,"blksize":27998}` + "\n"
)

func sideOf(name string) string { return records.SidecarPath(name) }

// sidecarOf returns the sidecar of an item, or nil if the work has no expectation about it.
func (w *work) sidecarOf(item int) *intent.Sidecar {
	if w.library != "" {
		return &intent.Sidecar{Data: []byte(w.library), Above: true}
	}
	data, ok := w.sidecar[w.itemName(item)]
	switch {
	case !ok:
		return nil
	case data == "":
		return &intent.Sidecar{}
	}
	return &intent.Sidecar{Data: []byte(data)}
}

// sideAt returns the path of a file's sidecar beneath the destination.
func (w *work) sideAt(name string) string {
	if w.library != "" {
		return sideOf(path.Dir(name))
	}
	return sideOf(name)
}

// sideWanted returns the required sidecar of a file with the given content, or "" for none.
func (w *work) sideWanted(k int, content []byte) string {
	name := w.files[k].name
	switch old, had := w.old[name]; {
	case w.library != "":
		return w.library
	case had && old == string(content):
		return w.old[sideOf(name)]
	case w.whole(k, content):
		return w.sidecar[name]
	}
	return "" // it is another program's file
}

// flanked checks the sidecar at the moment when the file gets its name. A consumer that sees the file must be able to
// read it.
func (a *agent) flanked(k int) {
	name := a.w.files[k].name
	want := a.w.sideWanted(k, a.w.arrives(k))
	if want == "" {
		return // the sidecar of another file is removed after it
	}
	if got, err := a.mem.ReadFile("/dst/" + a.w.sideAt(name)); err != nil || string(got) != want {
		a.see("I2: beside %q lies %q when it gets its name, %v; it must be %q", name, got, err, want)
	}
}

// sidecarHolds checks the end: each file has its own attributes beside it, and no sidecar belongs to a missing or
// different file.
func (a *agent) sidecarHolds(c *crash) (wrong []string) {
	w := a.w
	owned := map[string]bool{sideOf("LIB"): w.library != ""}
	for k, f := range w.files {
		at := w.sideAt(f.name)
		owned[at] = true
		if c != nil && !c.promised(w) && c.state.Items[uint64(k)].Outcome != nil {
			continue // a recorded sidecar may be missing or incomplete
		}
		if w.consumer || c != nil && c.taken["/dst/"+w.lands(f.name)] > 0 {
			continue // a consumer reads the sidecar and leaves it
		}
		content, err := a.mem.ReadFile("/dst/" + w.lands(f.name))
		if err != nil && w.library != "" {
			continue
		}
		want := ""
		if err == nil {
			want = w.sideWanted(k, content)
		}
		if got, _ := a.mem.ReadFile("/dst/" + at); string(got) != want {
			wrong = append(wrong, fmt.Sprintf("I2: beside %q (%d bytes, %v) lies %q at the end; it must be %q", f.name, len(content), err, got, want))
		}
	}
	a.mem.Files("/dst", func(name string, content []byte) {
		name = strings.TrimPrefix(name, "/dst/")
		if records.IsSidecar(path.Base(name)) && !owned[name] && !bytes.Equal(content, []byte(w.old[name])) {
			wrong = append(wrong, fmt.Sprintf("I5: %q lies beside no record file", name))
		}
	})
	return wrong
}
