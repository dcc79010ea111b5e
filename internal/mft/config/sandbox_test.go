package config

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// xmlOf returns a UserSandboxes.xml with the given text between <agent> and its end.
func xmlOf(sandboxes string) []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>
<u:userSandboxes xmlns:u="http://wmqfte.ibm.com/UserSandboxes" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://wmqfte.ibm.com/UserSandboxes UserSandboxes.xsd">
<u:agent>` + regexp.MustCompile(`<(/?)([a-z])`).ReplaceAllString(sandboxes, `<${1}u:$2`) + `</u:agent></u:userSandboxes>`)
}

// sandboxed returns an agent with user sandboxes, and the notes about it.
func sandboxed(t testing.TB, more, sandboxes string) (*Agent, []Note) {
	t.Helper()
	a, notes, err := ReadAgent(Files{Properties: "agent.properties", Data: []byte("agentName=ALPHA\nuserSandboxes=true\n" + more),
		Sandboxes: "UserSandboxes.xml", XML: xmlOf(sandboxes)})
	if err != nil {
		t.Fatal(err)
	}
	return a, notes
}

// problems returns the Missed notes, as text.
func problems(notes []Note) (all string) {
	for _, n := range notes {
		if n.Outcome == Missed {
			all += fmt.Sprintf("%s:%d %s: %s\n", n.File, n.Line, n.What, n.Text)
		}
	}
	return all
}

// rulesOf returns the rules of an agent's sandbox.
func rulesOf(t testing.TB, a *Agent) *policy.Rules {
	t.Helper()
	rules, err := policy.Parse(a.Sandbox)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// decides reports whether rules let a user read or write a path.
func decides(t testing.TB, rules *policy.Rules, user, path string, write bool) bool {
	t.Helper()
	ask := func(right transfer.Authority) bool {
		return rules.Decide(policy.Question{Who: policy.Principal{Kind: "user", Name: user}, Right: right, Agent: "ALPHA", Path: path}).Allowed
	}
	first, second := transfer.AuthSource, transfer.AuthDeleteSource
	if write {
		first, second = transfer.AuthDest, transfer.AuthOverwrite
	}
	if ask(first) != ask(second) {
		t.Errorf("%s is not decided about as %s, for %s", first, second, path)
	}
	for _, right := range mayElse() {
		if !ask(right) {
			t.Errorf("the sandbox refuses %s", right)
		}
	}
	return ask(first)
}

// The rules make the same decisions as MQ MFT's sandboxes.
func TestSandboxDecisions(t *testing.T) {
	read := func(list string) string {
		text := ""
		for p := range strings.FieldsSeq(list) {
			if no, is := strings.CutPrefix(p, "!"); is {
				text += `<exclude name="` + no + `"/>`
			} else {
				text += `<include name="` + p + `"/>`
			}
		}
		return `<read>` + text + `</read>`
	}
	all := func(user, more, list string) string {
		return `<sandbox user="` + user + `" ` + more + `>` + read(list) + `</sandbox>`
	}
	const regex = `userPattern="regex"`
	for sandboxes, want := range map[string]string{
		// Patterns of paths.
		all("u", "", "/a"):                  "u /a; -u /a/b; -u /ab; -u /A",
		all("u", "", "/a/"):                 "u /a/b; u /a/b/c; -u /ab",
		all("u", "", "/a/**"):               "u /a/b; u /a/b/c; -u /ab",
		all("u", "", "/a/*"):                "u /a/b; -u /a/b/c; -u /ab; u /a/.b",
		all("u", "", "/a/?.csv"):            "u /a/1.csv; u /a/ü.csv; -u /a/12.csv; -u /a/.csv; -u /a/b/1.csv; -u /a//.csv",
		all("u", "", "/a/*/out/*.csv"):      "u /a/x/out/1.csv; -u /a/x/y/out/1.csv; -u /a/out/1.csv",
		all("u", "", "/a/**/out/*.csv"):     "u /a/x/out/1.csv; u /a/x/y/out/1.csv; u /a/out/1.csv; -u /a/out/x/1.csv",
		all("u", "", "/**/test/**"):         "u /test/a; u /x/test/a/b; -u /x/tests/a",
		all("u", "", "/**"):                 "u /a; u /a/b",
		all("u", "", "/a/ /b/"):             "u /a/x; u /b/x; -u /c/x",
		all("u", "", "/a.b/[c]/"):           "u /a.b/[c]/x; -u /axb/c/x",
		all("u", "", "/a/ !/a/b"):           "u /a/x; -u /a/b; u /a/b/c; u /a/B",
		all("u", "", "/a/ !/a/b/"):          "u /a/x; -u /a/b/c; -u /a/b/c/d; u /a/bc",
		all("u", "", "/a/ !**/x !/a/*.tmp"): "refused: does not say where it begins",
		all("u", "", "/a/ !/**/x /a/x"):     "u /a/y; -u /a/x; -u /a/b/x",
		all("u", "", "!/a/"):                "-u /a/x; -u /b",
		all("u", "", ""):                    "-u /a/x",
		`<sandbox user="u"/>`:               "-u /a; -u w /a",
		`<sandbox user="u">` + read("/a/ !/a/b/") + `<write><include name="/a/"/><include name="/c/"/><exclude name="/c/x"/></write></sandbox>`: "u /a/x; -u /a/b/x; u w /a/b/x; -u /c/y; u w /c/y; -u w /c/x",

		// Users: the first sandbox that matches a user is the only one.
		all("u", "", "/a/") + all("u", "", "/b/"):                  "u /a/x; -u /b/x; -v /a/x; -agent /a/x",
		all("u", "", "/a/") + all("*", "", "/b/"):                  "u /a/x; -u /b/x; v /b/x; -v /a/x",
		all("*", "", "/b/") + all("u", "", "/a/"):                  "-u /a/x; u /b/x",
		all("u", "", "") + all("*", "", "/b/"):                     "-u /b/x; v /b/x",
		all("u?", "", "/a/"):                                       "u1 /a/x; -u /a/x; -u12 /a/x; -xu1 /a/x",
		all("u.*", "", "/a/"):                                      "u.1 /a/x; u. /a/x; -u1 /a/x",
		all("ALICE", "", "/a/"):                                    "alice /a/x",
		all("Acc*", "", "/a/"):                                     "acc1 /a/x; -bcc /a/x",
		all("acc[0-9]*", "", "/a/"):                                "acc[0-9]1 /a/x; -acc1 /a/x", // no expression without userPattern
		all("acc[0-9]*", `userPattern="wildcard"`, "/a/"):          "-acc1 /a/x",
		all("acc[0-9]*", regex, "/a/"):                             "acc /a/x; acc12 /a/x; -xacc1 /a/x; -acc1x /a/x",
		all("a|b", regex, "/a/"):                                   "a /a/x; b /a/x; -ab /a/x; -xb /a/x",
		all("^a$", regex, "/a/"):                                   "a /a/x; -ab /a/x",
		all("[a-zA-Z]{2,3}\\.x", regex, "/a/"):                     "ab.x /a/x; -abyx /a/x; -a.x /a/x",
		all("(?:a|b)+?\\d\\D", regex, "/a/"):                       "ab1c /a/x; -ab11 /a/x",
		all("acc1", "", "/a/ !/a/b/") + all("acc.*", regex, "/a/"): "acc2 /a/b/x; -acc1 /a/b/x; acc1 /a/x",

		// Expressions without a rule of the same decisions.
		all("ACC[0-9]", regex, "/a/"):         "refused: the capital A",
		all("[A-Z]+", regex, "/a/"):           "refused: the capital A",
		all("a*+", regex, "/a/"):              "refused: a quantifier with +",
		all("[a&amp;&amp;b]", regex, "/a/"):   "refused: a class within a class",
		all("[a[b]]", regex, "/a/"):           "refused: a class within a class",
		all("[]a]", regex, "/a/"):             "refused: a class that begins with ]",
		all("(?=a)a", regex, "/a/"):           `refused: "(?="`,
		all("\\ba", regex, "/a/"):             `refused: "\\b"`,
		all("(a)\\1", regex, "/a/"):           `refused: "\\1"`,
		all("a{,3}", regex, "/a/"):            "refused: a { that counts nothing",
		all("a)(b", regex, "/a/"):             "refused: no regular expression",
		all("a{1001}", regex, "/a/"):          "refused: no regular expression",
		all("", "", "/a/"):                    "refused: no attribute user",
		all("a", `userPattern="glob"`, "/a/"): `refused: userPattern="glob"`,
		all("u", "", "/a**"):                  "refused: ** and more in one level",
		all("u", "", "/a/../b/"):              `refused: a level ".."`,
		all("u", "", "/a//b/"):                `refused: a level ""`,
		all("u", "", "//a/"):                  "refused: no path of a file",
		all("u", "", "$HOME/"):                "refused: variable of the environment",
		all("u", "", "C:\\%TEMP%\\"):          "refused: variable of the environment",
		all("u", "", "a/"):                    "refused: relative to the home directory",
		all("u", "", "C:a/"):                  "refused: relative to the home directory",
		all("u", "", "\\\\host\\share\\"):     "refused: a backslash, and no drive",
		all("u", "", "/a/ !b\\*"):             "refused: a backslash, and no drive",
		`<sandbox user="u"><read><include name="Q@*M" type="queue"/></read></sandbox>`: `refused: of the queues of some queue managers`,
		`<sandbox user="u"><read><include name="@QM" type="queue"/></read></sandbox>`:  `refused: no pattern for queues`,
		`<sandbox user="u"><read><include name="a/" type="tape"/></read></sandbox>`:    `refused: of the type "tape"`,
		`<sandbox user="u"><read><include/></read></sandbox>`:                          "refused: no attribute name",
		`<sandbox user="u"><move/></sandbox>`:                                          "refused: <move>",
		`<sandbox user="u" group="g"/>`:                                                "refused: group",
		`<sandbox user="u"><read/><read/></sandbox>`:                                   "refused: stands twice",
	} {
		a, notes := sandboxed(t, "enableQueueInputOutput=true\n", sandboxes)
		if word, refused := strings.CutPrefix(want, "refused: "); refused {
			if a != nil || !strings.Contains(problems(notes), word) || !strings.Contains(problems(notes), "the agent is not made") {
				t.Errorf("%s: %v, %s; want %s", sandboxes, a, problems(notes), word)
			}
			continue
		}
		if a == nil {
			t.Errorf("%s: %s", sandboxes, problems(notes))
			continue
		}
		rules := rulesOf(t, a)
		for one := range strings.SplitSeq(want, "; ") {
			words := strings.Fields(one)
			user, no := strings.CutPrefix(words[0], "-")
			if got := decides(t, rules, user, words[len(words)-1], len(words) == 3); got == no {
				t.Errorf("%s: %s is %v", sandboxes, one, got)
			}
		}
	}
}

// Relative patterns lie beneath transferRoot, and paths of Windows may have either separator.
func TestSandboxPlaces(t *testing.T) {
	a, notes := sandboxed(t, "transferRoot=/home/mft\n", `<sandbox user="*"><read><include name="out/*.csv"/><exclude name="out/x.csv"/></read><write><include name="/srv/in/**/done/"/><include name="/home/mft/in/"/></write></sandbox>`)
	if a == nil {
		t.Fatal(problems(notes))
	}
	rules := rulesOf(t, a)
	if !decides(t, rules, "u", "/home/mft/out/a.csv", false) || decides(t, rules, "u", "/home/mft/out/x.csv", false) || !decides(t, rules, "u", "/srv/in/a/done/x", true) {
		t.Error("relative patterns are not beneath transferRoot")
	}
	if got := fmt.Sprint(a.Settings); got != "[{root [/home/mft /srv/in] true}]" {
		t.Error(got)
	}
	a, notes = sandboxed(t, `transferRoot=C:\\mft`, `<sandbox user="*"><read><include name="c:\out\*.csv"/><exclude name="C:/out/x.csv"/></read><write><include name="d:\"/></write></sandbox>`)
	if a == nil {
		t.Fatal(problems(notes))
	}
	rules = rulesOf(t, a)
	if !decides(t, rules, "u", "C:/out/a.csv", false) || decides(t, rules, "u", "C:/out/x.csv", false) || !decides(t, rules, "u", "D:/x/y", true) {
		t.Error("paths of Windows are not taken")
	}
	if got := fmt.Sprint(a.Settings); got != "[{root [C:/mft C:/out D:/] true}]" {
		t.Error(got)
	}
}

