package commands

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// read parses a command line with blanks between its words.
func read(t testing.TB, line string) (*Call, error) {
	t.Helper()
	words := strings.Fields(line)
	c, ok := Find(words[0])
	if !ok {
		t.Fatalf("%s is unknown", words[0])
	}
	return c.Read(words[1:])
}

func TestCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"fteCancelTransfer -m QM1 -a ALPHA 12": "",
		"fteCancelTransfer":                    "no transfer ID is given",
		"fteCancelTransfer 1 2":                `"2" is one argument too many`,
		"fteListAgents -x":                     "the option -x is unknown",
		"fteListAgents -p":                     "the option -p has no value",
		"fteListAgents -v -v":                  "the option -v stands twice",
		"fteCreateTransfer -w -sa A":           "",
		"fteCreateMonitor -anything at all":    "the option -anything is unknown",
		"fteCancelTransfer -h":                 "",
	} {
		_, err := read(t, line)
		if want == "" && err != nil || want != "" && (transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for line, want := range map[string]struct {
		seconds int
		args    []string
	}{
		"fteCreateTransfer -w 30 a":   {30, []string{"a"}},
		"fteCreateTransfer -w a":      {-1, []string{"a"}},
		"fteCreateTransfer a -w":      {-1, []string{"a"}},
		"fteCreateTransfer a -w -sq":  {-1, []string{"a"}},
		"fteCreateTransfer -w -1 a 7": {-1, []string{"a", "7"}},
	} {
		c, err := read(t, line)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Wait(); err != nil || n != want.seconds || !c.Has("w") || !slices.Equal(c.Args, want.args) {
			t.Errorf("%s waits %d with %q: %v", line, n, c.Args, err)
		}
	}
	if _, ok := Find("/usr/local/bin/fteListAgents"); !ok {
		t.Error("a command with a directory is unknown")
	}
	if _, ok := Find("ferry"); ok {
		t.Error("ferry is a command of MQ MFT")
	}
}

const ends = "fteCreateTransfer -sa alpha -da BETA "

// The options of fteCreateTransfer become the types of the XML.
func TestTransfers(t *testing.T) {
	file := mftxml.Dest{Type: "file", Exist: "error", File: mftxml.File{Path: "b"}}
	plain := mftxml.Item{Mode: "binary", Checksum: "md5", Source: mftxml.Source{File: mftxml.File{Path: "a"}}, Dest: file}
	base := func() *mftxml.Transfer {
		return &mftxml.Transfer{Source: "ALPHA", Destination: "BETA", Set: mftxml.Set{Recovery: -1, Items: []mftxml.Item{plain}}}
	}
	for line, change := range map[string]func(*mftxml.Transfer){
		"-df b a":                    func(*mftxml.Transfer) {},
		"-jn j -md k=v=w,x= -df b a": func(d *mftxml.Transfer) { d.Job, d.Set.Meta = "j", map[string]string{"k": "v=w", "x": ""} },
		"-pr 9 -rt 0 -df b a":        func(d *mftxml.Transfer) { d.Set.Priority, d.Set.Recovery = 9, 0 },
		"-ss 21:00 -df b a":          func(d *mftxml.Transfer) { d.Schedule = &mftxml.Schedule{Start: "21:00", TimeBase: "admin"} },
		"-ss 2030-01-01T21:00 -tb UTC -oi days -of 2 -es 2031-01-01T00:00 -df b a": func(d *mftxml.Transfer) {
			d.Schedule = &mftxml.Schedule{Start: "2030-01-01T21:00", TimeBase: "utc", Interval: "days", Every: 2, Until: "2031-01-01T00:00"}
		},
		"-tr file!=exist,x,y -tl -df b a": func(d *mftxml.Transfer) {
			d.Trigger = &mftxml.Trigger{Log: true, Conditions: []mftxml.TriggerCondition{{Comparison: "!=", Value: "exist", Files: []transfer.Path{"x", "y"}}}}
		},
		"-tr file=exist,x -tl yes -df b a": func(d *mftxml.Transfer) {
			d.Trigger = &mftxml.Trigger{Log: true, Conditions: []mftxml.TriggerCondition{{Comparison: "=", Value: "exist", Files: []transfer.Path{"x"}}}}
		},
		"-tl NO -tr file=exist,x -df b a": func(d *mftxml.Transfer) {
			d.Trigger = &mftxml.Trigger{Conditions: []mftxml.TriggerCondition{{Comparison: "=", Value: "exist", Files: []transfer.Path{"x"}}}}
		},
		"-md k=v -md x=y,z= -df b a": func(d *mftxml.Transfer) { d.Set.Meta = map[string]string{"k": "v", "x": "y", "z": ""} },
		"-tr filesize>=20KB,x -df b a": func(d *mftxml.Transfer) {
			d.Trigger = &mftxml.Trigger{Conditions: []mftxml.TriggerCondition{{Size: true, Comparison: ">=", Value: "20", Units: "kb", Files: []transfer.Path{"x"}}}}
		},
		"-presrc a.sh -postsrc executable:b.sh(x,y),1,30,0 -predst antscript:c.xml(init,K=V),,,0 -postdst jcl:LOAD,2 -df b a": func(d *mftxml.Transfer) {
			d.Set.Programs = mftxml.Programs{PreSource: &mftxml.Command{Name: "a.sh", Type: "executable"},
				PostSource: &mftxml.Command{Name: "b.sh", Type: "executable", Args: []string{"x", "y"}, RetryCount: 1, RetryWait: 30, SuccessRC: "0"},
				PreDest:    &mftxml.Command{Name: "c.xml", Type: "antscript", Targets: []string{"init"}, Properties: map[string]string{"K": "V"}, SuccessRC: "0"},
				PostDest:   &mftxml.Command{Name: "LOAD", Type: "jcl", RetryCount: 2}}
		},
		`-presrc a.sh(1\,2,f(x\),C:\dir\\x),1 -postsrc antscript:b(p=recfm\(F\,B\)),,,>2&<7 -predst c\,d\(e -df b a`: func(d *mftxml.Transfer) {
			d.Set.Programs = mftxml.Programs{PreSource: &mftxml.Command{Name: "a.sh", Type: "executable", Args: []string{"1,2", "f(x)", `C:\dir\x`}, RetryCount: 1},
				PostSource: &mftxml.Command{Name: "b", Type: "antscript", Properties: map[string]string{"p": "recfm(F,B)"}, SuccessRC: ">2&<7"},
				PreDest:    &mftxml.Command{Name: "c,d(e", Type: "executable"}}
		},
		"-t TEXT -sce IBM-1047 -dce UTF-8 -dle CRLF -sd delete -r -skeep -de overwrite -cs none -dd b a": func(d *mftxml.Transfer) {
			it := &d.Set.Items[0]
			it.Mode, it.Checksum = "text", "none"
			it.Source = mftxml.Source{Recursive: true, Delete: true, KeepBlank: true, File: mftxml.File{Path: "a", Encoding: "IBM-1047"}}
			it.Dest = mftxml.Dest{Type: "directory", Exist: "overwrite", File: mftxml.File{Path: "b/", Encoding: "UTF-8", EOL: "crlf"}}
		},
		"-t text -dtr -dfa RECFM(F,B);LRECL(80) -ds HLQ.X a": func(d *mftxml.Transfer) {
			d.Set.Items[0].Mode = "text"
			d.Set.Items[0].Dest = mftxml.Dest{Type: "dataset", Exist: "error", Long: "truncate", File: mftxml.File{Path: "//'HLQ.X',RECFM(F,B);LRECL(80)"}}
		},
		"-t text -ds HLQ.X;RECFM(VB);CYL -dfa LRECL(255),SPACE(1,2) a": func(d *mftxml.Transfer) {
			d.Set.Items[0].Mode = "text"
			d.Set.Items[0].Dest = mftxml.Dest{Type: "dataset", Exist: "error", File: mftxml.File{Path: "//'HLQ.X';RECFM(VB),LRECL(255)"}}
		},
		"-qs 1K -qmp true -dqp qdef -dq Q1@QM2 a": func(d *mftxml.Transfer) {
			d.Set.Items[0].Dest = mftxml.Dest{Type: "queue", Exist: "error", Queue: &mftxml.Queue{Name: "Q1@QM2", Attributes: map[string]string{"persistent": "qdef", "setMqProps": "true", "delimiter": "1K", "delimiterType": "size"}}}
		},
		"-sq -sqgi -sqwt 5 -sqdb x0A -sqdp prefix -df b a": func(d *mftxml.Transfer) {
			d.Set.Items[0].Source = mftxml.Source{Delete: true, Queue: &mftxml.Queue{Name: "a", Attributes: map[string]string{"useGroups": "true", "waitTime": "5", "delimiter": "x0A", "delimiterType": "binary", "delimiterPosition": "prefix"}}}
		},
		"-t text -sq -sd leave -sce IBM-1047 -dce UTF-8 -dle LF -dqdt ; -qi -dqdp prefix -dq Q a": func(d *mftxml.Transfer) {
			it := &d.Set.Items[0]
			it.Mode, it.Source = "text", mftxml.Source{Queue: &mftxml.Queue{Name: "a", Attributes: map[string]string{"encoding": "IBM-1047"}}}
			it.Dest = mftxml.Dest{Type: "queue", Exist: "error", Queue: &mftxml.Queue{Name: "Q", Attributes: map[string]string{"persistent": "true", "encoding": "UTF-8", "EOL": "lf", "delimiter": ";", "delimiterType": "pattern", "delimiterPosition": "prefix", "includeDelimiterInMessage": "true"}}}
		},
	} {
		c, err := read(t, ends+line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want := base()
		change(want)
		d, err := c.Transfer(nil)
		if err != nil || !reflect.DeepEqual(d.Transfer, want) {
			t.Errorf("%s is\n%+v, not\n%+v: %v", line, d.Transfer, want, err)
		}
		if _, err := d.XML(); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A definition file of -td is a list of items, or a request: its agents and all around its items count unless an option
// says otherwise.
func TestDefinitionFiles(t *testing.T) {
	item := mftxml.Item{Mode: "binary", Checksum: "md5", Source: mftxml.Source{File: mftxml.File{Path: "a"}}, Dest: mftxml.Dest{Type: "file", Exist: "error", File: mftxml.File{Path: "b"}}}
	whole := func() *mftxml.Document {
		return &mftxml.Document{ID: transfer.ID{7}, Transfer: &mftxml.Transfer{Source: "SRC", Destination: "DST", Job: "j", Reply: "Q", Set: mftxml.Set{Priority: 3, Recovery: 5, Meta: map[string]string{"k": "v"}, Items: []mftxml.Item{item},
			Programs: mftxml.Programs{PreSource: &mftxml.Command{Name: "a.sh", Type: "executable"}}}}}
	}
	for line, change := range map[string]func(*mftxml.Transfer){
		"-td x":           func(*mftxml.Transfer) {},
		"-td x -sa other": func(d *mftxml.Transfer) { d.Source = "OTHER" },
		"-td x -da other -pr 4 -rt -1 -jn n -md x=y -presrc b.sh": func(d *mftxml.Transfer) {
			d.Destination, d.Job, d.Set.Priority, d.Set.Recovery, d.Set.Meta = "OTHER", "n", 4, -1, map[string]string{"x": "y"}
			d.Set.Programs.PreSource = &mftxml.Command{Name: "b.sh", Type: "executable"}
		},
	} {
		c, err := read(t, "fteCreateTransfer "+line)
		if err != nil {
			t.Fatal(err)
		}
		want := whole()
		want.Transfer.Reply = ""
		change(want.Transfer)
		d, err := c.Transfer(whole())
		if err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%s is\n%+v, not\n%+v: %v", line, d.Transfer, want.Transfer, err)
		}
	}
	c, err := read(t, "fteCreateTransfer -td x -sa alpha -da beta")
	if err != nil {
		t.Fatal(err)
	}
	want := &mftxml.Transfer{Source: "ALPHA", Destination: "BETA", Set: mftxml.Set{Recovery: -1, Items: []mftxml.Item{item}}}
	if d, err := c.Transfer(&mftxml.Document{Items: []mftxml.Item{item}}); err != nil || !reflect.DeepEqual(d.Transfer, want) {
		t.Errorf("items are %+v: %v", d.Transfer, err)
	}
}

// Attributes for the place of a data set on disk are reported.
func TestNoticesOfDataSets(t *testing.T) {
	c, err := read(t, ends+"-ds HLQ.X;CYL -dfa RECFM(F,B),LRECL(80),SPACE(1,2) a")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(c.Notices(), "\n")
	if !strings.Contains(all, "CYL of -ds has no effect") || !strings.Contains(all, "SPACE of -dfa has no effect") || strings.Contains(all, "RECFM") {
		t.Errorf("the notices are %s", all)
	}
}

// -D defines a property in one argument or in two, and any command takes -? as -h.
func TestDefinitions(t *testing.T) {
	c, err := read(t, "fteAnt -f build.xml -Da=1 -D b=x=y -D c= all more -Dd=2")
	if want := map[string]string{"a": "1", "b": "x=y", "c": "", "d": "2"}; err != nil || !maps.Equal(c.Defined, want) || strings.Join(c.Args, " ") != "all more" || c.Get("f") != "build.xml" {
		t.Errorf("%+v: %v", c, err)
	}
	for line, want := range map[string]string{"fteAnt -f b -Da": `-D "a" is malformed`, "fteAnt -D": "the option -D has no value", "fteAnt -D =x": `-D "=x" is malformed`, "fteListAgents -Da=1": "the option -Da=1 is unknown"} {
		if _, err := read(t, line); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if c, err := read(t, "fteStopAgent -?"); err != nil || !c.Has("h") {
		t.Errorf("-?: %v", err)
	}
}

// Commands that need nothing take any arguments. Each has a sentence, and the options of traces are reported.
func TestNeedlessCommands(t *testing.T) {
	for _, name := range strings.Fields("fteSetupCoordination fteSetupCommands fteDeleteAgent fteCleanAgent fteObfuscate fteModifyAgent fteCreateLogger fteStartLogger fteStopLogger fteShowLoggerDetails " +
		"fteRAS fteSetAgentTraceLevel fteSetAgentLogLevel fteMigrateAgent fteChangeDefaultConfigurationOptions fteBatch " +
		"fteDefine fteDelete fteCreateEnvironment fteBundleConfiguration fteDeleteLogger fteModifyLogger fteSetLoggerTraceLevel fteSetProductId") {
		c, err := read(t, name+" -all AGENT -f -x y -x z")
		if err != nil || c.Needless == "" || c.Lacks() != nil || strings.HasSuffix(c.Needless, ".") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if c, err := read(t, name+" -h"); err != nil || !c.Has("h") {
			t.Errorf("%s -h: %v", name, err)
		}
	}
	for _, name := range []string{"fteCreateBridgeAgent", "fteCreateCDAgent"} {
		c, err := read(t, name+" -agentName A -bt FTP")
		if lacks := c.Lacks(); err != nil || transfer.KindOf(lacks) != transfer.KindNotBuilt || !strings.Contains(lacks.Error(), name+" is not built: Ferry has no bridges") {
			t.Errorf("%s: %v, %v", name, err, c.Lacks())
		}
	}
	c, err := read(t, "fteListAgents -trace all -tracePath /tmp -credentialsFile c.xml")
	if err != nil || len(c.Notices()) != 3 {
		t.Errorf("%q, %v", c.Notices(), err)
	}
	for code, want := range map[int]int{transfer.CodeUsage: 1, 40: 40, 0: 0} {
		if got := CodeOf(code); got != want {
			t.Errorf("%d becomes %d", code, got)
		}
	}
}

func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"fteCreateTransfer -sa A -da BETA -df b a": `agent name "A" is not valid`,
		"fteCreateTransfer -da BETA -df b a":       "-sa AGENT is missing",
		ends + "-df b":                             "no source is given",
		ends + "a":                                 "one destination is needed, with -df, -dd, -ds, -dp or -dq; 0 are given",
		ends + "-df b -dq Q a":                     "2 are given -df -dq",
		ends + "-df b/ a":                          "-df b/ ends in a slash",
		ends + "-df b -pr 10 a":                    "-pr 10 is out of range",
		ends + "-df b -rt soon a":                  "-rt soon is out of range",
		ends + "-df b -t ebcdic a":                 "-t ebcdic is unknown; it is one of binary, text",
		ends + "-df b -de concat a":                "-de concat",
		ends + "-df b -sd move a":                  "-sd move",
		ends + "-df b -cs CRC a":                   "-cs CRC",
		ends + "-df b -md a a":                     "-md \"a\" is malformed",
		ends + "-df b -md a=1,a=2 a":               "is malformed",
		ends + "-df b -ss now a":                   "-ss now is no time",
		ends + "-df b -oi days a":                  "-ss, the time of the first transfer, is missing",
		ends + "-df b -ss 21:00 -oc 3 a":           "-oi, the interval, is missing",
		ends + "-df b -ss 21:00 -oi days -oc 3 -es 2030-01-01T00:00 a": "-oc and -es do not go together",
		ends + "-df b -ss 21:00 -oi eons a":                            "-oi eons is unknown",
		ends + "-df b -tl a":                                           "-tl belongs to -tr",
		ends + "-df b -tl maybe":                                       "-tl belongs to -tr",
		ends + "-df b -md a=1 -md a=2 a":                               "is malformed",
		ends + "-df b -tr file=exist a":                                "names no file",
		ends + "-df b -tr file=gone,x a":                               `-tr "file=gone" is unknown`,
		ends + "-df b -tr filesize>=xMB,x a":                           "is unknown",
		ends + "-df b -presrc ,1 a":                                    "-presrc names no program",
		ends + "-df b -presrc a(b a":                                   "has no bracket",
		ends + "-df b -presrc a,x a":                                   `"x" is no number`,
		ends + "-df b -dfa RECFM(F) a":                                 "-dfa belongs to",
		ends + "-dq Q -qs 1K -dqdb x0A a":                              "do not go together",
		ends + "-df b -sqgi a":                                         "-sqgi belongs to -sq",
		ends + "-df b -sqdb x0A a":                                     "-sqdb belongs to -sq",
		ends + "-df b -qs 1K a":                                        "-qs belongs to -dq",
		ends + "-sq -df b -sqdp postfix a":                             "-sqdp says where a delimiter is, and there is none",
	} {
		c, err := read(t, line)
		if err == nil {
			_, err = c.Transfer(nil)
		}
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}

	c, err := read(t, ends+"-r -td x")
	if err == nil {
		_, err = c.Transfer(&mftxml.Document{Items: []mftxml.Item{{}}})
	}
	if err == nil || !strings.Contains(err.Error(), "-r does not go with -td") {
		t.Errorf("-r with -td: %v", err)
	}
	c, err = read(t, ends+"-td x")
	if err == nil {
		_, err = c.Transfer(&mftxml.Document{Cancel: &mftxml.Cancel{}})
	}
	if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "-td is no definition") {
		t.Errorf("-td of a cancel: %v", err)
	}
	c, err = read(t, ends+"-srdb x0A -df b a")
	if err == nil {
		err = c.Lacks()
	}
	if transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), "-srdb") {
		t.Errorf("-srdb: %v", err)
	}
}

