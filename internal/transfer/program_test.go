package transfer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func programRequest() *Request {
	return &Request{Version: RequestVersion, ID: NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: ItemsOf("a"), Dest: File("b")}
}

func TestTriggers(t *testing.T) {
	for text, want := range map[string]Trigger{
		"exist:/a:b":      {When: TriggerExist, Files: []Path{"/a:b"}},
		"noexist:x":       {When: TriggerNoExist, Files: []Path{"x"}},
		"size>=10K:in/a":  {When: TriggerSize, Size: 10 << 10, Files: []Path{"in/a"}},
		"size>=0:in/a=>b": {When: TriggerSize, Files: []Path{"in/a=>b"}},
	} {
		got, err := ParseTrigger(text)
		if err != nil || got.When != want.When || got.Size != want.Size || len(got.Files) != 1 || got.Files[0] != want.Files[0] {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "exist", "exist:", "soon:a", "size:a", "size>=:a", "size>=1", "size>=x:a", "exist:a\x00b"} {
		if got, err := ParseTrigger(text); KindOf(err) != KindUsage {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for name, bad := range map[string]Trigger{
		"none":          {When: TriggerExist},
		"many":          {When: TriggerExist, Files: make([]Path, MaxTriggerFiles+1)},
		"negative":      {When: TriggerSize, Size: -1, Files: []Path{"a"}},
		"size of exist": {When: TriggerExist, Size: 1, Files: []Path{"a"}},
	} {
		q := programRequest()
		q.Triggers = []Trigger{bad}
		if err := q.Check(); err == nil {
			t.Errorf("%s: a request with %+v passes", name, bad)
		}
	}
	two := Trigger{When: TriggerNoExist, Files: []Path{"a", "b"}}
	if got := two.Unmet(); got != "a, and each of 1 more, exists" {
		t.Errorf("the unmet trigger is described as %q", got)
	}
	q := programRequest()
	if q.Triggers = make([]Trigger, MaxTriggers+1); KindOf(q.Check()) != KindUsage {
		t.Error("too many triggers pass")
	}
}

func TestCodes(t *testing.T) {
	for _, c := range []struct {
		codes Codes
		in    []int
		out   []int
	}{
		{"", []int{0}, []int{1, -1}},
		{"0,4", []int{0, 4}, []int{1, 5}},
		{"2-4,9", []int{2, 3, 4, 9}, []int{0, 1, 5, 10}},
	} {
		for _, n := range c.in {
			if !c.codes.Has(n) {
				t.Errorf("%q has not %d", c.codes, n)
			}
		}
		for _, n := range c.out {
			if c.codes.Has(n) {
				t.Errorf("%q has %d", c.codes, n)
			}
		}
	}
	for _, bad := range []Codes{"x", "1,", ",", "4-2", "-1", "1-", "1--2", " 1", "3000000000", Codes(strings.Repeat("1,", 64) + "1")} {
		if _, err := bad.ranges(); KindOf(err) != KindUsage || bad.Has(1) {
			t.Errorf("%q are codes: %v", bad, err)
		}
	}
}

func TestProgramsAreChecked(t *testing.T) {
	good := []Program{{Name: "load.sh"}, {Name: "/opt/bin/load.sh"}, {Name: "C:/bin/load.cmd"}, {Name: "db/load.sh", Args: []string{"", "a\nb", "$HOME", strings.Repeat("x", MaxProgramBytes/2)}, Timeout: Duration(time.Second), Retries: 3, Pause: Duration(time.Minute), Success: "0,4-8"}}
	bad := map[string]Program{
		"no name": {}, "nothing but a root": {Name: "/"}, "above a root": {Name: "/../sh"}, "a share": {Name: "//host/sh"}, "hidden beneath a root": {Name: "/bin/.sh"}, "above": {Name: "../sh"}, "above within": {Name: "a/../../sh"}, "itself": {Name: "."}, "hidden": {Name: ".x"},
		"empty part": {Name: "a//b"}, "ends in a slash": {Name: "a/"}, "backslash": {Name: `..\sh`}, "volume": {Name: "c:sh"}, "NUL": {Name: "a\x00b"}, "line": {Name: "a\nb"},
		"bytes in the name": {Name: "a\xff"}, "long": {Name: strings.Repeat("a", MaxProgramName+1)}, "many arguments": {Name: "a", Args: make([]string, MaxProgramArgs+1)},
		"large": {Name: "a", Args: []string{strings.Repeat("x", MaxProgramBytes)}}, "NUL in an argument": {Name: "a", Args: []string{"x\x00"}}, "bytes in an argument": {Name: "a", Args: []string{"\xff"}},
		"time": {Name: "a", Timeout: -1}, "long time": {Name: "a", Timeout: Duration(25 * time.Hour)}, "pause": {Name: "a", Pause: Duration(25 * time.Hour)},
		"retries": {Name: "a", Retries: -1}, "many retries": {Name: "a", Retries: MaxRetries + 1}, "codes": {Name: "a", Success: "x"},
	}
	for _, at := range CallPoints() {
		q := programRequest()
		q.Programs = &Programs{}
		for n := range good {
			q.Programs.Set(at, &good[n])
			if err := q.Check(); err != nil {
				t.Errorf("%s %+v: %v", at, good[n].Name, err)
			}
		}
		for name, p := range bad {
			q.Programs.Set(at, &p)
			if err := q.Check(); err == nil || !strings.Contains(err.Error(), string(at)) && name != "codes" {
				t.Errorf("%s, %s: %v", at, name, err)
			}
		}
	}
	q := programRequest()
	q.Delivery, q.Programs = DeliveryStored, &Programs{PreDest: &good[0]}
	if KindOf(q.Check()) != KindUsage {
		t.Error("stored delivery with a program before it passes")
	}
	q.Programs = &Programs{PreSource: &good[0], PostDest: &good[0], PostSource: &good[0]}
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	if d, s := q.Programs.OfDest(), q.Programs.OfSource(); d.PostDest == nil || d.PreSource != nil || d.PostSource != nil || s.PostDest != nil || s.PreSource == nil {
		t.Errorf("of the destination %+v, of the source %+v", d, s)
	}
	if (*Programs)(nil).OfDest() != nil || (&Programs{PreSource: &good[0]}).OfDest() != nil || (*Programs)(nil).At(PreDest) != nil {
		t.Error("a request without programs has some")
	}
}

// FuzzProgram: an accepted program is within its limits, names nothing outside a directory, and survives JSON
// unchanged. An accepted trigger does, too.
func FuzzProgram(f *testing.F) {
	for _, s := range []string{"load.sh", "../x", `{"name":"a","args":["b c"],"success":"0,4-8","timeout":"30s"}`, `{"name":"a/../b"}`, `{"name":"/a","retries":101}`,
		"exist:a", "size>=10M:/a", `{"name":"a\u0000"}`, `{"name":"a","success":"1-2-3"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tr, err := ParseTrigger(s); err == nil {
			if q := programRequest(); true {
				q.Triggers = []Trigger{tr}
				if err := q.Check(); err != nil {
					t.Fatalf("%q is read and refused: %v", s, err)
				}
			}
		} else if KindOf(err) != KindUsage {
			t.Fatalf("%q: %v", s, err)
		}
		p := Program{Name: s}
		if json.Unmarshal([]byte(s), &p) != nil {
			p = Program{Name: s, Args: []string{s}, Success: Codes(s)}
		}
		if p.Check(PreSource) != nil {
			return
		}
		if strings.HasPrefix(p.Name, "/") || strings.Contains("/"+p.Name+"/", "/../") || strings.ContainsAny(p.Name, "\x00\n\\:") || len(p.Args) > MaxProgramArgs || p.Time() > MaxProgramTime || p.Time() <= 0 {
			t.Fatalf("%+v passes", p)
		}
		b, err := json.Marshal(p)
		var back Program
		if err != nil || json.Unmarshal(b, &back) != nil || back.Name != p.Name || back.Success != p.Success || strings.Join(back.Args, "\x00") != strings.Join(p.Args, "\x00") {
			t.Fatalf("%+v became %+v, %v", p, back, err)
		}
	})
}
