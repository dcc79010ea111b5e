package exit

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

var (
	someFiles = map[transfer.Path]transfer.Path{"/out/a": "a", "/out/sub/b": "sub/b", "/out/\xff": "\xff"}
	given     = givenFiles{"/out/a": {{Name: "a"}}, "/out/sub/b": {{Name: "sub/b"}}, "/out/\xff": {{Name: "\xff"}}}
)

func someRequest() *transfer.Request {
	return &transfer.Request{Job: "nightly", Meta: map[string]string{"region": "eu", "drop": "x"}}
}

// An exit lets a transfer go on, or cancels it.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("m", transfer.MaxExitMessage+1)
	big := strings.Repeat("v", transfer.MaxMetaValue)
	for _, c := range []struct {
		at         transfer.CallPoint
		said, fail string // in the failure; empty: it goes on
	}{
		{transfer.SourceStartExit, `{"action":"proceed"}`, ""},
		{transfer.SourceStartExit, " {\"action\":\"proceed\",\"message\":\"m\",\"metadata\":{\"k\":\"v\",\"drop\":null},\"files\":[]}\n", ""},
		{transfer.MonitorExit, `{"action":"proceed","metadata":{"k":"v"}}`, ""},
		{transfer.DestStartExit, `{"action":"proceed"}`, ""},
		{transfer.SourceEndExit, `{"action":"proceed","message":"m"}`, ""},
		{transfer.SourceStartExit, `{"action":"cancel","message":"no"}`, "the source-start exit x.sh has cancelled the transfer: no"},
		{transfer.DestStartExit, `{"action":"cancel"}`, "has cancelled the transfer: it gave no reason"},
		{transfer.MonitorExit, `{"action":"cancel","message":"no"}`, "has cancelled the trigger: no"},
		{transfer.DestEndExit, `{"action":"cancel"}`, "cannot cancel a transfer that has ended"},
		{transfer.SourceStartExit, ``, "there is none"},
		{transfer.SourceStartExit, `proceed`, "cannot be read"},
		{transfer.SourceStartExit, `[]`, "cannot be read"},
		{transfer.SourceStartExit, `null`, `the action ""`},
		{transfer.SourceStartExit, `{}`, `the action ""`},
		{transfer.SourceStartExit, `{"action":"go"}`, `the action "go"`},
		{transfer.SourceStartExit, `{"action":"proceed","mode":"text"}`, `unknown field "mode"`},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","size":1}]}`, `unknown field "size"`},
		{transfer.SourceStartExit, `{"action":"proceed"} {"action":"cancel"}`, "something follows its end"},
		{transfer.SourceStartExit, `{"action":"cancel","message":"the file is x","action":"proceed"}`, `the member "action" twice`},
		{transfer.SourceStartExit, `{"action":"cancel","message":"the file is x","Action":"proceed"}`, `unknown field "Action"`},
		{transfer.SourceStartExit, `{"action":"proceed","metadata":{"region":"eu","region":"us"}}`, `the member "region" twice`},
		{transfer.SourceStartExit, `{"action":"proceed","metadata":{"region":"eu","Region":"us"}}`, ""},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","name":"b"},{"source":"/out/sub/b","name":"c","source":"/out/a"}]}`, `the member "source" twice`},
		{transfer.SourceStartExit, `{"action":"proceed","files":` + strings.Repeat("[", 1<<20), "max depth"},
		{transfer.SourceStartExit, `{"action":"proceed","message":"` + long + `"}`, "a message of 1025 bytes"},
		{transfer.SourceStartExit, `{"action":"proceed","metadata":{"k":"` + big + `"}}`, "metadata that cannot be"},
		{transfer.SourceStartExit, `{"action":"proceed","metadata":{"":"v"}}`, "metadata that cannot be"},
		{transfer.DestStartExit, `{"action":"proceed","metadata":{"k":"v"}}`, "has changed metadata"},
		{transfer.DestStartExit, `{"action":"proceed","files":[]}`, "has chosen files"},
		{transfer.SourceEndExit, `{"action":"proceed","files":[]}`, "has chosen files"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/c"}]}`, "which it was not given"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{}]}`, "which it was not given"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a"},{"source":"/out/a"}]}`, "/out/a twice"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","name":"sub/b"},{"source":"/out/sub/b"}]}`, "two files the name sub/b"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","name":"../a"}]}`, "leads out of DEST"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","name":"/a"}]}`, "leads out of DEST"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","name":"a/"}]}`, "leads out of DEST"},
		{transfer.SourceStartExit, `{"action":"proceed","files":[{"source":"/out/a","name":"` + strings.Repeat("n/", transfer.MaxPath) + `"}]}`, "a name that cannot be"},
	} {
		choice, _, failure := verdict(c.at, "x.sh", someRequest(), given, []byte(c.said))
		switch {
		case c.fail == "" && failure != nil:
			t.Errorf("%s %.80s fails: %v", c.at, c.said, failure)
		case c.fail != "" && (failure == nil || failure.Kind != transfer.KindExit || !strings.Contains(failure.Error(), c.fail) || choice != nil):
			t.Errorf("%s %.80s: %v, %v; want %q", c.at, c.said, choice, failure, c.fail)
		}
	}
}