// In the style of MQ MFT, messages have its identifiers and the words that scripts look for.
func TestMessagesOfScripts(t *testing.T) {
	for got, want := range map[string]string{
		Answered.In(StyleBFG, "ALPHA", 0.059, "READY"):   "BFGCL0213I: agent ALPHA responded to ping in 0.059 seconds.",
		Pinging.In(StyleBFG, "ALPHA"):                    "BFGCL0212I: ",
		Issued.In(StyleBFG, "414d"):                      "BFGCL0035I: The transfer request is issued. The request ID is: 414d",
		Taken.In(StyleBFG, "ALPHA"):                      "BFGCL0182I: The request is now waiting to be processed by the agent.",
		Cancelled.In(StyleBFG, "1", "cancelled"):         "BFGCL0137I: The request to cancel is issued.\nBFGCL0196I: The transfer 1 was successfully cancelled",
		Monitored.In(StyleBFG, "M", "created", "ALPHA"):  "BFGCL0251I: ",
		Ended.In(StyleBFG, "1", "successful", 1, 2):      "BFGRP0032I: ",
		string(EndedIn(StyleBFG, transfer.Partial)):      "BFGRP0033I: ",
		string(EndedIn(StyleBFG, transfer.Failed)):       "BFGRP0034I: ",
		string(EndedIn(StyleFerry, transfer.Failed)):     string(EndedBad),
		Answered.In(StyleFerry, "ALPHA", 0.059, "READY"): "FERRY0008I: ",
		Stopped.In(StyleBFG, "ALPHA"):                    "FERRY0014I: ", // no identifier is known for it
	} {
		if !strings.HasPrefix(got, want) || strings.Contains(got, "%!") {
			t.Errorf("%q does not begin with %q", got, want)
		}
	}
	if head := Head(StyleBFG, "1.2.3"); strings.Count(head, "\n") != 2 || strings.Contains(head, "Copyright") || Head(StyleFerry, "1.2.3") != "" {
		t.Errorf("the head is %q", head)
	}
	for _, s := range transfer.States() {
		if name := StateOf(s); !s.Final() && !strings.HasSuffix(name, "Transfer") && name != "WaitingForDestinationCapacity" {
			t.Errorf("%s is %s", s, name)
		}
	}
	if CheckStyle("ibm") == nil || CheckStyle(StyleBFG) != nil {
		t.Error("styles are not checked")
	}
}

