package ant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/mft/commands"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// A deskNetwork keeps the requests of a script, and answers as its fields say.
type deskNetwork struct {
	mu     sync.Mutex
	asked  []*Work
	done   []string
	codes  map[string]int // result codes by the name of the first source, of a program, or of a pinged agent
	blocks bool           // Await ends with its context
	before func(name string)
}

func (d *deskNetwork) name(w *Work) string {
	if w.Call != nil {
		return w.Call.Command.Name
	}
	return string(w.Request.Items[0].Source.Path)
}

func (d *deskNetwork) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, fmt.Sprintf(format, args...))
}

func (d *deskNetwork) Start(_ context.Context, w *Work, say Say) error {
	if d.before != nil {
		d.before(d.name(w))
	}
	d.mu.Lock()
	d.asked = append(d.asked, w)
	d.mu.Unlock()
	d.note("start %s", d.name(w))
	say(commands.Issued, mftxml.FormatID(w.ID))
	return nil
}

func (d *deskNetwork) Await(ctx context.Context, id transfer.ID, _ Say) error {
	if d.blocks {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	d.mu.Lock()
	n := slices.IndexFunc(d.asked, func(w *Work) bool { return w.ID == id })
	d.mu.Unlock()
	if n < 0 {
		return transfer.Errorf(transfer.KindNotFound, "no transfer has that ID")
	}
	name := d.name(d.asked[n])
	d.note("end %s", name)
	return d.end(name)
}

func (d *deskNetwork) end(name string) error {
	if code := d.codes[name]; code != 0 {
		return &Failure{Code: code, Text: name + " has failed"}
	}
	return nil
}

func (d *deskNetwork) Cancel(_ context.Context, agent transfer.AgentName, id transfer.ID, _ Say) error {
	d.note("cancel %s", agent)
	return d.end(string(agent))
}

func (d *deskNetwork) Ping(_ context.Context, agent transfer.AgentName, limit time.Duration, _ Say) error {
	d.note("ping %s %s", agent, limit)
	return d.end(string(agent))
}

// A played is the result of a script.
type played struct {
	status   int
	err      error
	out, bad string
	net      *deskNetwork
	run      *Runner
}

// get returns a property; "-" if it is not set.
func (p *played) get(name string) string {
	v, is := p.run.properties.get(name)
	if !is {
		return "-"
	}
	return v.text
}

// play runs a script that lies in a directory.
func play(t *testing.T, dir, script string, with func(*Runner, *deskNetwork), targets ...string) *played {
	t.Helper()
	s, err := Parse(filepath.Join(dir, "build.xml"), []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	if targets, err = s.Targets(targets); err != nil {
		t.Fatal(err)
	}
	var out, bad bytes.Buffer
	net := &deskNetwork{codes: map[string]int{}}
	r := &Runner{Script: s, Network: net, Out: &out, Err: &bad, Style: commands.StyleFerry, Origin: transfer.Originator{User: "ann", Host: "desk"}}
	if with != nil {
		with(r, net)
	}
	p := &played{net: net, run: r}
	p.status, p.err = r.Run(t.Context(), targets)
	p.out, p.bad = out.String(), bad.String()
	return p
}

// all is a script with one target.
func all(tasks string) string {
	return head + `<target name="all">` + tasks + `</target></project>`
}

// Properties do not change, and have the values of others; those of the command line come first.
func TestProperties(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FERRY_TEST_WORD", "from outside")
	files := map[string]string{"a.properties": "x=file\ny=${x} and ${z}\nz=last\nnew = ${first}\n", "given.properties": "g=given\nfirst=no"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := play(t, dir, `<project name="named" default="all"><property name="x" value="1"/><property name="x" value="2"/><property name="both" value="${x}${first}$${x} $5 ${none}"/>
<property name="first" value="of the script"/><property name="here" location="sub/../a"/><property name="text"> a ${x} </property><property environment="env"/>
<property file="a.properties" prefix="f"/><property file="a.properties"/><property file="missing.properties"/><target name="all"/></project>`,
		func(r *Runner, _ *deskNetwork) {
			r.Given = map[string]string{"first": "said", "user.home": "/h"}
			r.File = []byte(files["given.properties"])
		})
	if p.status != 0 || p.err != nil {
		t.Fatalf("%d %v: %s", p.status, p.err, p.bad)
	}
	for name, want := range map[string]string{"x": "1", "both": "1said${x} $5 ${none}", "first": "said", "here": filepath.Join(dir, "a"), "text": " a 1 ", "env.FERRY_TEST_WORD": "from outside", "y": "1 and last",
		"f.x": "file", "f.y": "1 and ${z}", "z": "last", "new": "said", "g": "given", "user.home": "/h", "basedir": dir, "ant.project.name": "named", "user.name": "ann", "none": "-"} {
		if got := p.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(p.out, "missing.properties does not exist, and sets no property\n") {
		t.Errorf("the missing file is not named:\n%s", p.out)
	}
}

// Limits bound the values that a script makes, and properties that are made of themselves.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"loop": "a=${b}\nb=${a}\n", "bad": "a=\\u12\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	double := `<property name="p0" value="` + strings.Repeat("x", 1000) + `"/>`
	for n := range 20 {
		double += fmt.Sprintf(`<property name="p%d" value="${p%d}${p%d}"/>`, n+1, n, n)
	}
	for script, want := range map[string]string{
		double: "more than 65536 bytes", `<property file="loop"/>`: "is made of itself", `<property file="bad"/>`: "cannot be read",
		`<echo message="${a"/>`: "has no bracket at its end", `<echo file="no/such/dir/x" message="a"/>`: "the file of <echo> cannot be written",
		`<property name="n" value="x"/><parallel threadcount="${n}"><echo/></parallel>`: "is no whole number from 1 to 64",
		`<condition property="c"><istrue value="${q"/></condition>`:                     "has no bracket",
	} {
		p := play(t, dir, all(script), nil)
		if p.status != 1 || !strings.Contains(p.bad, "BUILD FAILED\n"+filepath.Join(dir, "build.xml")+":2: ") || !strings.Contains(p.bad, want) {
			t.Errorf("%.100s: %d %s", script, p.status, p.bad)
		}
	}
	many := &properties{all: map[string]value{}}
	for n := range maxProperties {
		if err := many.set(fmt.Sprint(n), value{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := many.set("more", value{}); err == nil {
		t.Error("there is no limit")
	}
	large := &properties{all: map[string]value{}}
	var err error
	for n := range maxAllValues/maxValue + 1 {
		err = large.set(fmt.Sprint(n), value{text: strings.Repeat("x", maxValue)})
	}
	if err == nil {
		t.Error("there is no limit of all values")
	}
	named := &properties{all: map[string]value{}}
	for n := range maxAllValues / maxValue {
		err = named.set(strings.Repeat("x", maxValue)+fmt.Sprint(n), value{text: "y"})
	}
	if err == nil {
		t.Error("there is no limit of all names")
	}
	if err := named.result(strings.Repeat("x", maxValue)+"0", "yy"); err != nil {
		t.Errorf("a property that is there counts its name again: %v", err)
	}
}

// Targets run once, behind those that they depend on, if their conditions hold.
func TestTargets(t *testing.T) {
	script := `<project default="a"><target name="a" depends="b,c,d,e"><echo>A</echo></target><target name="b" depends="x"><echo message="B"/></target>
<target name="c" if="no" depends="x"><echo>C</echo></target><target name="d" unless="set"><echo>D</echo></target><target name="e" if="${word}"><echo level="info">E</echo></target>
<target name="x"><property name="set" value=""/><property name="word" value="yes"/><echo level="debug">deep</echo></target></project>`
	p := play(t, t.TempDir(), script, nil)
	want := "\nx:\n\nb:\n     [echo] B\n\nc:\n\nd:\n\ne:\n     [echo] E\n\na:\n     [echo] A\n\nBUILD SUCCESSFUL\n"
	if p.out != want || p.status != 0 || p.bad != "" {
		t.Errorf("%d %s\n%s", p.status, p.bad, p.out)
	}
	p = play(t, t.TempDir(), script, func(r *Runner, _ *deskNetwork) { r.Quiet, r.Verbose = true, true }, "x", "b")
	if p.out != "     [echo] deep\n     [echo] deep\n     [echo] B\n\nBUILD SUCCESSFUL\n" {
		t.Errorf("%q", p.out)
	}
}

// A failed target ends the script; with KeepGoing those run that do not depend on it.
func TestFail(t *testing.T) {
	script := `<project default="a"><target name="a" depends="b,c,d"><echo>A</echo></target><target name="b"><fail message="no " status="7">more</fail></target>
<target name="c"><echo>C</echo></target><target name="d" depends="b"><echo>D</echo></target></project>`
	dir := t.TempDir()
	p := play(t, dir, script, nil)
	if p.status != 7 || p.bad != "\nBUILD FAILED\n"+filepath.Join(dir, "build.xml")+":1: no more\n" || strings.Contains(p.out, "C") {
		t.Errorf("%d %q %q", p.status, p.bad, p.out)
	}
	p = play(t, dir, script, func(r *Runner, _ *deskNetwork) { r.KeepGoing = true })
	if p.status != 7 || p.out != "\nb:\n\nc:\n     [echo] C\n" {
		t.Errorf("%d %q", p.status, p.out)
	}
	for task, status := range map[string]int{`<fail if="basedir"/>`: 1, `<fail unless="basedir"/>`: 0, `<fail if="none"/>`: 0, `<fail status="256"/>`: 1, `<fail status="${basedir}"/>`: 1,
		`<fail status="3"><condition><equals arg1="a" arg2="a"/></condition></fail>`: 3, `<fail><condition><isset property="none"/></condition></fail>`: 0} {
		if p := play(t, dir, all(task), nil); p.status != status {
			t.Errorf("%s: %d %s", task, p.status, p.bad)
		}
	}
}

// Conditions set a property, or set the other value of it.
func TestConditions(t *testing.T) {
	dir := t.TempDir()
	for condition, want := range map[string]bool{
		`<equals arg1="a" arg2="a"/>`: true, `<equals arg1="a" arg2="A"/>`: false, `<equals arg1="a" arg2="A" casesensitive="no"/>`: true, `<equals arg1=" a" arg2="a " trim="true"/>`: true,
		`<isset property="basedir"/>`: true, `<isset property="none"/>`: false, `<istrue value="ON"/>`: true, `<istrue value="x"/>`: false, `<isfalse value="off"/>`: true,
		`<not><isset property="none"/></not>`: true, `<and><istrue value="yes"/><istrue value="no"/></and>`: false, `<or><istrue value="yes"/><istrue value="no"/></or>`: true,
		`<xor><istrue value="yes"/><istrue value="yes"/></xor>`: false, `<xor><istrue value="yes"/><istrue value="no"/></xor>`: true,
		`<contains string="abc" substring="bc"/>`: true, `<contains string="ABC" substring="bc"/>`: false, `<contains string="ABC" substring="bc" casesensitive="false"/>`: true,
		`<available file="."/>`: true, `<available file="none"/>`: false, `<available file="." type="file"/>`: false, `<available file="${basedir}" type="dir"/>`: true,
		`<or><os family="unix"/><os family="windows"/></or>`: true, `<os family="z/os"/>`: false,
	} {
		p := play(t, dir, all(`<condition property="c" value="v">`+condition+`</condition><condition property="d" else="no">`+condition+`</condition>`), nil)
		c, d := "-", "no"
		if want {
			c, d = "v", "true"
		}
		if p.status != 0 || p.get("c") != c || p.get("d") != d {
			t.Errorf("%s: %q %q %s", condition, p.get("c"), p.get("d"), p.bad)
		}
	}
	p := play(t, dir, all(`<available property="there" file="." value="a ${basedir}"/><available property="away" file="none"/><echo file="f" message="one"/><echo file="f" append="true">, two
</echo><available property="file" file="f" type="file"/>`), nil)
	text, err := os.ReadFile(filepath.Join(dir, "f"))
	if p.get("there") != "a "+dir || p.get("away") != "-" || p.get("file") != "true" || err != nil || string(text) != "one, two\n" {
		t.Errorf("%q %q %q: %q %v", p.get("there"), p.get("away"), p.get("file"), text, err)
	}
}

// Tasks of <parallel> run at the same time. With failonany a failure ends the others.
func TestParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	p := play(t, t.TempDir(), all(`<parallel>`+strings.ReplaceAll(copied("", ""), `rcproperty="rc"`, "")+strings.ReplaceAll(copied("", ""), `"a"`, `"c"`)+`</parallel>`),
		func(_ *Runner, d *deskNetwork) {
			d.codes["a"], d.codes["c"] = 40, 20
			d.before = func(string) { both.Done(); both.Wait() } // each waits for the other
		})
	if p.status != 1 || !strings.Contains(p.bad, "a has failed") || p.get("rc") != "20" {
		t.Errorf("%d %s %s", p.status, p.bad, p.get("rc"))
	}
	p = play(t, t.TempDir(), all(`<parallel failonany="true"><fail message="at once"/><fte:awaitoutcome id="4645525259202020019b00000000700080000000000000ff" rcproperty="rc"/></parallel>`),
		func(_ *Runner, d *deskNetwork) { d.blocks = true })
	if p.status != 1 || !strings.Contains(p.bad, "at once") {
		t.Errorf("%d %s", p.status, p.bad)
	}
	p = play(t, t.TempDir(), all(`<parallel threadcount="1"><sequential><echo>1</echo><echo>2</echo></sequential><echo>3</echo></parallel>`), nil)
	if p.out != "\nall:\n     [echo] 1\n     [echo] 2\n     [echo] 3\n\nBUILD SUCCESSFUL\n" {
		t.Errorf("%q", p.out)
	}
}

// Each failure of <parallel> is printed, and the exit code tells about one that has a code.
func TestParallelFailures(t *testing.T) {
	p := play(t, t.TempDir(), all(`<parallel threadcount="1"><fail status="0" message="one"/><fail status="7" message="two"/><fail message="three"/></parallel>`), nil)
	if p.status != 7 || !strings.Contains(p.bad, "failed, too: two") || !strings.Contains(p.bad, "failed, too: three") {
		t.Errorf("%d %s", p.status, p.bad)
	}
}

// Entries of a properties file may refer to others many times.
func TestEntriesOfEntries(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for n := range maxNesting {
		fmt.Fprintf(&b, "p%02d=%s\n", n, strings.Repeat(fmt.Sprintf("${p%02d}", n+1), 200))
	}
	fmt.Fprintf(&b, "p%02d=\n", maxNesting)
	if err := os.WriteFile(filepath.Join(dir, "a.properties"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := play(t, dir, all(`<property file="a.properties"/><echo>(${p00})</echo>`), nil); p.status != 0 || !strings.Contains(p.out, "[echo] ()") {
		t.Errorf("%d %s %s", p.status, p.out, p.bad)
	}
}

// A task with a result that no property can take starts nothing.
func TestResultsWithoutProperty(t *testing.T) {
	for _, name := range []string{"id", "rc"} {
		p := play(t, t.TempDir(), all(copied(`idproperty="id" outcome="defer"`, "")), func(r *Runner, _ *deskNetwork) { r.Given = map[string]string{name: "x"} })
		if p.status != 1 || !strings.Contains(p.bad, "given on the command line") || len(p.net.asked) > 0 {
			t.Errorf("%s: %d %s; %d tasks are started", name, p.status, p.bad, len(p.net.asked))
		}
	}
}

// A result code is in the property of rcproperty. Without the property a failure ends the script.
func TestOutcomes(t *testing.T) {
	dir := t.TempDir()
	script := all(copied(`outcome="defer" idproperty="id" jobname="j"`, `<fte:filespec srcfilespec="d" dstdir="e"/>`) + `<echo>${id}</echo>
<fte:awaitoutcome id="${id}" rcproperty="end"/><fte:ignoreoutcome id="${id}"/><fte:ping agent="GAMMA@QM2" rcproperty="ping" timeout="-1"/><fte:ping agent="DELTA" rcproperty="ping2"/>
<fte:call agent="BETA" rcproperty="called" idproperty="id"><fte:command command="load.sh" successrc="0|4" retrycount="2" retrywait="5"><fte:arg value="x ${rc}"/></fte:command></fte:call>
<fte:cancel agent="ALPHA" id="${id}"/><fte:uuid length="7" property="u" prefix="job-"/>`)
	p := play(t, dir, script, func(r *Runner, d *deskNetwork) { d.codes = map[string]int{"a": 20, "GAMMA": 2, "load.sh": 40} })
	if p.status != 0 {
		t.Fatalf("%d %s", p.status, p.bad)
	}
	for name, want := range map[string]string{"rc": "0", "end": "20", "ping": "2", "ping2": "0", "called": "40"} {
		if got := p.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got, want := strings.Join(p.net.done, ", "), "start a, end a, ping GAMMA -1s, ping DELTA 5s, start load.sh, end load.sh, cancel ALPHA"; got != want {
		t.Errorf("%s", got)
	}
	if u := p.get("u"); len(u) != 11 || !strings.HasPrefix(u, "job-") {
		t.Errorf("the ID is %q", u)
	}
	if id := p.get("id"); id != mftxml.FormatID(p.net.asked[1].ID) { // of the last task
		t.Errorf("the ID is %q", id)
	}
	if c := p.net.asked[1].Call; c.Agent != "BETA" || c.Originator.User != "ann" || c.Command.SuccessRC != "0|4" || c.Command.RetryCount != 2 || c.Command.RetryWait != 5 || c.Command.Args[0] != "x 0" {
		t.Errorf("the call is %+v", c)
	}
	if !strings.Contains(p.out, "[fte:filecopy] FERRY0001I: ") || strings.Count(p.bad, "names of queue managers have no effect") != 1 {
		t.Errorf("%s\n%s", p.out, p.bad)
	}

	for task, want := range map[string]string{
		strings.ReplaceAll(copied("", ""), `rcproperty="rc"`, ""):                                                                     "a has failed",
		`<fte:ping agent="DELTA"/>`:                                                                                                   "DELTA has failed",
		`<fte:cancel agent="DELTA" id="4645525259202020019b00000000700080000000000000ff"/>`:                                           "DELTA has failed",
		`<fte:awaitoutcome id="x"/>`:                                                                                                  "id of <fte:awaitoutcome>: ",
		copied(`jobname="${none}"`, ""):                                                                                               `jobname of <fte:filecopy> has the property "none", which is not set`,
		`<property name="p" value="/x/${none}"/>` + strings.ReplaceAll(copied("", ""), `"b"`, `"${p}"`):                               `dstfile of <fte:filespec> has the property "none", which is not set`,
		strings.ReplaceAll(copied("", ""), "ALPHA@QM1", "no name"):                                                                    "src of <fte:filecopy>: ",
		strings.ReplaceAll(copied("", ""), `"b"`, `"b/"`):                                                                             "a directory is dstdir",
		copied(`priority="10"`, ""):                                                                                                   `priority="10" of <fte:filecopy> is no whole number from 0 to 9`,
		copied("", `<fte:presrc command="load.jcl" type="jcl"/>`):                                                                     `has <command type="jcl">, which is not built yet`,
		strings.ReplaceAll(copied("", ""), `"a"`, `"sftp://host/x"`):                                                                  "only a bridge reaches",
		`<property name="how" value="loud"/>` + copied(`outcome="${how}" idproperty="x"`, ""):                                         `outcome="loud" of <fte:filecopy> is unknown`,
		`<fte:uuid length="0" property="x"/>`:                                                                                         "no whole number from 1 to 1024",
		`<fte:awaitoutcome id="4645525259202020019b00000000700080000000000000ff"/>`:                                                   "no transfer has that ID",
		copied("", `<fte:filespec srcfilespec="a" dstqueue="Q" dstmsgdelimbytes="0A"/>`):                                              "delimiter \"0A\"",
		`<property name="m" value="text"/>` + copied("", `<fte:filespec srcfilespec="a" dstfile="b" conversion="${n}" dsteol="LF"/>`): `conversion="${n}"`,
	} {
		p := play(t, dir, all(task), func(_ *Runner, d *deskNetwork) { d.codes = map[string]int{"a": 40, "DELTA": 2} })
		if p.status != 1 || !strings.Contains(p.bad, want) {
			t.Errorf("%s: %d %s", task, p.status, p.bad)
		}
	}
	p = play(t, dir, all(copied("", "")), func(r *Runner, _ *deskNetwork) { r.Given = map[string]string{"rc": "0"} })
	if p.status != 1 || !strings.Contains(p.bad, "cannot take the result of the task") {
		t.Errorf("%d %s", p.status, p.bad)
	}
	p = play(t, dir, all(`<fte:awaitoutcome id="4645525259202020019b00000000700080000000000000ff" rcproperty="rc"/>`), nil)
	if p.status != 0 || p.get("rc") != "26" || !strings.Contains(p.bad, "FERRY0010E: no transfer has that ID") {
		t.Errorf("%d %s %s", p.status, p.get("rc"), p.bad)
	}
}

// fte:awaitoutcome waits for the time of its attribute, and not longer.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, t.TempDir(), all(`<fte:awaitoutcome id="4645525259202020019b00000000700080000000000000ff" rcproperty="rc" timeout="90"/>`), func(_ *Runner, d *deskNetwork) { d.blocks = true })
		if p.status != 0 || p.get("rc") != "2" || !strings.Contains(p.bad, "FERRY0011E") {
			t.Errorf("%d %s %s", p.status, p.get("rc"), p.bad)
		}
	})
	script, err := Parse("build.xml", []byte(all(`<fte:awaitoutcome id="4645525259202020019b00000000700080000000000000ff" rcproperty="rc"/><echo>on</echo>`)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	stop := errors.New("told to stop")
	end(stop)
	var out bytes.Buffer
	r := &Runner{Script: script, Network: &deskNetwork{blocks: true}, Out: &out, Err: &out, Style: commands.StyleFerry}
	if status, err := r.Run(ctx, []string{"all"}); status != 1 || !errors.Is(err, stop) || strings.Contains(out.String(), "BUILD") {
		t.Errorf("%d %v %s", status, err, out.String())
	}
}

// A transfer has all parts that the attributes ask for.
func TestTransfer(t *testing.T) {
	p := play(t, t.TempDir(), all(`<property name="com.ibm.wmqfte.ant.jobName" value="nightly"/>
<fte:filemove src="ALPHA@QM1" dst="BETA@QM2" origuser="bob" priority="4" transferrecoverytimeout="60" cmdqm="QM@host@1414@CH" rcproperty="rc">
<fte:filespec srcfilespec="out/*.csv" dstdir="in" overwrite="true" recurse="true" conversion="text" srcencoding="IBM-1047" dstencoding="UTF-8" dsteol="CRLF" checksum="none"/>
<fte:filespec srcfilespec="d" dstds="//'HLQ.X',RECFM(F,B),LRECL(80),SPACE(5,1)" dsttruncaterecords="true" srckeeptrailingspaces="true" conversion="text"/>
<fte:metadata><fte:entry name="k" value="v"/><fte:entry name="l" value="$${x}"/></fte:metadata>
<fte:presrc command="a.sh" retrycount="1" retrywait="2" successrc="&lt;4"><fte:arg value="1"/><fte:arg value="$${State}"/></fte:presrc>
<fte:postdst command="load.xml" type="antscript"><fte:property name="DIR" value="/d"/><fte:target name="all"/></fte:postdst></fte:filemove>
<fte:filemove src="ALPHA" dst="BETA"><fte:filespec srcqueue="Q1@QM1" dstfile="all" srcmsggroups="true" srcmsgdelimtext="\n" srcmsgdelimposition="prefix" srcqueuetimeout="9"/></fte:filemove>
<fte:filemove src="ALPHA" dst="BETA"><fte:filespec srcfilespec="b" dstqueue="Q2@QM2" dstmsgsize="1K" dstmsgpersist="qdef" dstmsgprops="true"/></fte:filemove>
<fte:filecopy src="ALPHA" dst="BETA"><fte:filespec srcfilespec="c" dstqueue="Q3" dstmsgdelimpattern="[,;]" dstmsgincludedelim="true" dstmsgdelimposition="prefix" conversion="text"/></fte:filecopy>`), nil)
	if p.status != 0 {
		t.Fatalf("%d %s", p.status, p.bad)
	}
	q := p.net.asked[0].Request
	if q.Source != "ALPHA" || q.Destination != "BETA" || q.Originator != (transfer.Originator{User: "bob", Host: "desk"}) || q.Job != "nightly" || q.Priority != 4 || q.RecoveryTimeout() != time.Minute ||
		q.Meta["k"] != "v" || q.Meta["l"] != "${x}" || len(q.Items) != 2 {
		t.Errorf("the request is %+v", q)
	}
	var items []string
	for _, w := range p.net.asked {
		for n := range w.Request.Items {
			it := &w.Request.Items[n]
			o, to := w.Request.Of(it), it.Dest
			if to.Path == "" {
				to = w.Request.Dest
			}
			items = append(items, strings.TrimRight(fmt.Sprintf("%s %s %s %s %s %s %s %s %s", it.Source.Path, to.Path, o.IfExists, o.Mode, o.Checksum, o.Disposition, o.FromEncoding, o.ToEncoding, o.EOL), " "))
		}
	}
	for n, want := range []string{"out/**/*.csv in/ overwrite text none delete IBM-1047 UTF-8 crlf", "d HLQ.X error text md5 delete",
		"queue:Q1?delimiter=0x0a&delimiter-at=before&group=%252A&wait=9s all error binary md5 delete", "b queue:Q2?split-size=1024 error binary md5 delete", "c queue:Q3?keep=after&split-regex=%255B%252C%253B%255D error text md5"} {
		if items[n] != want {
			t.Errorf("item %d is %s, want %s", n, items[n], want)
		}
	}
	if o := q.Of(&q.Items[1]); o.LongLines != "truncate" || !o.KeepBlanks {
		t.Errorf("the data set has %+v", o)
	}
	if a := q.Programs.PreSource; a.Name != "a.sh" || a.Retries != 1 || a.Args[1] != "${State}" || !a.Success.Has(3) || a.Success.Has(4) {
		t.Errorf("the program is %+v", a)
	}
	if a := q.Programs.PostDest; a.Name != "fteAnt" || strings.Join(a.Args, " ") != "-f load.xml -DDIR=/d all" {
		t.Errorf("the program is %+v", a)
	}
	for _, notice := range []string{"cmdqm has no effect", "SPACE has no effect", "names of queue managers have no effect"} {
		if strings.Count(p.bad, notice) != 1 {
			t.Errorf("%q is not reported once:\n%s", notice, p.bad)
		}
	}
}
