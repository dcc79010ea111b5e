package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"ferry/internal/mftxml"
	"ferry/internal/transfer"
)

// requestOf is what ferry send makes of a command line.
func requestOf(t *testing.T, args ...string) *transfer.Request {
	t.Helper()
	f := &sendFlags{}
	fl := pflag.NewFlagSet("send", pflag.ContinueOnError)
	f.addRequest(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	q, _, err := f.request(fl.Args(), nil)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return q
}

// fromXML is what a document asks for, as if it had come from the same user at the same time.
func fromXML(t *testing.T, text []byte, like *transfer.Request) *transfer.Request {
	t.Helper()
	d, err := mftxml.Parse(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	q, err := d.Request(like.ID)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if !q.Submitted.Equal(like.ID.Time()) || q.Submitted.Location() != time.UTC {
		t.Errorf("it is submitted at %s", q.Submitted)
	}
	q.Submitted, q.Originator = like.Submitted, like.Originator
	return q
}

// A document of somebody else's program asks for what ferry send would with the same words.
func TestXMLIsWhatSendAsksFor(t *testing.T) {
	for name, args := range map[string][]string{
		"file.xml": {"--priority", "3", "--job", "nightly", "--meta", "run=7", "--checksum", "md5", "--if-exists", "overwrite", "--recovery-timeout", "-1",
			"ALPHA:/srv/out/pay.csv", "BETA:/srv/in/pay.csv"},
		"one-line.xml": {"-r", "--checksum", "none", "--delete-source", "--recovery-timeout", "90s", "ALPHA:out/.", "BETA:in/"},
		"prefixed.xml": {"--mode", "text", "--from-encoding", "IBM-1047", "--to-encoding", "windows-1252", "--eol", "crlf", "--checksum", "md5", "--if-exists", "overwrite", "--recovery-timeout", "0s",
			"ALPHA:/srv/a & b/<list>.txt", "BETA:/srv/in/"},
		"many.xml": {"--checksum", "sha256", "--recovery-timeout", "-1", "ALPHA:a*.csv", "ALPHA:b.csv", "ALPHA:c d.csv ", "BETA:in/"},
		"dataset.xml": {"--mode", "text", "--checksum", "md5", "--if-exists", "overwrite", "--recovery-timeout", "-1", "--long-lines", "truncate",
			"ALPHA:/srv/list.txt", "BETA://'PAY.LIST',RECFM(FB),LRECL(80),BLKSIZE(8000)"},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "mftxml", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		want := requestOf(t, args...)
		if got := fromXML(t, text, want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s asks for\n%+v, not\n%+v", name, got, want)
		}
	}
}

// What --to-xml prints asks for what was typed.
func TestToXMLAndBack(t *testing.T) {
	for _, args := range [][]string{
		{"ALPHA:a", "BETA:b"},
		{"-r", "ALPHA:dir", "BETA:there/"},
		{"-r", "ALPHA:dir/.", "BETA:there/"},
		{"-r", "ALPHA:.", "BETA:there/"},
		{"-r", "ALPHA:/", "BETA:there"},
		{"-r", "ALPHA:./../.", "BETA:there/"},
		{"-r", "ALPHA:a*b/c", "ALPHA:**/x?", "BETA:/there"},
		{"--checksum", "sha256", "--if-exists", "rename", "--delete-source", "ALPHA:a", "ALPHA: b ", "BETA: c "},
		{"--mode", "text", "--from-encoding", "IBM-1047", "--to-encoding", "UTF-8", "--eol", "nl", "--replace", " ", "--keep-trailing-blanks", "ALPHA:a", "BETA:b"},
		{"--mode", "text", "--long-lines", "fail", "ALPHA:a", "BETA:'A.B',RECFM(VB),LRECL(255)"},
		{"--mode", "text", "ALPHA:'A.*(M?)'", "BETA:b/"},
		{"--job", "<&\">'", "--meta", " k =\tv ", "--meta", "empty=", "ALPHA:<&>\"'", "BETA:]]>"},
		{"--recovery-timeout", "-1", "--priority", "9", "ALPHA:a", "BETA:b"},
		{"--recovery-timeout", "0s", "ALPHA:a", "BETA:b"},
		{"--recovery-timeout", "15m", "ALPHA:a", "BETA:b"},
		{"--durability", "process", "--lane", "queue", "--delivery", "stored", "--compress", "auto", "ALPHA:a", "BETA:b"},
		{"--limit", "10M", "--max-files", "7", "--max-size", "5G", "--chunk-size", "64K", "--window", "3", "--frame", "2", "--checkpoint-interval", "4", "ALPHA:a", "BETA:b"},
	} {
		want := requestOf(t, args...)
		text, err := mftxml.Write(want)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if got := fromXML(t, text, want); !reflect.DeepEqual(got, want) {
			t.Errorf("%q becomes\n%+v, not\n%+v, by way of\n%s", args, got, want, text)
		}
	}
}
