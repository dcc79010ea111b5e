package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"ferry/internal/transfer"
)

// Each property and each file of a complete directory has its note, and the possible agents are made.
func TestDirectory(t *testing.T) {
	c, err := Read(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	agents := map[transfer.AgentName]string{}
	for _, a := range c.Agents {
		agents[a.Name] = fmt.Sprint(a.Settings, a.Sandbox != nil)
	}
	if want := map[transfer.AgentName]string{
		"ALPHA": "[{chunk-size [524288] false} {window [20] false} {frame [3] false} {checkpoint-interval [2] false} {max-source-transfers [12] false} " +
			"{programs [/opt/mft/programs] false} {replace [?] false} {standby [true] false} {root [/srv/mft /srv/pay/out /srv/pay/in] true}] true",
		"BETA": "[{root [/srv/in /srv/jobs] true}] true",
		"OPEN": "[] false",
	}; !reflect.DeepEqual(agents, want) {
		t.Errorf("%q", agents)
	}
	if len(c.Documents) != 1 || c.Documents[0].File != "COORDQM/orders.xml" {
		t.Errorf("%+v", c.Documents)
	}

	said := map[string]string{}
	for _, n := range c.Notes {
		said[fmt.Sprintf("%s:%d %s", n.File, n.Line, n.What)] += string(n.Outcome) + ": " + n.Text + "\n"
	}
	for what, word := range map[string]string{
		"COORDQM/coordination.properties:2 coordinationQMgr":                      "not needed: Ferry's own queue manager",
		"COORDQM/coordination.properties:5 coordinationColour":                    "not taken: the property is unknown",
		"COORDQM/command.properties:1 connectionQMgr":                             "not needed: ",
		"COORDQM/agents/ALPHA/agent.properties:3 agentQMgr":                       "not needed: ",
		"COORDQM/agents/ALPHA/agent.properties:7 agentName":                       "taken: agent ALPHA",
		"COORDQM/agents/ALPHA/agent.properties:8 agentDesc":                       "not needed: it has no value",
		"COORDQM/agents/ALPHA/agent.properties:10 agentChunkSize":                 "taken: --chunk-size 524288",
		"COORDQM/agents/ALPHA/agent.properties:14 maxSourceTransfers":             "not needed: it is given again",
		"COORDQM/agents/ALPHA/agent.properties:15 maxDestinationTransfers":        `not taken: "0" is out of the range of --max-destination-transfers, 1 to 100000`,
		"COORDQM/agents/ALPHA/agent.properties:16 maxSourceTransfers":             "taken: --max-source-transfers 12",
		"COORDQM/agents/ALPHA/agent.properties:22 transferRecoveryTimeout":        "not taken: each request has its own",
		"COORDQM/agents/ALPHA/agent.properties:23 enableQueueInputOutput":         "not needed: ",
		"COORDQM/agents/ALPHA/agent.properties:24 sourceTransferStartExitClasses": "not taken: write it as a program in the directory of --programs, and name it with --exit source-start=PROGRAM",
		"COORDQM/agents/ALPHA/agent.properties:25 traceSize":                      "not needed: ",
		"COORDQM/agents/ALPHA/agent.properties:26 agentColour":                    "not taken: the property is unknown",
		`COORDQM/agents/ALPHA/UserSandboxes.xml:4 sandbox user="payroll"`:         "taken: user:payroll reads the matches of 1 pattern",
		`COORDQM/agents/ALPHA/UserSandboxes.xml:13 sandbox user="acc[0-9]+"`:      "taken: users:acc[0-9]+ reads",
		"COORDQM/agents/ALPHA/ALPHA_create.mqsc:0 ":                               "not needed: ",
		"COORDQM/agents/BETA/agent.properties:3 sandboxRoot":                      "taken: ",
		"COORDQM/agents/BETA/agent.properties:0 root":                             "taken: --root /srv/in --root /srv/jobs: relative paths begin in /srv/in",
		"COORDQM/agents/GAMMA/UserSandboxes.xml:6 exclude":                        "not taken: \"$HOME/\" has a variable",
		"COORDQM/agents/GAMMA/UserSandboxes.xml:7 include":                        `not taken: "ORDERS/X@AGENTQM" is no pattern for queues`,
		"COORDQM/agents/GAMMA/agent.properties:2 userSandboxes":                   "the agent is not made",
		"COORDQM/agents/BRIDGE/agent.properties:2 agentType":                      `not taken: "BRIDGE" is a kind of agent that is not built; the agent is not made`,
		"COORDQM/agents/BRIDGE/ProtocolBridgeCredentials.xml:0 ":                  "not taken: bridges are not built",
		"COORDQM/agents/BRIDGE/exits:0 ":                                          "not taken: write it as a program in the directory of --programs, and name it with --exit",
		"COORDQM/agents/OPEN/agent.properties:0 root":                             "not taken: there is no sandbox and no transferRoot",
		"COORDQM/loggers/LOG/logger.properties:0 ":                                "not taken: a logger",
		"COORDQM/README:0 ": "not taken: it is no file that is known",
	} {
		if !strings.Contains(said[what], word) {
			t.Errorf("%s: %q; want %q", what, said[what], word)
		}
	}

	// No property or file is ignored silently.
	for _, name := range []string{"coordination.properties", "command.properties", "agents/ALPHA/agent.properties", "agents/BETA/agent.properties"} {
		data, err := os.ReadFile(filepath.Join("testdata", "COORDQM", name))
		if err != nil {
			t.Fatal(err)
		}
		all, err := ParseProperties(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if said[fmt.Sprintf("COORDQM/%s:%d %s", name, p.Line, p.Key)] == "" {
				t.Errorf("%s: nothing is said of %s", name, p.Key)
			}
		}
	}
}

// A note has the fault of a single file, and the other files are read.
func TestDirectoriesThatAreOdd(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	deep := strings.Repeat("d/", maxDepth) + "e/agent.properties"
	c, err := Read(fstest.MapFS{
		"a/agent.properties": file("agentName=ALPHA\ntransferRoot=/a"), "b/agent.properties": file("agentName=alpha\ntransferRoot=/b"),
		"bad/agent.properties": file("a=\\u1"), "x/UserSandboxes.xml": file("x"), "y/agent.properties": file("agentName=Y"), "y/UserSandboxes.xml": file("x"),
		"z/agent.properties": file("agentName=GAMMA\nuserSandboxes=true"), "exits/keep/empty": {Mode: os.ModeDir}, "logs/output0.log": file("x"), "qm.ini": file("TCP:\n SndBuffSize=32766"), deep: file("agentName=DEEP"),
		"q/agent.properties": {Mode: os.ModeNamedPipe}, "MQMFTCredentials.xml": file("<secret/>"), "command.properties": file("a=\\u1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Agents) != 1 || c.Agents[0].Name != "ALPHA" || c.Agents[0].Settings[0].Values[0] != "/a" {
		t.Errorf("%+v", c.Agents)
	}
	all := ""
	for _, n := range c.Notes {
		all += fmt.Sprintf("%s %s: %s\n", n.Outcome, n.File, n.Text)
	}
	for _, want := range []string{
		"not taken b/agent.properties: agent ALPHA is not made of it, for a/agent.properties is another agent of that name",
		"not taken bad/agent.properties: line 1 of the properties: ", "not taken x/UserSandboxes.xml: there is no agent.properties beside it",
		"not taken y/agent.properties: agent name \"Y\"", "not taken z/agent.properties: there is no UserSandboxes.xml beside it; the agent is not made",
		"not needed logs: ", "not taken qm.ini: it configures a queue manager of MQ; for the buffers of its TCP stanza see --tcp-send-buffer", "not taken q/agent.properties: it cannot be read: it is no regular file", "not needed MQMFTCredentials.xml: ",
		"lies too deep", "not taken command.properties: line 1", "not needed y/UserSandboxes.xml: the agent has no userSandboxes=true",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s does not have %q", all, want)
		}
	}
	if strings.Contains(all, "exits") {
		t.Error("a directory of exits without a file is missed")
	}

	many := fstest.MapFS{}
	for n := range maxFiles {
		many[fmt.Sprint(n)] = file("")
	}
	if _, err := Read(many); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("too many files: %v", err)
	}
}

// The restrictions of an agent are taken completely, or no agent is made.
func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"transferRoot=/a/b/":                    "[{root [/a/b] true}] false",
		"transferRoot=/a,ro":                    "[{root [/a,ro/] true}] false",
		"transferRoot=a":                        "refused: not absolute",
		"transferRoot=$HOME/a":                  "refused: variable of the environment",
		"transferRoot=C:\\a":                    "refused: not absolute", // the backslash is an escape
		"transferRoot=C:\\\\a":                  "[{root [C:/a] true}] false",
		"sandboxRoot=/a":                        "[{root [/a] true}] true",
		"sandboxRoot=/":                         "[{root [/] true}] true",
		"sandboxRoot=/a:/a/b":                   "[{root [/a] true}] true",
		"sandboxRoot=/a/b:/c\ntransferRoot=/a":  "[{root [/a /c] true}] true",
		"sandboxRoot=C:\\\\a;!C:\\\\a\\\\b":     "[{root [C:/a] true}] true",
		"sandboxRoot=!/a":                       "refused: no directory that is allowed",
		"sandboxRoot=/a/b:!/a":                  "refused: denies a directory above it",
		"sandboxRoot=/a:!/a":                    "refused: denies a directory above it",
		"sandboxRoot=/a*":                       "refused: a wildcard",
		"sandboxRoot=ab:/b":                     "refused: not absolute",
		"sandboxRoot=/a\nuserSandboxes=true":    "refused: beside userSandboxes=true",
		"sandboxRoot=/a\nuserSandboxes=false":   "[{root [/a] true}] true",
		"userSandboxes=yes":                     "refused: neither true nor false",
		"agentType=EMBEDDED\ntransferRoot=/a":   "refused: not built",
		"commandPath=/a:/b\ntransferRoot=/a":    "[{programs [/a:/b] false} {root [/a] true}] false",
		"commandPath=C:\\\\a;d:\\\\b":           "[{programs [C:/a;d:/b] false}] false",
		"commandPath=/a:!/a/b":                  "[] false",
		"commandPath=/a\nhighlyAvailable=false": "[{programs [/a] false}] false",
		"agentWindowSize=x":                     "[] false",
		"textReplacementCharacterSequence=\\ ":  "[{replace [ ] false}] false", "textReplacementCharacterSequence=": "[] false",
		"textReplacementCharacterSequence=" + strings.Repeat("x", 2000): "[] false",
	} {
		a, notes, err := ReadAgent(Files{Data: []byte("agentName=ALPHA\n" + text)})
		if err != nil {
			t.Fatal(err)
		}
		if word, refused := strings.CutPrefix(want, "refused: "); refused {
			if a != nil || !strings.Contains(problems(notes), word) || !strings.Contains(problems(notes), "the agent is not made") {
				t.Errorf("%s: %+v, %s", text, a, problems(notes))
			}
			continue
		}
		if a == nil || fmt.Sprint(a.Settings, a.Sandbox != nil) != want {
			t.Errorf("%s: %+v, %s", text, a, problems(notes))
		}
	}
	for _, text := range []string{"", "agentName=", "agentName=A B"} {
		if a, notes, err := ReadAgent(Files{Data: []byte(text)}); a != nil || err != nil || problems(notes) == "" {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}

	a, _, err := ReadAgent(Files{Data: []byte("agentName=ALPHA\nsandboxRoot=/a:/b:!/a/x:!/b/y")})
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesOf(t, a)
	for text, want := range map[string]bool{"": false, "\nenableQueueInputOutput=true": true, "\nenableQueueInputOutput=false": false} {
		a, _, err := ReadAgent(Files{Data: []byte("agentName=ALPHA\nsandboxRoot=/a" + text)})
		if err != nil {
			t.Fatal(err)
		}
		if got := decides(t, rulesOf(t, a), "u", "/queue:ORDERS", true); got != want {
			t.Errorf("with %q a queue is %v", text, got)
		}
	}
	for path, want := range map[string]bool{"/a": true, "/a/b": true, "/a/x": false, "/a/x/y": false, "/a/X": true, "/a/xy": true, "/b/y/z": false, "/b/x": true, "/c": false, "/ab": false} {
		for _, write := range []bool{false, true} {
			if got := decides(t, rules, "u", path, write); got != want {
				t.Errorf("%s is %v", path, got)
			}
		}
	}
}

// The tables of docs/coming-from-mq-mft.md have all properties, and no others, with the flag of each.
func TestEveryPropertyIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "coming-from-mq-mft.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## agent.properties\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			if documented[m[1]] != "" {
				t.Errorf("%s stands twice", m[1])
			}
			documented[m[1]] = strings.TrimSpace(cells[2]) + " " + cells[3]
		}
	}
	known := agentKeys()
	for name, k := range networkKeys() {
		known[name] = k
	}
	for name, k := range known {
		word := string(Needless)
		switch {
		case k.flag != "" || k.own:
			word = string(Taken)
		case k.missed && k.without != "":
			word = string(Missed) + ", but for `" + k.without + "`"
		case k.missed:
			word = string(Missed)
		}
		text, ok := documented[name]
		switch {
		case !ok:
			t.Errorf("docs/coming-from-mq-mft.md does not have %s", name)
		case !strings.HasPrefix(text, word+" ") || k.flag != "" && !strings.Contains(text, "--"+k.flag):
			t.Errorf("docs/coming-from-mq-mft.md says of %s %q, and not %s, %s", name, text, word, k.flag)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/coming-from-mq-mft.md speaks of %s, which is unknown", name)
	}
}
