package ant

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// head begins a script with MQ MFT's tasks.
const head = `<project name="p" default="all" xmlns:fte="antlib:com.ibm.wmqfte.ant.taskdefs">` + "\n"

// copied is a transfer with a part more.
func copied(attrs, part string) string {
	return `<fte:filecopy src="ALPHA@QM1" dst="BETA" rcproperty="rc" ` + attrs + `><fte:filespec srcfilespec="a" dstfile="b"/>` + part + `</fte:filecopy>`
}

// A script is refused as a whole, with the element or attribute, the file and the line.
func TestRefused(t *testing.T) {
	in := func(task string) string { return head + "<target name=\"all\">\n" + task + "\n</target>\n</project>" }
	for _, c := range []struct{ script, want string }{
		{in(`<exec executable="ls"/>`), `build.xml:3: the element <exec> in <target> is not one that fteAnt has; have a shell do it`},
		{in(`<parallel><sequential><antcall target="x"/></sequential></parallel>`), `build.xml:3: the element <antcall> in <sequential> is not one that fteAnt has; use targets with depends`},
		{in(`<echo text="x"/>`), "build.xml:3: the attribute text of <echo> is not one that fteAnt has; it has message, file, append, level"},
		{in(`<sequential name="x"/>`), "the attribute name of <sequential> is not one that fteAnt has; it has none there"},
		{in(`<echo if:set="x" xmlns:if="ant:if"/>`), "the attribute ant:if:set of <echo> is not one"},
		{in(`<echo message="x" Message="y"/>`), "the attribute Message stands twice in <echo>"},
		{in(`<condition value="x"><isset property="p"/></condition>`), "<condition> has no attribute property"},
		{in(`<condition property="x"><isset property="p"/><isset property="q"/></condition>`), "<condition> takes one condition; it has 2"},
		{in(`<condition property="x"><matches string="a" pattern="b"/></condition>`), "the element <matches> in <condition>"},
		{in(`<condition property="x"><not/></condition>`), "<not> takes one condition; it has 0"},
		{in(`<condition property="x"><or/></condition>`), "<or> has no condition"},
		{in(`<condition property="x"><equals arg1="a" arg2="b" trim="maybe"/></condition>`), `trim="maybe" of <equals> is neither true nor false`},
		{in(`<condition property="x"><os family="amiga"/></condition>`), `family="amiga" of <os> is unknown`},
		{in(`<available property="x" file="y" type="pipe"/>`), `type="pipe" of <available> is unknown; it is file or dir`},
		{in(`<fail><isset property="p"/></fail>`), "the element <isset> in <fail>"},
		{in(`<fail if="x"><condition><isset property="p"/></condition></fail>`), "<fail> takes one <condition>, and no if"},
		{in(`<fail><condition><isset property="p"/><isset property="p"/></condition></fail>`), "the <condition> of <fail> takes one condition; it has 2"},
		{in(`<echo append="true"/>`), "append of <echo> belongs to file"},
		{in(`<property name="x"/>`), "<property> with a name takes either"},
		{in(`<property name="x" value="1" location="2"/>`), "<property> with a name takes either"},
		{in(`<property file="x" environment="y"/>`), "<property> takes either name, file or environment"},
		{in(`<property url="http://x"/>`), "the attribute url of <property>"},
		{in(`<property environment="x" prefix="y"/>`), "prefix of <property> belongs to file"},
		{in(`<target name="x"/>`), "the element <target> in <target>"},
		{in(`text`), `<target> has the text "text", and takes none`},
		{in(`<fte:filecopy src="A" dst="B"/>`), "<fte:filecopy> has no <fte:filespec>"},
		{in(`<fte:call agent="A"/>`), "<fte:call> has no <fte:command>"},
		{in(`<fte:filecopy src="A"><fte:filespec srcfilespec="a" dstfile="b"/></fte:filecopy>`), "<fte:filecopy> has no attribute dst"},
		{in(copied("", `<fte:filespec srcfilespec="a" srcqueue="Q" dstfile="b"/>`)), "takes one of srcfilespec, srcqueue; it has 2"},
		{in(copied("", `<fte:filespec srcfilespec="a"/>`)), "takes one of dstfile, dstdir, dstds, dstpds, dstqueue; it has 0"},
		{in(copied("", `<fte:filespec srcqueue="Q" dstfile="b"/>`)), "srcqueue of <fte:filespec> takes messages away from a queue; use <fte:filemove>"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstfilespace="b"/>`)), "the attribute dstfilespace of <fte:filespec> is not built: Ferry has no file spaces"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstfile="b" srcrecdelimpos="prefix"/>`)), "srcrecdelimpos of <fte:filespec> is not built"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstfile="b" dstmsgsize="1K"/>`)), "dstmsgsize of <fte:filespec> belongs to dstqueue"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstfile="b" srcqueuetimeout="1"/>`)), "srcqueuetimeout of <fte:filespec> belongs to srcqueue"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstqueue="b" dstmsgsize="1K" dstmsgdelimbytes="x0A"/>`)), "takes one of dstmsgdelimbytes"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstqueue="b" dstmsgdelimposition="prefix"/>`)), "dstmsgdelimposition of <fte:filespec> says where a delimiter is"},
		{in(copied("", `<fte:filespec srcfilespec="a" dstfile="b" dsteol="LF"/>`)), `dsteol of <fte:filespec> needs conversion="text"`},
		{in(copied("", `<fte:filespec srcfilespec="a" dstfile="b" conversion="ebcdic"/>`)), `conversion="ebcdic" of <fte:filespec> is unknown; it is one of binary, text`},
		{in(copied(`outcome="later"`, "")), `outcome="later" of <fte:filecopy> is unknown`},
		{in(copied(`outcome="defer"`, "")), `outcome="defer" of <fte:filecopy> needs idproperty`},
		{in(copied("", `<fte:metadata/>`)), "<fte:metadata> has no <fte:entry>"},
		{in(copied("", `<fte:metadata><fte:entry name="a" value="1"/><fte:entry name="a" value="2"/></fte:metadata>`)), `the <fte:entry> "a" stands twice`},
		{in(copied("", `<fte:presrc command="a"/><fte:presrc command="b"/>`)), "<fte:presrc> stands twice in <fte:filecopy>"},
		{in(copied("", `<fte:presrc command="a" type="perl"/>`)), `type="perl" of <fte:presrc> is unknown`},
		{in(copied("", `<fte:presrc name="a"/>`)), "the attribute name of <fte:presrc>"},
		{in(`<fte:sendmail to="x"/>`), "the element <fte:sendmail> in <target>"},
		{in(`<filecopy src="A" dst="B"/>`), "the element <filecopy> in <target>"},
		{in(`<x:echo xmlns:x="antlib:net.sf.antcontrib"/>`), `the element <echo> is of "antlib:net.sf.antcontrib"`},
		{`<project><target name="a"><fte:ping agent="A"/></target></project>`, "the prefix of <fte:ping> is not declared; write xmlns:fte="},
		{`<project default="x"><target name="a"/></project>`, `build.xml:1: the default target "x" is not in the script; it has a`},
		{"<project>\n<target name=\"a\" depends=\"b, c\"/>\n<target name=\"b\"/></project>", `build.xml:2: the target "a" depends on "c"`},
		{"<project>\n<target name=\"a\" depends=\"b\"/>\n<target name=\"b\" depends=\"a\"/></project>", "depends on itself"},
		{"<project>\n<target name=\"a\"/>\n<target name=\"a\"/></project>", `build.xml:3: the target "a" stands at line 2 already`},
		{`<projekt/>`, "the script begins with <projekt>; a script of Ant is a <project>"},
		{`<project/><project/>`, "goes on behind the end"},
		{``, "the script is empty"},
		{`<project>`, "build.xml:1: the script is no XML: "},
		{`<!DOCTYPE project [<!ENTITY a "b">]><project/>`, "has a document type"},
		{`<?php x?><project/>`, "processing instruction <?php?>"},
		{"\x00<project/>", "build.xml"},
		{strings.Repeat("<project>", 40), "more than 32 elements within each other"},
		{`<project>` + strings.Repeat("<echo/>", maxElements) + `</project>`, "more than 10000 elements"},
		{`<project name="` + strings.Repeat("x", maxValue+1) + `"/>`, "more than 65536 bytes, the limit"},
		{strings.Repeat(" ", MaxScript+1), "more than 1048576 bytes, the limit"},
	} {
		_, err := Parse("build.xml", []byte(c.script))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s: %v, want %q", c.script, err, c.want)
		} else if k := transfer.KindOf(err); k != transfer.KindUsage && k != transfer.KindTooLarge {
			t.Errorf("%.200s: the kind is %v", c.script, k)
		}
	}
}

