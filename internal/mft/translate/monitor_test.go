package translate

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/monitor"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// A watch holds the parts of a monitor as XML.
type watch struct{ root, poll, resource, condition, more, source, dest string }

func (w watch) doc() string {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	return `<m:monitor xmlns:m="http://www.ibm.com/xmlns/wmqfte/7.0.1/MonitorDefinition" version="5.00"` + w.root + `><name>orders</name>` + w.poll + `<agent>ALPHA</agent><resources>` +
		or(w.resource, "<directory>/in</directory>") + `</resources><triggerMatch><conditions><allOf><condition>` + or(w.condition, `<fileMatch><pattern>*.csv</pattern></fileMatch>`) +
		`</condition></allOf></conditions></triggerMatch>` + w.more + `<tasks><task><name/><transfer><request version="6.00"><managedTransfer><sourceAgent agent="ALPHA"/><destinationAgent agent="BETA"/>` +
		`<transferSet><item><source` + or(w.source, `><file>${FilePath}</file>`) + `</source><destination` + or(w.dest, ` type="directory"><file>in</file>`) + `</destination></item></transferSet></managedTransfer></request></transfer></task></tasks>` +
		`<originator><hostName>desk</hostName><userID>ann</userID></originator><job><name>watch</name></job></m:monitor>`
}

func monitorOf(doc string) (*monitor.Create, error) {
	d, err := mftxml.Parse([]byte(doc))
	if err != nil {
		return nil, err
	}
	return Monitor(d)
}

// The names of agents in a task may have variables: that of the source stands for the monitor's agent.
func TestAgentsWithVariables(t *testing.T) {
	plain := watch{}.doc()
	doc := strings.Replace(strings.Replace(plain, `<sourceAgent agent="ALPHA"`, `<sourceAgent agent="${agentName}"`, 1), `<destinationAgent agent="BETA"`, `<destinationAgent agent="${FileName{token=1}}"`, 1)
	c, err := monitorOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	if d := &c.Definition; d.Request.Source != "ALPHA" || d.To != "${FileName{token=1}}" || d.Request.Destination != "ALPHA" {
		t.Errorf("the monitor sends from %s to %s with %q", d.Request.Source, d.Request.Destination, d.To)
	}
	text, err := MonitorXML(&c.Definition)
	if err != nil || !strings.Contains(string(text), `<destinationAgent agent="${FileName{token=1}}"/>`) {
		t.Errorf("the written monitor: %s, %v", text, err)
	}
	for was, is := range map[string]string{`<sourceAgent agent="ALPHA"`: `<sourceAgent agent="${FileName}"`, `<destinationAgent agent="BETA"`: `<destinationAgent agent="${none}"`} {
		if _, err := monitorOf(strings.Replace(plain, was, is, 1)); err == nil {
			t.Errorf("%s is taken", is)
		}
	}
}

// Several items of a task have their own destinations.
func TestItemsWithDestinations(t *testing.T) {
	doc := strings.Replace(watch{}.doc(), "</item>", `</item><item><source><file>${FilePath}.ctl</file></source><destination type="file" exist="overwrite"><file>control/last</file></destination></item>`, 1)
	c, err := monitorOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	q := c.Definition.Request
	if len(q.Items) != 2 || q.Items[0].Dest != transfer.File("in/") || q.Items[1].Dest != transfer.File("control/last") || !q.Dest.IsZero() {
		t.Errorf("the request is %+v", q)
	}
	if _, err := MonitorXML(&c.Definition); err != nil {
		t.Error(err)
	}
}

