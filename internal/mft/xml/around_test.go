package xml

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// around returns a document with triggers and programs.
func around(managed, set string) string {
	return asked("", managed, "><"+set, ">", ">", ">a", `><file>b</file>`)
}

// The triggers and programs of a document become those of a request. Writing the request gives the same ones.
func TestTriggersAndPrograms(t *testing.T) {
	doc := strings.Replace(asked("", `<trigger log="yes"><fileExist comparison="=" value="exist">/in/ready,/in/go</fileExist><fileExist comparison="!=" value="exist">/in/stop</fileExist>`+
		`<fileSize comparison="&gt;=" value="20" units="MB">/in/list</fileSize></trigger>`, ">", ">", ">", ">a", `><file>b</file>`), "<transferSet>",
		`<transferSet><preSourceCall><command name="begin.sh"/></preSourceCall><postDestinationCall><command name="db/load.sh" successRC="0|4" retryCount="2" retryWait="30"><argument>a b</argument><argument>$c;</argument></command></postDestinationCall>`, 1)
	q, err := parsed(t, []byte(doc)).Request(someID)
	if err != nil {
		t.Fatal(err)
	}
	triggers := []transfer.Trigger{{When: "exist", Files: []transfer.Path{"/in/ready", "/in/go"}}, {When: "noexist", Files: []transfer.Path{"/in/stop"}},
		{When: "size", Size: 20 << 20, Files: []transfer.Path{"/in/list"}}}
	programs := &transfer.Programs{PreSource: &transfer.Program{Name: "begin.sh"},
		PostDest: &transfer.Program{Name: "db/load.sh", Args: []string{"a b", "$c;"}, Retries: 2, Pause: transfer.Duration(30 * time.Second), Success: "0,4"}}
	if !reflect.DeepEqual(q.Triggers, triggers) || !reflect.DeepEqual(q.Programs, programs) {
		t.Errorf("the request has %+v and %+v", q.Triggers, q.Programs)
	}
	if _, err := Write(q); err != nil {
		t.Errorf("it is not written: %v", err)
	}
	q.Programs.PostDest.Timeout = transfer.Duration(time.Minute)
	if _, err := Write(q); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("with a time-out, which XML does not have: %v", err)
	}
}

func TestResultCodes(t *testing.T) {
	for rc, want := range map[string]transfer.Codes{"": "", "0": "", "4": "4", "0|4": "0,4", "<4|>7": "0-3,8-2147483647", "!0": "1-2147483647", "!5": "0-4,6-2147483647",
		"!2147483647": "0-2147483646", "<0": "!", ">2147483647": "!", "-1": "!", "x": "!", "&": "!", "4&": "!", "<3&>7": "!", "0-4": "!",
		">2&<7&!5|0|14": "3-4,6,0,14", ">3 & <9": "4-8", "!0&!1": "2-2147483647", "0|": "!", "<>3": "!", "=3": "!"} {
		got, err := codesOf(rc)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q is %q, %v; want %q", rc, got, err, want)
		}
	}
}

// Result codes and absolute names of programs stay the same in XML.
func TestProgramsAreWritten(t *testing.T) {
	for _, codes := range []transfer.Codes{"4", "0-3,8-2147483647", "3-4,6,0,14", "0-2147483647", "1-2147483647"} {
		q, err := parsed(t, []byte(around("", `preSourceCall><command name="C:\scripts\a.cmd"/></preSourceCall>`))).Request(someID)
		if err != nil {
			t.Fatal(err)
		}
		if name := q.Programs.PreSource.Name; name != "C:/scripts/a.cmd" {
			t.Errorf("the program is %s", name)
		}
		q.Programs.PreSource.Success = codes
		if _, err := Write(q); (err != nil) != (codes == "0-2147483647") {
			t.Errorf("%s: %v", codes, err)
		}
	}
}

// Parts of triggers and programs that Ferry does not have are refused by name.
func TestWhatIsAroundAndNotBuilt(t *testing.T) {
	for doc, want := range map[string]string{
		around(`<trigger><fileSize comparison="=" value="1" units="B">/a</fileSize></trigger>`, "metaDataSet/>"): `<fileSize comparison="=">`,
		around("", `preSourceCall><command name="a" type="jcl"/></preSourceCall>`):                               `<command type="jcl">`,
		around("", `preSourceCall><command name="a"><target>b</target></command></preSourceCall>`):               "<target>",
		around("", `preSourceCall><command name="a"><property name="x" value="y"/></command></preSourceCall>`):   "<property>",
	} {
		d, err := Parse([]byte(doc))
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if _, err := d.Request(someID); transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// A program outside the directory, and one with a newline in its name, are refused as in any request.
	for _, name := range []string{"/bin/../sh", "../a", "a&#10;b"} {
		doc := around("", `preSourceCall><command name="`+name+`"/></preSourceCall>`)
		d, err := Parse([]byte(doc))
		if err == nil {
			_, err = d.Request(someID)
		}
		if err == nil {
			t.Errorf("the program %s is taken", name)
		}
	}
}
