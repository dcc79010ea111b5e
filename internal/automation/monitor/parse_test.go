package monitor

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/variable"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

func sample() *triggerVariables {
	when := time.Date(2026, 3, 1, 2, 3, 4, 567e6, time.UTC)
	f := func(name string) file {
		return file{Found: place.Found{Path: transfer.Path("/srv/out/sub/" + name), Rel: transfer.Path("sub/" + name), Size: 12, Mtime: when.UnixNano()}}
	}
	return &triggerVariables{agent: "ALPHA", monitor: "M", now: when, files: []file{f("Report.2026.Csv"), f("\xffü.txt")}}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]string{
		"${FilePath}":                                   "/srv/out/sub/Report.2026.Csv",
		"${FILENAME}":                                   "Report.2026.Csv",
		"${filename{toupper}}":                          "REPORT.2026.CSV",
		"${filename{toLower}}":                          "report.2026.csv",
		"${FileSize} ${SubPath}":                        "12 sub/Report.2026.Csv",
		"${FilePath{token=1}}":                          "srv",
		"${FilePath{token=-2}}":                         "sub",
		"${FileName{token=-1}{separator=.}}":            "Csv",
		"${FileName{separator=.}{token=2}}":             "2026",
		"${FileName{token=1}{separator=.}{toUpper}}":    "REPORT",
		"${FileName{token=4}{separator=.}}":             "!has no token 4",
		"${FileName{token=0}}":                          "!has no token 0",
		"${FileName{token=1}{separator=}}":              "!separator of a token is empty",
		"${FileName{shout}}":                            "!no form {shout}",
		"${LastModifiedDateUTC} ${LastModifiedTimeUTC}": "2026-03-01 02.03.04",
		"${LastModifiedDateUTC{format=yyyyMMdd}}":       "20260301",
		"${LastModifiedTimeUTC{format=HH:mm}}":          "02:03",
		"${CurrentTimeStampUTC}":                        "20260301020304567",
		"${CurrentTimeStampUTC{format=yy-DDD}}":         "26-060",
		"${AgentName} ${MonitorName} ${BatchSize}":      "ALPHA M 2",
		"${TransferId}":                                 transfer.ID{}.String(),
		"${FileName{file=2}{toUpper}}":                  "\xffÜ.TXT",
		"${FileName{file=-1}}":                          "\xffü.txt",
		"${FileName{file=3}}":                           "!the trigger has 2 files",
		"${Environment}":                                "!there is no variable Environment",
		"$${FileName}":                                  "${FileName}",
	} {
		got, err := variable.Expand(text, sample().bytes)
		if why, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", text, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%s becomes %q, %v", text, got, err)
		}
	}
	if got, err := variable.Expand("${FileName{file=2}}", sample().text); err != nil || got != "%FFü.txt" {
		t.Errorf("in a text it is %q, %v", got, err)
	}
	if _, err := variable.Expand("${FileName}", (&triggerVariables{}).bytes); err == nil || !strings.Contains(err.Error(), "nomatch has none") {
		t.Errorf("without a file: %v", err)
	}
}

// A file name that looks like a variable, or contains one, is text.
func TestValuesAreNotReadAgain(t *testing.T) {
	s := sample()
	s.files = s.files[:1]
	s.files[0].Path, s.files[0].Rel = "/in/${TransferId}*", "${TransferId}*"
	q, err := files(func(d *Definition) { d.Request.Job = "${FileName}" }).request(s, nil)
	if q.ID = transfer.NewID(time.Now()); err != nil && transfer.KindOf(err) != transfer.KindUsage || q.Job != "${TransferId}*" || q.Base != "in" || q.Items[0].Source.Path != "${TransferId}*" {
		t.Errorf("%+v, %v", q, err)
	}
}

// The name of a file that triggers is one argument of a program, with any characters in it.
func TestValuesInArguments(t *testing.T) {
	for _, name := range []string{"plain.csv", "a b\n\"c\" '$(touch x)' `id`; *", "${State}", "$${State}", "x$", "$", "{State}", "}"} {
		s := sample()
		s.transfer = transfer.NewID(time.Now())
		s.files = s.files[:1]
		s.files[0].Path, s.files[0].Rel = transfer.Path("/in/"+name), transfer.Path(name)
		d := files(func(d *Definition) {
			d.Request.Programs = &transfer.Programs{PostSource: &transfer.Program{Name: "load", Args: []string{"${FileName}", "${FileName}${state}", "${FileName}{State}", "$${FileName}"}}}
		})
		q, err := d.request(s, nil)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		got, err := variable.Arguments(q.Programs.PostSource, transfer.PostSource, map[string]string{variable.State: "partial"}, q.Meta)
		if want := []string{name, name + "partial", name + "{State}", "${FileName}"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q becomes %q and then %q, %v", name, q.Programs.PostSource.Args, got, err)
		}
	}
	d := files(func(d *Definition) {
		d.Request.Programs = &transfer.Programs{PreSource: &transfer.Program{Name: "load", Args: []string{"${State}"}}}
	})
	if err := d.Check(); err == nil || !strings.Contains(err.Error(), "there is no variable State for the pre-source program") {
		t.Errorf("a variable that is not there yet: %v", err)
	}
}