// The table of docs/coming-from-mq-mft.md has all commands with their options, and no others.
func TestEveryOptionIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "coming-from-mq-mft.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The fte commands\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ","), "|")
		if len(cells) != 5 {
			continue
		}
		for _, c := range regexp.MustCompile("`(fte[A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			documented[c[1]] = true
			for _, o := range regexp.MustCompile("`-([A-Za-z-]+)[^`]*`").FindAllStringSubmatch(cells[2], -1) {
				documented[c[1]+" -"+o[1]] = true
			}
		}
	}
	known := map[string]bool{}
	every := len(common())
	for _, c := range Commands() {
		known[c.Name] = true
		for n, o := range c.Options {
			if n >= every { // those of every command have a line of their own
				known[c.Name+" -"+o.Name] = true
			}
		}
	}
	for n := range known {
		if !documented[n] {
			t.Errorf("docs/coming-from-mq-mft.md does not have %s", n)
		}
	}
	for n := range documented {
		if !known[n] {
			t.Errorf("docs/coming-from-mq-mft.md speaks of %s, which is unknown", n)
		}
	}
}

// Each message has its own identifier.
func TestMessages(t *testing.T) {
	source, err := os.ReadFile("messages.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`Message += "(.*)"`).FindAllStringSubmatch(string(source), -1) {
		id := regexp.MustCompile(`^FERRY\d{4}[IWE]: `).FindString(m[1])
		if id == "" || seen[id[:9]] {
			t.Errorf("the message %q has no identifier of its own", m[1])
		}
		seen[id[:min(len(id), 9)]] = true
	}
	if len(seen) < 10 {
		t.Errorf("there are only %d messages", len(seen))
	}
}

func FuzzCreateTransfer(f *testing.F) {
	for _, s := range []string{"-df b a", "-presrc antscript:a(b=c),1,2,3 -df b a", `-presrc a(b\,c\)),1\\ -df b a`, "-tr filesize>=1GB,x -dd b a", "-ds HLQ.X -dfa RECFM(F,B) a", "-w 3 -sq -sqdb x0A -dq Q a", "-h", "-ss 21:00 -oi days -df b a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := read(t, ends+line)
		if err != nil || c.Has("h") {
			return
		}
		d, err := c.Transfer(nil)
		if k := transfer.KindOf(err); err != nil && k != transfer.KindUsage && k != transfer.KindNotBuilt {
			t.Fatalf("%v: %v", k, err)
		}
		if err != nil {
			return
		}
		text, err := d.XML()
		if err != nil {
			return
		}
		again, err := mftxml.Parse(text)
		if err == nil {
			if _, err := again.Request(transfer.ID{1}); err == nil && again.Transfer.Source != d.Transfer.Source {
				t.Errorf("%s became %s", d.Transfer.Source, again.Transfer.Source)
			}
		}
	})
}