// likeMQ decides as MQ MFT's documentation defines it: the first sandbox with a pattern that matches the user applies.
// A path must match an included pattern, and no excluded one.
func likeMQ(sandboxes []mftxml.Sandbox, user, path string, write bool) bool {
	for _, s := range sandboxes {
		if !glob([]rune(s.User), []rune(user)) {
			continue
		}
		area := s.Read
		if write {
			area = s.Write
		}
		any := func(all []mftxml.AreaPattern) bool {
			for _, p := range all {
				name := p.Name
				if strings.HasSuffix(name, "/") {
					name += "**"
				}
				if levelsMatch(strings.Split(name, "/"), strings.Split(path, "/")) {
					return true
				}
			}
			return false
		}
		return any(area.Include) && !any(area.Exclude)
	}
	return false
}

func levelsMatch(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return levelsMatch(pattern[1:], path) || len(path) > 0 && levelsMatch(pattern, path[1:])
	}
	return len(path) > 0 && glob([]rune(pattern[0]), []rune(path[0])) && levelsMatch(pattern[1:], path[1:])
}

func glob(pattern, name []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == '*':
		return glob(pattern[1:], name) || len(name) > 0 && glob(pattern, name[1:])
	}
	return len(name) > 0 && (pattern[0] == '?' || pattern[0] == name[0]) && glob(pattern[1:], name[1:])
}