// Each part of a monitor of MQ MFT has its field in a definition, and a written definition is parsed as the same one.
func TestMonitorsInXML(t *testing.T) {
	base := func() monitor.Definition {
		return monitor.Definition{V: 2, Name: "ORDERS", Agent: "ALPHA", Dir: transfer.File("/in"), Match: "*.csv", Condition: monitor.Condition{Kind: monitor.ConditionMatch}, Poll: transfer.Duration(time.Minute), Exact: true, Batch: 1}
	}
	for _, c := range []struct {
		name   string
		w      watch
		change func(d *monitor.Definition)
		items  string // sources and destination
	}{
		{"plain", watch{}, func(*monitor.Definition) {}, "${FilePath} in/"},
		{"poll and batch", watch{poll: `<pollInterval units="seconds">90</pollInterval><batch maxSize="7"/>`}, func(d *monitor.Definition) { d.Poll, d.Batch = transfer.Duration(90*time.Second), 7 }, "${FilePath} in/"},
		{"a day", watch{poll: `<pollInterval units="days">1</pollInterval>`}, func(d *monitor.Definition) { d.Poll = transfer.Duration(24 * time.Hour) }, "${FilePath} in/"},
		{"levels", watch{resource: `<directory recursionLevel="3">/in</directory>`}, func(d *monitor.Definition) { d.Levels = 3 }, "${FilePath} in/"},
		{"all levels", watch{resource: `<directory recursionLevel="-1">/in</directory>`}, func(d *monitor.Definition) { d.Levels = monitor.MaxLevels }, "${FilePath} in/"},
		{"everything", watch{condition: "<fileMatch/>"}, func(d *monitor.Definition) { d.Match = "*" }, "${FilePath} in/"},
		{"regex", watch{condition: `<fileMatch><pattern type="regex">a.*</pattern><exclude type="regex">ab+</exclude></fileMatch>`}, func(d *monitor.Definition) { d.Match, d.Exclude, d.Regex = "a.*", "ab+", true }, "${FilePath} in/"},
		{"exclude as pattern", watch{condition: `<fileMatch><pattern type="regex">a.*</pattern><exclude>ab+</exclude></fileMatch>`}, func(d *monitor.Definition) { d.Match, d.Exclude, d.Regex = "a.*", "ab+", true }, "${FilePath} in/"},
		{"size", watch{condition: `<fileSize><compare operator="&gt;=" units="KB">10</compare><pattern>*</pattern><exclude>x*</exclude></fileSize>`},
			func(d *monitor.Definition) {
				d.Match, d.Exclude, d.Condition = "*", "x*", monitor.Condition{Kind: monitor.ConditionSize, Value: 10240}
			}, "${FilePath} in/"},
		{"same size", watch{condition: `<fileSizeSame polls="3"><pattern>*.csv</pattern></fileSizeSame>`}, func(d *monitor.Definition) {
			d.Condition = monitor.Condition{Kind: monitor.ConditionUnchanged, Value: 3}
		}, "${FilePath} in/"},
		{"none", watch{condition: `<fileNoMatch><pattern>*.csv</pattern></fileNoMatch>`, source: `><file>/nothing</file>`}, func(d *monitor.Definition) { d.Condition.Kind = monitor.ConditionNoMatch }, "/nothing in/"},
		{"file and directory", watch{source: ` recursive="true" disposition="delete"><file>${filepath}</file>`}, func(*monitor.Definition) {}, "${FilePath} in/"},
		{"defaults", watch{more: `<defaultVariables><variable key="region">north</variable></defaultVariables>`, dest: ` type="file"><file>in/${REGION{toUpper}}/${FileName}</file>`},
			func(d *monitor.Definition) { d.Defaults = map[string]string{"region": "north"} }, "${FilePath} in/${REGION{toUpper}}/${FileName}"},
		{"lines", watch{more: `<triggerContentFormat order="destSrc">(.*);(.*)</triggerContentFormat>`, source: `><file>${contentSource}</file>`},
			func(d *monitor.Definition) { d.TriggerFile = &monitor.TriggerFile{DestFirst: true, Regex: "(.*);(.*)"} }, "${FilePath} in/"},
		{"lines to files", watch{more: `<triggerContentFormat/>`, source: `><file>${contentSource}</file>`, dest: ` type="file"><file>${CONTENTDESTINATION}</file>`},
			func(d *monitor.Definition) { d.TriggerFile = &monitor.TriggerFile{To: monitor.ToFile} }, "${FilePath} ./"},
		{"lines to directories", watch{more: `<triggerContentFormat/>`, source: `><file>${contentsource}</file>`, dest: ` type="directory"><file>${contentDestination}</file>`},
			func(d *monitor.Definition) { d.TriggerFile = &monitor.TriggerFile{To: monitor.ToDirectory} }, "${FilePath} ./"},
		{"queue", watch{resource: "<queue>Q@QM1</queue>", condition: "<queueNotEmpty/>", source: `><queue>Q</queue>`},
			func(d *monitor.Definition) {
				d.Dir, d.Match, d.Condition.Kind = transfer.Location{Place: transfer.Queues, Path: "queue:Q"}, "", monitor.ConditionNotEmpty
			}, "${FilePath} in/"},
		{"queue with a time to wait", watch{resource: "<queue>Q</queue>", condition: "<queueNotEmpty/>", source: `><queue waitTime="5">Q</queue>`},
			func(d *monitor.Definition) {
				d.Dir, d.Match, d.Condition.Kind = transfer.Location{Place: transfer.Queues, Path: "queue:Q"}, "", monitor.ConditionNotEmpty
			}, "${FilePath} in/"},
		{"queue with a delimiter", watch{resource: "<queue>Q</queue>", condition: "<queueNotEmpty/>", source: `><queue delimiter="x0A" delimiterType="binary" delimiterPosition="postfix">${queuename}</queue>`},
			func(d *monitor.Definition) {
				d.Dir, d.Match, d.Condition.Kind = transfer.Location{Place: transfer.Queues, Path: "queue:Q?delimiter=0x0a&delimiter-at=after"}, "", monitor.ConditionNotEmpty
			}, "${FilePath} in/"},
		{"groups", watch{resource: "<queue>Q</queue>", condition: "<completeGroups/>", source: `><queue useGroups="true" groupId="${GROUPID}">Q</queue>`, dest: ` type="file"><file>in/${GROUPID}</file>`},
			func(d *monitor.Definition) {
				d.Dir, d.Match, d.Condition.Kind = transfer.Location{Place: transfer.Queues, Path: "queue:Q"}, "", monitor.ConditionGroup
			}, "${FilePath} in/${GROUPID}"},
		{"file for a queue", watch{resource: "<queue>Q</queue>", condition: "<queueNotEmpty/>", source: `><file>/report</file>`},
			func(d *monitor.Definition) {
				d.Dir, d.Match, d.Condition.Kind = transfer.Location{Place: transfer.Queues, Path: "queue:Q"}, "", monitor.ConditionNotEmpty
			}, "/report in/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := monitorOf(c.w.doc())
			if err != nil {
				t.Fatal(err)
			}
			want := base()
			c.change(&want)
			q := got.Definition.Request
			d := got.Definition
			if d.Request = (transfer.Request{}); !reflect.DeepEqual(d, want) {
				t.Errorf("it is\n%+v, not\n%+v", d, want)
			}
			items := ""
			for _, it := range q.Items {
				items += string(it.Source.Path) + " "
			}
			if items += string(q.Dest.Path); items != c.items || q.Job != "watch" || q.Source != "ALPHA" || q.Destination != "BETA" || q.Recovery != -1 || q.Checksum != "md5" || !q.ID.IsZero() || got.Redefine {
				t.Errorf("it submits %s: %+v", items, q)
			}
			text, err := MonitorXML(&got.Definition)
			if err != nil {
				t.Fatal(err)
			}
			again, err := monitorOf(string(text))
			if err != nil || !reflect.DeepEqual(again.Definition, got.Definition) && sameMonitor(&again.Definition, text) != nil {
				t.Errorf("it comes back as\n%+v, not\n%+v: %v", again, got, err)
			}
		})
	}
	if c, err := monitorOf(watch{root: ` overwrite="true"`}.doc()); err != nil || !c.Redefine {
		t.Errorf("overwrite: %+v, %v", c, err)
	}
}