// A choice has the name of each chosen file, and changes metadata.
func TestChoices(t *testing.T) {
	said, err := json.Marshal(answer{Action: proceed, Files: &[]chosen{{Source: "/out/sub/b"}, {Source: "/out/a", Name: "day/one/a"}, {Source: "/out/\xff"}}, Metadata: map[string]*string{"drop": nil}})
	if err != nil {
		t.Fatal(err)
	}
	c, _, failure := verdict(transfer.SourceStartExit, "x.sh", someRequest(), given, said)
	if failure != nil {
		t.Fatal(failure)
	}
	want := []transfer.ChosenFile{{Source: "/out/sub/b", Name: "sub/b"}, {Source: "/out/a", Name: "day/one/a"}, {Source: "/out/\xff", Name: "\xff"}}
	if !c.Chosen || !slices.Equal(c.Files, want) {
		t.Errorf("the files are %v", c.Files)
	}
	if d := c.Directories(); len(d) != 3 || !d[transfer.ItemPath{Path: "sub"}] || !d[transfer.ItemPath{Path: "day"}] || !d[transfer.ItemPath{Path: "day/one"}] {
		t.Errorf("the directories are %v", d)
	}
	if m := c.ApplyMeta(someRequest().Meta); len(m) != 1 || m["region"] != "eu" {
		t.Errorf("the metadata are %v", m)
	}
	text, err := json.Marshal(state{Choice: c})
	var again state
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || !again.Choice.Chosen || !slices.Equal(again.Choice.Files, want) || again.Choice.Meta == nil {
		t.Errorf("%s is read again as %+v, %v", text, again.Choice, err)
	}
	if c, _, failure := verdict(transfer.SourceStartExit, "x.sh", someRequest(), given, []byte(`{"action":"proceed","files":[]}`)); failure != nil || c == nil || !c.Chosen {
		t.Errorf("no chosen file is %+v, %v", c, failure)
	}
}

// A request may send one source to two DESTs, and two files of one name to two DESTs. An exit may choose all of them as
// it was given them.
func TestChoicesOfItemsWithTheirOwnDest(t *testing.T) {
	two := givenFiles{}
	for _, f := range []transfer.ExitFile{{Source: "/out/a", Name: "a", Item: 0, Dest: transfer.File("x/")}, {Source: "/out/a", Name: "a", Item: 1, Dest: transfer.File("y/")},
		{Source: "/old/a", Name: "a", Item: 2}, {Source: "/out/b", Name: "b", Item: 3}, {Source: "/out/b", Name: "b", Item: 4, Dest: transfer.File("y/")}} {
		two.add(f)
	}
	for said, want := range map[string]string{
		`[{"source":"/out/a"},{"source":"/out/a","item":1},{"source":"/old/a","item":2}]`: "",
		`[{"source":"/out/a","name":"b"},{"source":"/out/a","item":1,"name":"b"}]`:        "",
		`[{"source":"/out/a"},{"source":"/old/a"}]`:                                       "",
		`[{"source":"/out/a"},{"source":"/out/a"}]`:                                       "/out/a twice",
		`[{"source":"/old/a"},{"source":"/old/a","item":2}]`:                              "/old/a twice",
		`[{"source":"/out/a","item":2}]`:                                                  "which it was not given",
		`[{"source":"/out/b"}]`:                                                           "its answer lacks the item",
		`[{"source":"/out/a","item":1,"name":"b"},{"source":"/out/b","item":4}]`:          "two files the name b",
	} {
		c, _, failure := verdict(transfer.SourceStartExit, "x.sh", someRequest(), two, []byte(`{"action":"proceed","files":`+said+`}`))
		if (failure == nil) != (want == "") || failure != nil && !strings.Contains(failure.Text, want) {
			t.Errorf("%s: %v", said, failure)
		} else if failure == nil && (c.Files[0].Item != 0 || c.Files[1].Item == 0) {
			t.Errorf("%s chooses %+v", said, c.Files)
		}
	}
}