// An element of a script has the name of its task with any prefix, and attributes in any capitals.
func TestAnyPrefix(t *testing.T) {
	s, err := Parse("b.xml", []byte(`<?xml version="1.0" encoding="ISO-8859-1"?><!-- x --><project xmlns:m="antlib:com.ibm.wmqfte.ant.taskdefs" xmlns:a="antlib:org.apache.tools.ant">
<description>What it does.</description><a:target name="x"><m:ping agent="A" rcProperty="rc" cmdQM="q"/></a:target></project>`))
	if err != nil {
		t.Fatal(err)
	}
	if e := s.targets["x"].tasks[0]; e.name != "fte:ping" || e.attrs["rcproperty"] != "rc" || e.line != 2 {
		t.Errorf("it is %+v", e)
	}
}

// A target runs behind those that it depends on, each once.
func TestSteps(t *testing.T) {
	s, err := Parse("b.xml", []byte(`<project><target name="a" depends="b,c"/><target name="b" depends="d"/><target name="c" depends="d, b"/><target name="d"/></project>`))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := s.steps("a")
	var names []string
	for _, one := range steps {
		names = append(names, one.name)
	}
	if got := fmt.Sprint(names); err != nil || got != "[d b c a]" {
		t.Errorf("%s: %v", got, err)
	}
	if _, err := s.Targets([]string{"e"}); err == nil || !strings.Contains(err.Error(), `b.xml:1: the target "e" is not in the script; it has a, b, c, d`) {
		t.Error(err)
	}
	if none, err := s.Targets(nil); len(none) != 0 || err != nil {
		t.Errorf("%q: %v", none, err)
	}
}

