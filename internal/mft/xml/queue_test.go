package xml

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// between returns a document of one item between a source and a destination.
func between(source, dest string) string {
	return `<request xmlns:f="urn:ferry"><managedTransfer><sourceAgent agent="ALPHA"/><destinationAgent agent="BETA"/><transferSet><item mode="text"><source` + source +
		`</source><destination` + dest + `</destination></item></transferSet></managedTransfer></request>`
}

const (
	aFile = "><file>a</file>"
	aDest = "><file>b</file>"
)

// The properties of a queue are in its path, with the disposition of MQ MFT. Writing the request gives the same path.
func TestQueues(t *testing.T) {
	for _, c := range []struct {
		source, dest string
		from, to     transfer.Path
		deleted      bool
	}{
		{"><queue>orders@QM1</queue>", aDest, "queue:ORDERS", "b", true},
		{` type="queue" disposition="leave"><queue>Q</queue>`, aDest, "queue:Q", "b", false},
		{` disposition="delete" recursive="true"><queue useGroups="false">Q</queue>`, aDest, "queue:Q", "b", true},
		{`><queue useGroups="true">Q</queue>`, aDest, "queue:Q?group=%2A", "b", true},
		{`><queue useGroups="yes" groupId="414d51">Q</queue>`, aDest, "queue:Q?group=414d51", "b", true},
		{`><queue delimiter="x0D,x0a" delimiterType="binary">Q</queue>`, aDest, "queue:Q?delimiter=0x0d0a&delimiter-at=after", "b", true},
		{`><queue delimiter="x2B" delimiterType="BINARY" delimiterPosition="prefix">Q</queue>`, aDest, "queue:Q?delimiter=%2B&delimiter-at=before", "b", true},
		{`><queue delimiter="x2B" delimiterType="binary" f:delimiter-at="between">Q</queue>`, aDest, "queue:Q?delimiter=%2B", "b", true},
		{`><queue delimiter="\n\u002D\\x" delimiterType="text" delimiterPosition="postfix" encoding="UTF-8">Q</queue>`, aDest, "queue:Q?delimiter=0x0a2d5c78&delimiter-at=after", "b", true},
		{`><queue delimiter=" " delimiterType="text" waitTime="0">Q</queue>`, aDest, "queue:Q?delimiter=+&delimiter-at=after", "b", true},
		{`><queue useGroups="true" waitTime="90">Q</queue>`, aDest, "queue:Q?group=%2A&wait=1m30s", "b", true},
		{aFile, `><queue>Q2</queue>`, "a", "queue:Q2", false},
		{aFile, ` type="queue" exist="overwrite"><queue persistent="false" setMqProps="true" delimiterType="size" delimiter="64K">Q</queue>`, "a", "queue:Q?split-size=65536", false},
		{aFile, `><queue delimiterType="size" delimiter="1000b">Q</queue>`, "a", "queue:Q?split-size=1000", false},
		{aFile, `><queue delimiterType="binary" delimiter="x0A" delimiterPosition="postfix">Q</queue>`, "a", "queue:Q?split-delimiter=0x0a", false},
		{aFile, `><queue delimiterType="binary" delimiter="x0A" includeDelimiterInMessage="true">Q</queue>`, "a", "queue:Q?keep=before&split-delimiter=0x0a", false},
		{aFile, `><queue delimiterType="pattern" delimiter="[,;]" delimiterPosition="prefix" includeDelimiterInMessage="true">Q</queue>`, "a", "queue:Q?keep=after&split-regex=%5B%2C%3B%5D", false},
		{`><queue>Q</queue>`, `><queue>R</queue>`, "queue:Q", "queue:R", true},
	} {
		q, err := parsed(t, []byte(between(c.source, c.dest))).Request(someID)
		if err != nil {
			t.Errorf("%s to %s: %v", c.source, c.dest, err)
			continue
		}
		if q.Items[0].Source.Path != c.from || q.Dest.Path != c.to || (q.Disposition == transfer.DispositionDelete) != c.deleted {
			t.Errorf("%s to %s is %s to %s, %s", c.source, c.dest, q.Items[0].Source, q.Dest, q.Disposition)
		}
		text, err := Write(q) // which reads it again
		if err != nil {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		} else if strings.Contains(string(text), "queue:") {
			t.Errorf("a queue is written as a file:\n%s", text)
		}
	}

	q, err := parsed(t, sample(t, "queues.xml")).Request(someID)
	if err != nil {
		t.Fatal(err)
	}
	if it := &q.Items[0]; it.Source.Path != "queue:LIVE.Q?delimiter=0x0d0a&delimiter-at=before&group=G7" || it.FromEncoding != "IBM-1047" || it.Dest.Path != "queue:Q2?keep=after&split-regex=%3B%7C%2C" ||
		it.ToEncoding != "UTF-8" || it.EOL != "crlf" || it.Replace != "?" {
		t.Errorf("%+v", it)
	}
	if _, err := Write(q); err != nil {
		t.Error(err)
	}
}

// A variable in the name of a queue or a group does not change.
func TestVariablesOfQueues(t *testing.T) {
	q := &Queue{Name: "${QueueName}", Attributes: map[string]string{"useGroups": "true", "groupId": "${GROUPID}"}}
	if p, err := q.From(); err != nil || p.Path != "queue:${QueueName}?group=${GROUPID}" {
		t.Errorf("%s, %v", p, err)
	}
	q = &Queue{Name: "${QueueName}.OUT", Attributes: map[string]string{}}
	if p, err := q.to(); err != nil || p.Path != "queue:${QueueName}.OUT" {
		t.Errorf("%s, %v", p, err)
	}
}