// The facts are one JSON object, with a line for each file.
func TestFacts(t *testing.T) {
	c := &transfer.Call{At: transfer.PostSource, Request: someRequest(), State: transfer.Partial, Counts: transfer.Counts{Files: 2}}
	files := func(put func(transfer.ExitFile) error) error {
		for source, name := range someFiles {
			if err := put(transfer.ExitFile{Source: source, Name: name, Size: 7}); err != nil {
				return err
			}
		}
		return nil
	}
	b, err := factsOf(c).encode(t.Context(), ignoring(files))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		facts
		Files []transfer.ExitFile `json:"files"`
	}
	if err := json.Unmarshal(b, &f); err != nil || len(f.Files) != 3 || f.State != transfer.Partial || f.Counts.Files != 2 || someFiles[f.Files[1].Source] != f.Files[1].Name {
		t.Errorf("%s is %+v, %v", b, f, err)
	}
	amp, err := factsOf(&transfer.Call{At: transfer.PostSource, Request: &transfer.Request{Job: "R&D"}}).encode(t.Context(), ignoring(func(put func(transfer.ExitFile) error) error { return put(transfer.ExitFile{Source: "/out/R&D <1>"}) }))
	if err != nil || !strings.Contains(string(amp), `"job":"R&D"`) || !strings.Contains(string(amp), "\n"+`{"source":"/out/R&D <1>"`) {
		t.Errorf("a name with & is given as %s, %v", amp, err)
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], `{"source":"`) {
		t.Errorf("the facts are %s", b)
	}

	long := transfer.Path(strings.Repeat("n", transfer.MaxPath))
	_, err = factsOf(c).encode(t.Context(), ignoring(func(put func(transfer.ExitFile) error) (err error) {
		for err == nil {
			err = put(transfer.ExitFile{Source: long, Name: long})
		}
		return err
	}))
	if transfer.KindOf(err) != transfer.KindExit {
		t.Errorf("too many files are %v", err)
	}
}

func ignoring(files func(put func(transfer.ExitFile) error) error) transfer.ExitFiles {
	return func(_ context.Context, put func(transfer.ExitFile) error) error { return files(put) }
}

// FuzzAnswer: no answer of an exit chooses a file that the exit was not given, or a name outside DEST.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"action":"proceed","files":[{"source":"/out/a","name":"b"}]}`, `{"action":"cancel","message":"m"}`, `{"action":"proceed","metadata":{"k":null}}`, `{"action":"proceed","files":[{"source":"/out/a","name":"\u0000%2E%2E/x"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		c, message, failure := verdict(transfer.SourceStartExit, "x.sh", someRequest(), given, said)
		if failure == nil && len(message) > transfer.MaxExitMessage || failure != nil && failure.Kind != transfer.KindExit {
			t.Fatalf("%q, %v", message, failure)
		}
		if c == nil {
			return
		}
		for _, f := range c.Files {
			if _, given := someFiles[f.Source]; !given || transfer.CheckExitName(f.Name) != nil {
				t.Fatalf("%q chooses %q as %q", said, f.Source, f.Name)
			}
		}
	})
}
