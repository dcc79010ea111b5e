package request

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// The names of a list are names of files, with any characters in them.
func TestListOfHostileNames(t *testing.T) {
	all := transfertest.Hostile()
	names := parseNames([]byte(strings.Join(all, "\x00") + "\x00"))
	if len(names) != len(all) {
		t.Fatalf("%d names became %d", len(all), len(names))
	}
	for n, name := range names {
		if string(name) != all[n] {
			t.Errorf("%q became %q", all[n], name)
		}
	}
	for n, it := range transfer.ItemsOf(names...) {
		q := &transfer.Request{Items: []transfer.RequestItem{it}}
		if it.Source != transfer.File(transfer.Path(all[n])) || IsStream(q) {
			t.Errorf("%q is the source %+v", all[n], it.Source)
		}
	}
}
