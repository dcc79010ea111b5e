package template

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// The value of a parameter is exactly these bytes.
func TestHostileNames(t *testing.T) {
	q := &transfer.Request{Version: transfer.RequestVersion, Source: "ALPHA", Destination: "BETA", Dest: transfer.File("in/${x}"),
		Items: transfer.ItemsAt(transfer.File("out/${x}"), transfer.Match("out/${x}/*.csv"))}
	one, err := New("t", q, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range transfertest.Hostile() {
		got, err := one.Fill(map[string]string{"x": name})
		if strings.Contains("\\"+name+"\\", `\.\`) || strings.Contains("\\"+name+"\\", `\..\`) {
			if err == nil {
				t.Errorf("%q leads to %s", name, got.Dest)
			}
			continue
		}
		p := transfer.Path(name)
		if err != nil || got.Dest != transfer.File("in/"+p) || got.Items[0].Source != transfer.File("out/"+p) || got.Items[1].Source != transfer.Match(transfer.Path("out/"+transfer.Literally(name)+"/*.csv")) {
			t.Errorf("%q is %+v, %v", name, got, err)
		}
	}
}