// For any sandboxes and any path, the rules decide as likeMQ does.
func TestSandboxesOfAnyKind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	path := func(words ...string) string {
		text := ""
		for range 1 + random.IntN(4) {
			text += "/" + pick(words...)
		}
		return text
	}
	for range 400 {
		var all []mftxml.Sandbox
		for range random.IntN(4) {
			area := func() (a mftxml.Area) {
				list := func(most int) (l []mftxml.AreaPattern) {
					for range random.IntN(most) {
						l = append(l, mftxml.AreaPattern{Name: path("a", "b", "ab", "*", "?", "a*", "**", "*b?") + pick("", "", "/"), Type: "file"})
					}
					return l
				}
				return mftxml.Area{Include: list(4), Exclude: list(3)}
			}
			all = append(all, mftxml.Sandbox{User: pick("u", "v", "*", "u*", "?", "uv", "?v*"), Read: area(), Write: area()})
		}
		text := ""
		for _, s := range all {
			text += `<sandbox user="` + s.User + `">`
			for name, area := range map[string]mftxml.Area{"read": s.Read, "write": s.Write} {
				text += "<" + name + ">"
				for _, p := range area.Include {
					text += `<include name="` + p.Name + `"/>`
				}
				for _, p := range area.Exclude {
					text += `<exclude name="` + p.Name + `"/>`
				}
				text += "</" + name + ">"
			}
			text += "</sandbox>"
		}
		a, notes := sandboxed(t, "", text)
		if a == nil {
			t.Fatal(problems(notes))
		}
		rules := rulesOf(t, a)
		for range 50 {
			user, at, write := pick("u", "v", "uv", "w"), path("a", "b", "ab", "aab", "c"), random.IntN(2) == 0
			if got, want := decides(t, rules, user, at, write), likeMQ(all, user, at, write); got != want {
				t.Fatalf("%s\n%s at %s (write %v) is %v; want %v", text, user, at, write, got, want)
			}
		}
	}
}