// The table of docs/coming-from-mq-mft.md has all elements with their attributes, and no others.
func TestEveryElementIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "coming-from-mq-mft.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Ant scripts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	name := regexp.MustCompile("`([A-Za-z0-9:]+)`")
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, e := range name.FindAllStringSubmatch(cells[1], -1) {
			documented[e[1]] = true
			for _, a := range name.FindAllStringSubmatch(cells[2], -1) {
				documented[e[1]+" "+strings.ToLower(a[1])] = true
			}
		}
	}
	known := map[string]bool{}
	for _, kinds := range []map[string]kind{tasks, conditions, parts} {
		for e, k := range kinds {
			known[e] = true
			for a := range strings.FieldsSeq(k.attrs) {
				known[e+" "+strings.TrimSuffix(a, "!")] = true
			}
		}
	}
	for a := range later {
		known["fte:filespec "+a] = true
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

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		head + `<target name="all" depends="x" if="a" unless="${b}">` + copied(`outcome="defer" idproperty="id" priority="3"`, `<fte:presrc command="a"><fte:arg value="b"/></fte:presrc>`) + `</target><target name="x"/></project>`,
		`<project><property name="a" value="$${b}${c}"/><fail if="a">text<condition><not><isset property="x"/></not></condition></fail></project>`,
		"\xff\xfe<\x00a\x00/\x00>\x00", `<project><![CDATA[x]]></project>`, `<project a:b="c"/>`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("build.xml", data)
		if k := transfer.KindOf(err); err != nil && k != transfer.KindUsage && k != transfer.KindTooLarge {
			t.Fatalf("%v: %v", k, err)
		}
		if err != nil {
			return
		}
		if len(s.order) != len(s.targets) {
			t.Errorf("%d targets, %d in order", len(s.targets), len(s.order))
		}
		if all, err := s.steps(s.order...); err != nil || len(all) != len(s.order) {
			t.Errorf("%d of %d run: %v", len(all), len(s.order), err)
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"a", "${a}", "$${a}", "${a}${b}", "${", "$", "$$$", "${a${b}}", "${}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := &properties{all: map[string]value{"a": {text: "one"}, "b": {text: "${c}", lacks: "c"}}}
		text, lacks, err := p.expand(s)
		if err == nil && len(text) > len(s)*5+8 {
			t.Errorf("%q became %q", s, text)
		}
		if err == nil && lacks == "" && !strings.Contains(s, "$") && text != s {
			t.Errorf("%q became %q", s, text)
		}
	})
}
