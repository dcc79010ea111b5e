package view

import (
	"encoding/json"
	"testing"

	"ferry/internal/transfer"
)

// Whoever reads --json finds names as they are, and the bytes of those that are not
// UTF-8 beside them.
func TestPathsForScripts(t *testing.T) {
	type object struct {
		Path transfer.Path   `json:"path"`
		All  []transfer.Path `json:"all,omitempty"`
		N    int             `json:"n"`
		In   []object        `json:"in,omitempty"`
	}
	for _, c := range []struct {
		in   object
		want string
	}{
		{object{Path: "100%.txt\n"}, `{"path":"100%.txt\n","n":0}`},
		{object{Path: "a\xff%", N: 7}, `{"path":"a�%","path_bytes":"Yf8l","n":7}`},
		{object{Path: "a", All: []transfer.Path{"b", "\xfe", ""}}, `{"path":"a","all":["b","�",""],"all_bytes":[null,"/g==",null],"n":0}`},
		{object{Path: "a", In: []object{{Path: "b"}, {Path: "\xffx"}}, N: 1}, `{"path":"a","n":1,"in":[{"path":"b","n":0},{"path":"�x","path_bytes":"/3g=","n":0}]}`},
	} {
		b, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(ForScripts(b)); got != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", b, got, c.want)
		}
	}
	for _, s := range []string{``, `{"a":"\u0000`, `"\u0000%4"`, `{"a":"\u0000%4"}`} {
		if got := string(ForScripts([]byte(s))); got != s {
			t.Errorf("%s became %s", s, got)
		}
	}
}

// FuzzForScripts: JSON stays JSON.
func FuzzForScripts(f *testing.F) {
	for _, s := range []string{`{"path":"\u0000a%FF","b":[1,"\u0000%FE",{"c":"\u0000x"}]}`, `["\u0000%FF"]`, `{"a":["\u0000%FF",null]}`, `{"\u0000":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if out := ForScripts(b); json.Valid(b) && !json.Valid(out) {
			t.Errorf("%q became %q", b, out)
		}
	})
}