// Several conditions that differ only in their patterns become one, which matches all their names.
func TestAnyOfSeveralConditions(t *testing.T) {
	anyOf := func(conditions ...string) string {
		return strings.NewReplacer("<allOf>", "<anyOf>", "</allOf>", "</anyOf>").Replace(watch{condition: strings.Join(conditions, "</condition><condition>")}.doc())
	}
	match := func(pattern string) string { return "<fileMatch><pattern>" + pattern + "</pattern></fileMatch>" }
	patterns := []string{"*.csv", "a?c", "??x*", "*?+", ".hid*", "ü.(1)", "**z"}
	var conditions []string
	for _, p := range patterns {
		conditions = append(conditions, match(p))
	}
	c, err := monitorOf(anyOf(append(conditions, "<fileMatch><pattern type=\"regex\">[0-9]{2}|end</pattern></fileMatch>")...))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Definition.Regex || c.Definition.Exclude != "" {
		t.Fatalf("it is no regular expression alone: %+v", c.Definition)
	}
	m := regexp.MustCompile(`^(?s:` + c.Definition.Match + `)$`) // as a monitor matches names
	for _, name := range []string{"x.csv", ".csv", ".x.csv", "a.csv\n", "abc", "a.c", "ac", "abx", ".bx", "abxy", "b.xy", "x+", "+", ".+", "a.+", ".hidden", ".hi", "ü.(1)", "ü.11", "z", ".z", "yz", "12", "123", "end", "x end", "nothing"} {
		want := name == "12" || name == "end" || slices.ContainsFunc(patterns, func(p string) bool { return walk.MatchName(p, name) })
		if got := m.MatchString(name); got != want {
			t.Errorf("%q: %t, in %s", name, got, c.Definition.Match)
		}
	}
	size := func(n, pattern string) string {
		return `<fileSize><compare operator=">=" units="MB">` + n + "</compare><pattern>" + pattern + "</pattern></fileSize>"
	}
	if c, err := monitorOf(anyOf(size("2", "*.a"), size("2", "*.b"))); err != nil || c.Definition.Condition != (monitor.Condition{Kind: monitor.ConditionSize, Value: 2 << 20}) || !c.Definition.Regex {
		t.Errorf("of a size: %+v, %v", c, err)
	} else if text, err := MonitorXML(&c.Definition); err != nil {
		t.Errorf("in XML again: %s, %v", text, err)
	}
	for says, doc := range map[string]string{
		"of different kinds or figures":     anyOf(size("2", "*.a"), size("3", "*.b")),
		"of different kinds":                anyOf(match("*.a"), size("3", "*.b")),
		"that is <fileNoMatch>":             anyOf("<fileNoMatch><pattern>a</pattern></fileNoMatch>", "<fileNoMatch><pattern>b</pattern></fileNoMatch>"),
		"with different <exclude>s":         anyOf("<fileMatch><pattern>a</pattern><exclude>b</exclude></fileMatch>", match("c")),
		"more than one <condition> in <all": watch{condition: match("a") + "</condition><condition>" + match("b")}.doc(),
	} {
		if _, err := monitorOf(doc); transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// Impossible parts of a monitor in XML, and parts that are not built, are refused by name.
func TestMonitorsInXMLThatAreRefused(t *testing.T) {
	lines := `<triggerContentFormat/>`
	for says, w := range map[string]watch{
		"a poll interval of 2 days is out of range":             {poll: `<pollInterval units="days">2</pollInterval>`},
		"a poll interval of 2147483647 days is out":             {poll: `<pollInterval units="days">2147483647</pollInterval>`},
		"a batch of 1001 files is out of range":                 {poll: `<batch maxSize="1001"/>`},
		"recursion through 101 levels":                          {resource: `<directory recursionLevel="101">/in</directory>`},
		"the condition match is of directories":                 {resource: `<queue>Q</queue>`},
		"the condition notempty is of queues":                   {condition: `<queueNotEmpty/>`},
		"no levels of directories and no trigger file":          {resource: `<queue>Q</queue>`, condition: `<queueNotEmpty/>`, source: `><queue>Q</queue>`, more: lines},
		"it has no batch of 2":                                  {resource: `<queue>Q</queue>`, condition: `<queueNotEmpty/>`, source: `><queue>Q</queue>`, poll: `<batch maxSize="2"/>`},
		"and waits for <completeGroups>":                        {resource: `<queue>Q</queue>`, condition: `<completeGroups/>`, source: `><queue>Q</queue>`},
		"and waits for <queueNotEmpty>":                         {resource: `<queue>Q</queue>`, condition: `<queueNotEmpty/>`, source: `><queue useGroups="true">Q</queue>`},
		"regular expression":                                    {condition: `<fileMatch><pattern type="regex">(?=x)</pattern></fileMatch>`},
		"are of two types":                                      {condition: `<fileMatch><pattern type="regex">x</pattern><exclude type="wildcard">y</exclude></fileMatch>`},
		"there is no variable QueueName":                        {dest: ` type="file"><file>${QueueName}</file>`},
		"speaks of a file, and the condition nomatch":           {condition: `<fileNoMatch/>`},
		"with the source ${contentSource}":                      {more: lines},
		"has more than ${contentDestination}":                   {more: lines, source: `><file>${contentSource}</file>`, dest: ` type="file"><file>/x/${contentDestination}</file>`},
		"it has one for the source":                             {more: `<triggerContentFormat>x</triggerContentFormat>`, source: `><file>${contentSource}</file>`},
		"is no name of one, or is there twice":                  {more: `<defaultVariables><variable key="a">1</variable><variable key="A">2</variable></defaultVariables>`},
		"the condition nomatch triggers when no file is there;": {condition: `<fileNoMatch/>`, more: lines, source: `><file>${contentSource}</file>`},
		"has an ID, a base":                                     {},
	} {
		doc := w.doc()
		if says == "has an ID, a base" {
			doc, says = strings.Replace(doc, "<name>orders</name>", "<name>or%ders</name>", 1), `monitor name "or%ders" is not valid`
		}
		if c, err := monitorOf(doc); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", says, c, err)
		}
	}
}

// A definition with parts that XML does not have is not written.
func TestMonitorsThatAreNotWritten(t *testing.T) {
	for name, change := range map[string]func(d *monitor.Definition){
		"a short poll": func(d *monitor.Definition) { d.Poll = transfer.Duration(200 * time.Millisecond) },
		"a large size": func(d *monitor.Definition) {
			d.Condition = monitor.Condition{Kind: monitor.ConditionSize, Value: 1<<33 + 1}
		},
		"a time-out of a program": func(d *monitor.Definition) {
			d.Request.Programs = &transfer.Programs{PreSource: &transfer.Program{Name: "a", Timeout: transfer.Duration(time.Minute)}}
		},
		"bytes": func(d *monitor.Definition) { d.Dir = transfer.File("/in\xff") },
	} {
		c, err := monitorOf(watch{}.doc())
		if err != nil {
			t.Fatal(err)
		}
		change(&c.Definition)
		if text, err := MonitorXML(&c.Definition); transfer.KindOf(err) != transfer.KindUsage && transfer.KindOf(err) != transfer.KindDocument {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func FuzzMonitorInXML(f *testing.F) {
	f.Add(watch{}.doc())
	f.Add(watch{poll: `<pollInterval units="hours">3</pollInterval>`, more: `<triggerContentFormat/>`, source: `><file>${contentSource}</file>`}.doc())
	f.Add(watch{resource: "<queue>Q</queue>", condition: "<completeGroups/>", source: `><queue useGroups="true">Q</queue>`, dest: ` type="file"><file>in/${GROUPID}</file>`}.doc())
	f.Add(watch{condition: `<fileSize><compare units="GB">2</compare></fileSize>`, resource: `<directory recursionLevel="-1">/in</directory>`}.doc())
	f.Fuzz(func(t *testing.T, doc string) {
		c, err := monitorOf(doc)
		if err != nil {
			if transfer.KindOf(err) == transfer.KindInternal {
				t.Fatal(err)
			}
			return
		}
		if text, err := MonitorXML(&c.Definition); err == nil {
			if again, err := monitorOf(string(text)); err != nil || again.Definition.Name != c.Definition.Name || again.Definition.Dir != c.Definition.Dir {
				t.Errorf("%v: %+v became %+v", err, c, again)
			}
		}
	})
}