func TestDefinitionsThatAreRefused(t *testing.T) {
	for why, change := range map[string]func(*Definition){
		"monitor name":                 func(d *Definition) { d.Name = "a b" },
		"agent name":                   func(d *Definition) { d.Agent = "!" },
		"a path is empty":              func(d *Definition) { d.Dir = transfer.Location{} },
		"does not say which names":     func(d *Definition) { d.Match = "" },
		"has a '/'":                    func(d *Definition) { d.Match = "a/b" },
		"not UTF-8":                    func(d *Definition) { d.Match = "\xff" },
		"regular expression":           func(d *Definition) { d.Regex, d.Exclude = true, "(" },
		"poll interval":                func(d *Definition) { d.Poll = -1 },
		"levels of directories":        func(d *Definition) { d.Levels = 101 },
		"a batch of":                   func(d *Definition) { d.Batch = 1001 },
		"goes with no batch of":        func(d *Definition) { d.Batch, d.TriggerFile = 2, &TriggerFile{} },
		"goes with no batch and no tr": func(d *Definition) { d.Condition.Kind, d.Batch = ConditionNoMatch, 2 },
		"nomatch has none":             func(d *Definition) { d.Condition.Kind = ConditionNoMatch },
		"no variable Foo":              func(d *Definition) { d.Request.Job = "${Foo}" },
		"the trigger has 1 files":      func(d *Definition) { d.Request.Dest = transfer.File("${FileName{file=2}}") },
		"only a request on its way":    func(d *Definition) { d.Request.ID = transfer.NewID(time.Now()) },
		"no resolved destinations":     func(d *Definition) { d.Request.Items[0].Resolved = &transfer.Resolution{} },
		"no variable Bar":              func(d *Definition) { d.Request.Items[0].Dest = transfer.File("${Bar}") },
		"no variable Baz":              func(d *Definition) { d.To = "${Baz}" },
		"is not valid":                 func(d *Definition) { d.To = "${FilePath}" },
		"names no source":              func(d *Definition) { d.Request.Items = nil },
		"priority 99":                  func(d *Definition) { d.Request.Priority = 99 },
		"groups":                       func(d *Definition) { d.TriggerFile = &TriggerFile{Regex: "a"} },
	} {
		if err := files(change).Check(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q is not why: %v", why, err)
		}
	}
}