// Any sandbox either becomes valid rules, or is refused with the agent.
func FuzzSandboxes(f *testing.F) {
	f.Add(xmlOf(`<sandbox user="acc[0-9]*" userPattern="regex"><read><include name="/a/**"/><exclude name="/a/b/"/></read></sandbox>`), "/home/mft")
	f.Add(xmlOf(`<sandbox user="*"><write><include name="C:\x\"/></write></sandbox>`), "")
	f.Add([]byte("<userSandboxes><agent/></userSandboxes>"), "/")
	f.Fuzz(func(t *testing.T, data []byte, home string) {
		a, notes, err := ReadAgent(Files{Data: []byte("agentName=ALPHA\nuserSandboxes=true\ntransferRoot=" + home), XML: data})
		switch {
		case err != nil:
			return
		case a == nil && problems(notes) == "":
			t.Fatal("no agent, and nobody says why")
		case a == nil:
			return
		}
		if a.Sandbox == nil {
			return // the fuzzer has written userSandboxes=false
		}
		if _, err := policy.Parse(a.Sandbox); err != nil {
			t.Fatal(err)
		}
	})
}

// Patterns for queues become rules for their paths, and allow no file and no root.
func TestSandboxOfQueues(t *testing.T) {
	a, notes := sandboxed(t, "enableQueueInputOutput=true\n", `<sandbox user="u"><read><include name="/srv/"/><include name="live.*@QM1" type="queue"/><exclude name="LIVE.SECRET" type="queue"/></read>
		<write><include name="**" type="queue"/></write></sandbox>`)
	if a == nil {
		t.Fatal(notes)
	}
	rules := rulesOf(t, a)
	for path, want := range map[string][2]bool{"/queue:LIVE.A": {true, true}, "/queue:LIVE.SECRET": {false, true}, "/queue:OTHER": {false, true}, "/srv/a": {true, false}, "/a": {false, false}} {
		for n, write := range []bool{false, true} {
			if got := decides(t, rules, "u", path, write); got != want[n] {
				t.Errorf("%s, write %v: %v", path, write, got)
			}
		}
	}
	for _, s := range a.Settings {
		if s.Flag == "root" && (len(s.Values) != 1 || s.Values[0] != "/srv") {
			t.Errorf("the roots are %v", s.Values)
		}
	}
}