// Impossible values are malformed, and parts that cannot be carried out are named.
func TestRefusedQueues(t *testing.T) {
	for _, c := range []struct {
		source, dest string
		kind         transfer.Kind
		want         string
	}{
		{`><queue>a/b</queue>`, aDest, transfer.KindDocument, `queue name "a/b"`},
		{`><queue> </queue>`, aDest, transfer.KindDocument, `queue name ""`},
		{`><queue groupId="G">Q</queue>`, aDest, transfer.KindDocument, `groupId of <queue> needs useGroups="true"`},
		{`><queue useGroups="true" groupId="a.b">Q</queue>`, aDest, transfer.KindDocument, `the group "a.b"`},
		{`><queue useGroups="perhaps">Q</queue>`, aDest, transfer.KindDocument, "neither true nor false"},
		{`><queue delimiter="x">Q</queue>`, aDest, transfer.KindDocument, "both are needed"},
		{`><queue delimiterType="text">Q</queue>`, aDest, transfer.KindDocument, "both are needed"},
		{`><queue delimiterType="size" delimiter="1K">Q</queue>`, aDest, transfer.KindDocument, "it is one of , binary, text"},
		{`><queue delimiterType="binary" delimiter="0A">Q</queue>`, aDest, transfer.KindDocument, `the delimiter "0A"`},
		{`><queue delimiterType="text" delimiter="\q">Q</queue>`, aDest, transfer.KindDocument, `the escape \q`},
		{`><queue delimiterType="text" delimiter="\u00zz">Q</queue>`, aDest, transfer.KindDocument, `the escape \u00zz`},
		{`><queue delimiterType="text" delimiter="\ud800">Q</queue>`, aDest, transfer.KindDocument, "half a character"},
		{`><queue delimiterType="text" delimiter="` + strings.Repeat("x", 65) + `">Q</queue>`, aDest, transfer.KindDocument, "1 to 64"},
		{`><queue includeDelimiterInMessage="true">Q</queue>`, aDest, transfer.KindDocument, "no meaning in a <source>"},
		{`><queue f:replace="?">Q</queue>`, aDest, transfer.KindDocument, "no meaning in a <source>"},
		{`><queue f:delimiter-at="after">Q</queue>`, aDest, transfer.KindDocument, "it is between"},
		{` type="queue"><file>Q</file>`, aDest, transfer.KindDocument, "the source is a queue, and names none"},
		{`><queue waitTime="soon">Q</queue>`, aDest, transfer.KindDocument, "waitTime of <queue>"},
		{aFile, `><queue useGroups="true">Q</queue>`, transfer.KindDocument, "no meaning in a <destination>"},
		{aFile, `><queue waitTime="3">Q</queue>`, transfer.KindDocument, "no meaning in a <destination>"},
		{aFile, `><queue f:delimiter-at="between">Q</queue>`, transfer.KindDocument, "no meaning in a <destination>"},
		{aFile, `><queue delimiterType="size" delimiter="many">Q</queue>`, transfer.KindDocument, `size "MANY" of messages`},
		{aFile, `><queue delimiterType="pattern" delimiter="(?=x)">Q</queue>`, transfer.KindDocument, "regular expression"},
		{aFile, `><queue delimiterType="text" delimiter="x">Q</queue>`, transfer.KindDocument, "it is one of , binary, size, pattern"},
		{aFile, `><queue colour="red">Q</queue>`, transfer.KindDocument, "the attribute colour"},

		{`><queue waitTime="100000">Q</queue>`, aDest, transfer.KindDocument, "waitTime of <queue> above 86400 seconds"},
		{`><queue delimiterType="text" delimiter="x" includeDelimiterInFile="false">Q</queue>`, aDest, transfer.KindNotBuilt, `includeDelimiterInFile="false"`},
		{`><queue delimiterType="text" delimiter="x" encoding="IBM-1047">Q</queue>`, aDest, transfer.KindNotBuilt, `with encoding="IBM-1047"`},
		{`><queue delimiterType="text" delimiter="ß" encoding="ISO-8859-1">Q</queue>`, aDest, transfer.KindNotBuilt, `with encoding="ISO-8859-1"`},
		{aFile, `><queue delimiterType="binary" delimiter="x0A" delimiterPosition="prefix">Q</queue>`, transfer.KindNotBuilt, `without includeDelimiterInMessage="true"`},
		{aFile, `><queue delimiterType="pattern" delimiter="x" encoding="IBM-500">Q</queue>`, transfer.KindNotBuilt, `with encoding="IBM-500"`},
	} {
		d, err := Parse([]byte(between(c.source, c.dest)))
		if err == nil {
			_, err = d.Request(someID)
		}
		if transfer.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v", c.source, c.dest, err)
		}
	}

	q, err := parsed(t, []byte(plain())).Request(someID)
	if err != nil {
		t.Fatal(err)
	}
	q.Items[0].Source = transfer.Location{Place: transfer.Queues, Path: "queue:Q"}
	q.Items[0].Picked = "queue:Q?mark=m&picked=3-3-3"
	if _, err := Write(q); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "that were picked") {
		t.Error(err)
	}
}

// The log of a transfer names queues, with the group and the number of picked messages.
func TestLogOfQueues(t *testing.T) {
	l := Log{Items: []LogItem{{Source: "queue:Q?group=%2A&mark=m&picked=9-3-70&picked-group=G7", Dest: "queue:R?group=T-0", Size: 70}, {Source: "./queue:Q", Size: 1}}}
	text := string(l.XML())
	for _, want := range []string{`<source type="queue">`, `<queue messageCount="3" groupId="G7">Q</queue>`, `<destination type="queue">`, `<queue groupId="T-0">R</queue>`, `<file size="1">./queue:Q</file>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not have %s:\n%s", want, text)
		}
	}
}
