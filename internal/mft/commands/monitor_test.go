package commands

import (
	"reflect"
	"strings"
	"testing"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// task returns the document of -mt.
func task() *mftxml.Document {
	return &mftxml.Document{Transfer: &mftxml.Transfer{Source: "ALPHA", Destination: "BETA", Set: mftxml.Set{Recovery: -1,
		Items: []mftxml.Item{{Mode: "binary", Checksum: "md5", Source: mftxml.Source{File: mftxml.File{Path: "${FilePath}"}}, Dest: mftxml.Dest{Type: "directory", Exist: "error", File: mftxml.File{Path: "in/"}}}}}}}
}

const watches = "fteCreateMonitor -ma alpha -mn M -mt x "

// Each option of fteCreateMonitor has its field in the document, and a written document is parsed as the same one.
func TestMonitors(t *testing.T) {
	for line, change := range map[string]func(*mftxml.Monitor){
		"-md in":                           func(*mftxml.Monitor) {},
		"-md in -pi 5 -pu HOURS -bs 7 -f":  func(m *mftxml.Monitor) { m.Poll, m.PollUnits, m.Batch, m.Overwrite = 5, "hours", 7, true },
		"-md in -rl 3 -jn j -dv a=b,c=d=e": func(m *mftxml.Monitor) { m.Levels, m.Job, m.Defaults = 3, "j", map[string]string{"a": "b", "c": "d=e"} },
		"-md in -rl none -f -c":            func(m *mftxml.Monitor) { m.Overwrite = true },
		"-md in -tr match,*.csv -x old*": func(m *mftxml.Monitor) {
			m.Conditions = []mftxml.Condition{{Kind: "fileMatch", Pattern: "*.csv", Exclude: "old*"}}
		},
		"-md in -tr noMatch,a{1,2} -pt regex": func(m *mftxml.Monitor) {
			m.Conditions = []mftxml.Condition{{Kind: "fileNoMatch", Pattern: "a{1,2}", Regex: true}}
		},
		"-md in -tr noSizeChange=3,*": func(m *mftxml.Monitor) {
			m.Conditions = []mftxml.Condition{{Kind: "fileSizeSame", Pattern: "*", Polls: 3}}
		},
		"-md in -tr fileSize>=20MB,*": func(m *mftxml.Monitor) {
			m.Conditions = []mftxml.Condition{{Kind: "fileSize", Pattern: "*", Size: 20, Units: "mb"}}
		},
		"-md in -tr fileSize>=7":            func(m *mftxml.Monitor) { m.Conditions = []mftxml.Condition{{Kind: "fileSize", Size: 7, Units: "b"}} },
		"-md in -tc":                        func(m *mftxml.Monitor) { m.Contents = &mftxml.TriggerContents{Order: "srcdest"} },
		"-md in -tc -tcr (.*) -tcc destSrc": func(m *mftxml.Monitor) { m.Contents = &mftxml.TriggerContents{Order: "destsrc", Regex: "(.*)"} },
		"-mq Q": func(m *mftxml.Monitor) {
			m.Directory, m.Queue, m.Conditions = "", "Q", []mftxml.Condition{{Kind: "queueNotEmpty"}}
		},
		"-mq Q -tr completeGroups": func(m *mftxml.Monitor) {
			m.Directory, m.Queue, m.Conditions = "", "Q", []mftxml.Condition{{Kind: "completeGroups"}}
		},
	} {
		c, err := read(t, watches+line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want := &mftxml.Monitor{Name: "M", Agent: "ALPHA", Poll: 1, PollUnits: "minutes", Batch: 1, Directory: "in", Conditions: []mftxml.Condition{{Kind: "fileMatch"}}, Task: task().Transfer}
		change(want)
		d, err := c.Monitor(task(), nil)
		if err != nil || !reflect.DeepEqual(d.Monitor, want) {
			t.Errorf("%s is\n%+v, not\n%+v: %v", line, d, want, err)
			continue
		}
		text, err := d.XML()
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		again, err := mftxml.Parse(text)
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, text)
			continue
		}
		again.Monitor.Task, want.Task = nil, nil
		if !reflect.DeepEqual(again.Monitor, want) {
			t.Errorf("%s comes back as\n%+v, not\n%+v", line, again.Monitor, want)
		}
	}
}