// An agent without queues in MQ MFT gets none, even if its sandboxes name some.
func TestSandboxWithoutQueues(t *testing.T) {
	for _, more := range []string{"", "enableQueueInputOutput=false\n"} {
		a, notes := sandboxed(t, more, `<sandbox user="u"><read><include name="/srv/"/><include name="LIVE.*" type="queue"/></read><write><include name="**" type="queue"/><include name="/srv/"/></write></sandbox>`)
		if a == nil {
			t.Fatal(notes)
		}
		rules := rulesOf(t, a)
		for _, write := range []bool{false, true} {
			if decides(t, rules, "u", "/queue:LIVE.A", write) || !decides(t, rules, "u", "/srv/a", write) {
				t.Errorf("with %q, write %v: a queue is open, or a file is not", more, write)
			}
		}
		said := 0
		for _, n := range notes {
			if n.What == "queue" && n.Outcome == Needless && n.Line > 0 {
				said++
			}
		}
		if said != 2 {
			t.Errorf("with %q, %d patterns are reported: %+v", more, said, notes)
		}
	}
	// Without a sandbox nothing here keeps the agent from queues, and the import says so.
	a, notes, err := ReadAgent(Files{Data: []byte("agentName=ALPHA\nenableQueueInputOutput=false\ntransferRoot=/a")})
	if err != nil || a == nil || !strings.Contains(problems(notes), "deny /queue:*") {
		t.Errorf("%+v, %s, %v", a, problems(notes), err)
	}
}
