package transfer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// FuzzID: an accepted ID is written the same, and no other text is accepted.
func FuzzID(f *testing.F) {
	for _, s := range []string{"", "01890a5d-ac96-774b-bcce-b302099a8057", "01890A5D-AC96-774B-BCCE-B302099A8057", "01890a5d-ac96-474b-bcce-b302099a8057",
		"01890a5dac96774bbcceb302099a8057", "-1890a5d-ac96-774b-bcce-b302099a8057", "099a8057", "01890a5d-ac96-774b-bcce-b302099a805\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err == nil && (id.IsZero() || id.String() != strings.ToLower(s) || CheckIDSuffix(s) != nil) {
			t.Fatalf("%q is the ID %s", s, id)
		}
		if err != nil && (KindOf(err) != KindUsage || !id.IsZero()) {
			t.Fatalf("%q is refused with %v and %s", s, err, id)
		}
		if CheckIDSuffix(s) == nil && (len(s) < 6 || strings.ContainsAny(s, "%*> .\n")) {
			t.Fatalf("%q may stand for an ID", s)
		}
		data, err := json.Marshal(id)
		var back ID
		if err != nil || json.Unmarshal(data, &back) != nil || back != id {
			t.Fatalf("%s through JSON became %s, %v", id, back, err)
		}
		id.Time()
	})
}

// FuzzAgentName: a name has one spelling, and its token stays one token.
func FuzzAgentName(f *testing.F) {
	for _, s := range []string{"", "ab", "Alpha", "A B", "a.b", "a/b", "a%b", "é-2", "COORDINATION", strings.Repeat("x", 28), "a\nb", "*", ">"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if token := Token(s); strings.ContainsAny(token, ".*> \t\r\n\x00") || s != "" && token == "" {
			t.Fatalf("the token of %q is %q", s, token)
		}
		if p, err := ParsePath(Token(s)); err != nil || string(p) != strings.ToUpper(s) {
			t.Fatalf("the token of %q stands for %q, %v", s, string(p), err)
		}
		name, err := ParseAgentName(s)
		if err != nil {
			if KindOf(err) != KindUsage || name != "" {
				t.Fatalf("%q: %q, %v", s, name, err)
			}
			return
		}
		if again, err := ParseAgentName(string(name)); err != nil || again != name || len(name) < 2 || len(name) > 28 {
			t.Fatalf("%q is the name %q, and that %q, %v", s, name, again, err)
		}
		if at, rest, err := SplitAgent(string(name) + ":x"); err != nil || at != name || rest != "x" {
			t.Fatalf("%s:x is %s and %s, %v", name, at, rest, err)
		}
	})
}

// FuzzDuration: an accepted duration can be written, and is read as the same value.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"", "0", "-1", "-1s", "90s", "15m", "24h", "1h2m3.4s", "9999999h", "1e9s", "１s", ".s", "2562047h47m16.854775807s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			if KindOf(err) != KindUsage || d != 0 {
				t.Fatalf("%q: %v, %v", s, d, err)
			}
			return
		}
		if d < -1 {
			t.Fatalf("%q is %v", s, time.Duration(d))
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q is %v, and that %v, %v", s, d, again, err)
		}
	})
}

// FuzzSize: a size is a number of bytes below the limit.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"", "0", "65536", "64K", "64k", "64KiB", "64kb", "1M", "1g", "4294967295G", "-1", "+1", "1e3", "0x10", "1_000", "KK", "IB", "B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			if KindOf(err) != KindUsage || n != 0 {
				t.Fatalf("%q: %d, %v", s, n, err)
			}
			return
		}
		if n < 0 || n > 1<<40 || strings.Trim(s, "0123456789kKmMgGiIbB") != "" {
			t.Fatalf("%q is %d", s, n)
		}
		FormatBytes(int64(n))
	})
}

// FuzzRequest: an accepted request is within its limits, is written and read as the same, and is accepted again.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `{"v":2,"id":"01890a5d-ac96-774b-bcce-b302099a8057","source":"AB","destination":"CD","items":[{"source":"/a%FF"}],"dest":"/b/"}`,
		`{"v":2,"id":"01890a5d-ac96-774b-bcce-b302099a8057","source":"AB","destination":"CD","items":[{"source":"a","dest":"d","mode":"text","disposition":"delete","to_encoding":"IBM-1047"},{"source":"**","resolved":{"base":"/x","into":true}}],"dest":"x","mode":"binary","checksum":"none","if_exists":"overwrite","durability":"process","priority":9,"job":"j","meta":{"k":"v"},"settings":{},"recovery_timeout":"-1"}`,
		`{"v":3}`, `{"v":2,"items":[{"source":""}]}`, `{"v":2,"priority":-1}`, `{"v":2,"rest":{"items":1}}`, `{"v":2,"recovery_timeout":"1s","meta":{"":""}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q Request
		if json.Unmarshal(data, &q) != nil || q.Check() != nil {
			return
		}
		if q.ID.IsZero() || len(q.Items) == 0 || len(q.Source) < 2 || len(q.Destination) < 2 || q.Priority < 0 || q.Priority > 9 {
			t.Fatalf("%s passes", data)
		}
		var paths []Path
		for _, it := range q.Items {
			if it.Dest.IsZero() {
				it.Dest = q.Dest
			}
			paths = append(paths, it.Source.Path, it.Dest.Path)
		}
		for _, p := range paths {
			if len(p) == 0 || len(p) > MaxPath || strings.ContainsRune(string(p), 0) {
				t.Fatalf("%s passes with the path %q", data, string(p))
			}
		}
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var again Request
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatalf("%s cannot be read again: %v", b, err)
		}
		c, err := json.Marshal(again)
		if err != nil || !bytes.Equal(b, c) {
			t.Fatalf("%s became %s, %v", b, c, err)
		}
		if err := again.Check(); err != nil {
			t.Fatalf("%s passes once and not twice: %v", b, err)
		}
	})
}