func TestConditionsAreRead(t *testing.T) {
	for text, want := range map[string]Condition{
		"notempty": {ConditionNotEmpty, 0}, "group": {ConditionGroup, 0}, "match": {ConditionMatch, 0}, "nomatch": {ConditionNoMatch, 0}, "size>=10": {ConditionSize, 10}, "size>=2M": {ConditionSize, 2 << 20},
		"unchanged=3": {ConditionUnchanged, 3}, "unchanged=0": {}, "unchanged=x": {}, "unchanged": {}, "size>10": {}, "size>=": {}, "size>=-1": {}, "Match": {},
	} {
		got, err := ParseCondition(text)
		if got != want || (err != nil) != (want == Condition{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
		if err == nil {
			if again, err := ParseCondition(got.String()); err != nil || again != got {
				t.Errorf("%q is written as %q, which is %+v, %v", text, got, again, err)
			}
		}
	}
}

func TestTriggerFiles(t *testing.T) {
	for _, c := range []struct {
		how     TriggerFile
		content string
		want    string
	}{
		{TriggerFile{}, "a,b\r\n\n c , d \nonly\n", "[{1 a b} {3 c d} {4 only }]"},
		{TriggerFile{}, "\xef\xbb\xbfa,b\r\n", "[{1 a b}]"},
		{TriggerFile{}, "\xff\xfea\x00,\x00b\x00\r\x00\n\x00", "[{1 a b}]"},
		{TriggerFile{}, "a\x00,\x00b\x00\r\x00\n\x00", "the text looks like UTF-16 without a byte-order mark"},
		{TriggerFile{DestFirst: true}, "b,a\nonly", "[{1 a b} {2 only }]"},
		{TriggerFile{Regex: `(\S+) (\S+)`}, "a b\n", "[{1 a b}]"},
		{TriggerFile{Regex: `send (.*)`}, "send a,b\n", "[{1 a,b }]"},
		{TriggerFile{Regex: `send (.*)`}, "send a\nkeep b\n", `line 2 of the trigger file: "keep b" does not match`},
		{TriggerFile{}, "a\n,b\n", "line 2 of the trigger file: a path is empty"},
		{TriggerFile{}, "a\x00b\n", "line 1 of the trigger file: path"},
		{TriggerFile{}, "\n \n", "names no source"},
		{TriggerFile{}, strings.Repeat("a\n", maxLines+1), "more than 10000 lines"},
	} {
		f, err := c.how.form()
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.lines([]byte(c.content))
		if text := fmt.Sprintf("%v", got); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v of %.30q: %s, %v", c.how, c.content, text, err)
		}
	}
}

// The lines of a trigger file are literal paths: none of them is a pattern, a queue, a data set or a path of another agent.
func TestTriggerFilesHaveLiteralPaths(t *testing.T) {
	d := files(func(d *Definition) { d.TriggerFile = &TriggerFile{} })
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		"/abs,/there": "/abs>/there", "../up": "../up>", "ALPHA:a,BETA:b": "ALPHA:a>BETA:b", "*.dat": "*.dat>", "queue:A,queue:B": "queue:A>queue:B",
		"'HLQ.A','HLQ.B'": "'HLQ.A'>'HLQ.B'", "-,file:x": "->file:x",
	} {
		s := sample()
		s.transfer, s.files = transfer.NewID(time.Now()), s.files[:1]
		lines, err := (&form{}).lines([]byte(content))
		if err != nil {
			t.Fatal(err)
		}
		q, err := d.request(s, lines)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			it := q.Items[0]
			if got = string(it.Source.Path + ">" + it.Dest.Path); it.Source != transfer.File(it.Source.Path) || it.Dest != transfer.File(it.Dest.Path) {
				got = "no literal paths"
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", content, got)
		}
	}
}

// An exported definition is imported as the same one.
func TestExportedAndImported(t *testing.T) {
	d := files(func(d *Definition) {
		d.Dir, d.Condition, d.Batch, d.Levels, d.Exclude = transfer.File("a\xffb"), Condition{ConditionSize, 1 << 20}, 7, 2, "*.tmp"
	})
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(d)
	again, err := ParseDefinition(text)
	if err != nil {
		t.Fatal(err)
	}
	if back, _ := json.Marshal(again); string(back) != string(text) {
		t.Errorf("%s became %s", text, back)
	}
}

func FuzzDefinition(f *testing.F) {
	text, _ := json.Marshal(files())
	f.Add(text)
	f.Add([]byte(`{"v":2,"name":"x","condition":"unchanged=2","trigger_file":{"regex":"(.*),(.*)"}}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{} {}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDefinition(b)
		if err != nil {
			return
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseDefinition(text); err != nil {
			t.Errorf("%q is written as %q, and that is refused: %v", b, text, err)
		}
	})
}

func FuzzTriggerFile(f *testing.F) {
	f.Add([]byte("a,b\nc\n"), "", false)
	f.Add([]byte("send a to b"), "send (.*) to (.*)", true)
	f.Fuzz(func(t *testing.T, content []byte, regex string, destFirst bool) {
		form, err := (&TriggerFile{DestFirst: destFirst, Regex: regex}).form()
		if err != nil {
			return
		}
		lines, err := form.lines(content)
		if err == nil && (len(lines) == 0 || slices.ContainsFunc(lines, func(l line) bool { return l.from == "" })) {
			t.Errorf("%q says %v", content, lines)
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add((&entry{identity: identity{1, 2, 3, 4}, gone: 4, transfer: transfer.NewID(time.Unix(1, 0)), sum: packed("xxh3:00112233445566778899aabbccddeeff"), again: true}).encode())
	f.Add((&entry{identity: identity{1 << 63, -1, -1, math.MinInt64}, gone: -1}).encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err != nil {
			return
		}
		if again, err := decodeEntry(e.encode()); err != nil || again != e {
			t.Errorf("%+v is read back as %+v, %v", e, again, err)
		}
	})
}

func FuzzVariables(f *testing.F) {
	for _, s := range []string{"${FileName{token=1}{separator=.}}", "${LastModifiedDate{format=yyyy}}", "${FilePath{file=-1}{toUpper}}"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { variable.Expand(s, sample().bytes) })
}