func TestMonitorUsage(t *testing.T) {
	for line, want := range map[string]string{
		"fteCreateMonitor -mn M -md in -mt x":                   "-ma AGENT is missing",
		"fteCreateMonitor -ma ALPHA -md in -mt x":               "-mn NAME is missing",
		"fteCreateMonitor -ma ALPHA -mn M -mt x":                "one resource is needed",
		watches + "-md in -mq Q":                                "one resource is needed",
		watches + "-md in -c":                                   "-c belongs to -f",
		watches + "-md in -pu weeks":                            "-pu weeks is unknown",
		watches + "-md in -pi 0":                                "-pi 0 is out of range",
		watches + "-md in -tr sometimes,x":                      `-tr "sometimes" is unknown`,
		watches + "-md in -tr noSizeChange=0,x":                 "is unknown",
		watches + "-md in -tr fileSize>=xMB,x":                  "is unknown",
		watches + "-md in -tr fileSize>=99999999999999999999,x": "is unknown",
		watches + "-md in -tcr (.*)":                            "belong to -tc",
		watches + "-md in -tc -tr noMatch,x":                    "-tc goes with -tr match and noSizeChange",
		watches + "-md in -dv a":                                `-dv "a" is malformed`,
		watches + "-md in -pt glob":                             "-pt glob is unknown",
	} {
		c, err := read(t, line)
		if err == nil {
			_, err = c.Monitor(task(), nil)
		}
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for line, want := range map[string]string{"-ix f -md in": "-md does not go with -ix", "-ix f -tc": "-tc does not go with -ix", "-ix f": "is no monitor"} {
		c, err := read(t, "fteCreateMonitor "+line)
		if err == nil {
			_, err = c.Monitor(nil, task())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	c, err := read(t, watches+"-md in")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Monitor(nil, nil); err == nil || !strings.Contains(err.Error(), "-mt, the file with the task, is missing") {
		t.Errorf("without a task: %v", err)
	}
}

// Exit codes of commands that failed.
func TestCodes(t *testing.T) {
	for _, c := range []struct {
		command string
		kind    transfer.Kind
		code    int
	}{{"fteCreateMonitor", transfer.KindConflict, 105}, {"fteDeleteMonitor", transfer.KindNotFound, 104}, {"fteDeleteMonitor", transfer.KindUsage, 1},
		{"fteDeleteTemplates", transfer.KindNotFound, 26}, {"fteCreateTransfer", transfer.KindNotBuilt, 1}, {"fteCreateTransfer", transfer.KindDocument, 43}, {"fteStartMonitor", transfer.KindTimeout, 2}} {
		k, _ := Find(c.command)
		if got := k.Code(transfer.Errorf(c.kind, "x")); got != c.code {
			t.Errorf("%s ends with %d for %s, not with %d", c.command, got, c.kind, c.code)
		}
	}
}

func FuzzCreateMonitor(f *testing.F) {
	for _, s := range []string{"-md in -tr match,*.csv -x old*", "-md in -tr fileSize>=20MB,x -pt regex", "-mq Q", "-md in -tc -tcr (.*) -tcc destSrc", "-md in -pi 5 -pu days -bs 3 -rl 2 -dv a=b -f -c", "-md 0 -pt regeX"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := read(t, watches+line)
		if err != nil || c.Has("h") {
			return
		}
		d, err := c.Monitor(task(), nil)
		if err != nil {
			if transfer.KindOf(err) != transfer.KindUsage {
				t.Fatal(err)
			}
			return
		}
		text, err := d.XML()
		if err != nil {
			return
		}
		if again, err := mftxml.Parse(text); err == nil && (again.Monitor.Agent != d.Monitor.Agent || !reflect.DeepEqual(again.Monitor.Conditions, d.Monitor.Conditions)) {
			t.Errorf("%+v became %+v", d.Monitor, again.Monitor)
		}
	})
}
