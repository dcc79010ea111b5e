package mft

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"ferry/internal/cli/request"
	"ferry/internal/mft/commands"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// requestOf returns the request that ferry send makes from a command line.
func requestOf(t *testing.T, args ...string) *transfer.Request {
	t.Helper()
	f := &request.Flags{}
	fl := pflag.NewFlagSet("send", pflag.ContinueOnError)
	f.Add(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	q, _, err := f.Request(fl.Args(), nil)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return q
}

// fromXML returns the request in a document, as if the same user had submitted it at the same time as like.
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

// A document from another program makes the same request as ferry send with the same words.
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
		text, err := os.ReadFile(filepath.Join("..", "..", "mft", "xml", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		want := requestOf(t, args...)
		if got := fromXML(t, text, want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s asks for\n%+v, not\n%+v", name, got, want)
		}
	}
}

// A document from --to-xml makes the same request as the command line that printed it.
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
		{"--min-file-size", "1", "--max-file-size", "3M", "--min-age", "90s", "--max-age", "30d", "--order", "-time", "--delete-source=all", "ALPHA:a*", "BETA:b/"},
		{"--archive", "done", "--archive-when", "all", "ALPHA:a*", "BETA:b/"},
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

// A command line of MQ MFT makes the same request as ferry send with the same words.
func TestCreateTransferIsWhatSendAsksFor(t *testing.T) {
	for _, c := range []struct{ fte, send []string }{
		{[]string{"-sa", "ALPHA", "-da", "BETA", "-df", "b", "a"}, []string{"--checksum", "md5", "--recovery-timeout", "-1", "ALPHA:a", "BETA:b"}},
		{[]string{"-sa", "alpha", "-da", "beta", "-r", "-dd", "in", "-jn", "j", "-w", "out", "x/*.csv"},
			[]string{"--checksum", "md5", "--recovery-timeout", "-1", "--job", "j", "-r", "ALPHA:out/.", "ALPHA:x/**/*.csv", "BETA:in/"}},
		{[]string{"-sa", "ALPHA", "-da", "BETA", "-t", "text", "-sce", "IBM-1047", "-dce", "UTF-8", "-dle", "CRLF", "-de", "overwrite", "-sd", "delete", "-cs", "none", "-pr", "5", "-md", "a=b,c=d", "-rt", "60", "-df", "b", "a"},
			[]string{"--mode", "text", "--from-encoding", "IBM-1047", "--to-encoding", "UTF-8", "--eol", "crlf", "--if-exists", "overwrite", "--delete-source", "--checksum", "none", "--priority", "5", "--meta", "a=b", "--meta", "c=d", "--recovery-timeout", "60s", "ALPHA:a", "BETA:b"}},
		{[]string{"-sa", "ALPHA", "-da", "BETA", "-t", "text", "-dtr", "-ds", "PAY.LIST", "-dfa", "RECFM(FB),LRECL(80)", "a"},
			[]string{"--mode", "text", "--checksum", "md5", "--long-lines", "truncate", "--recovery-timeout", "-1", "ALPHA:a", "BETA://'PAY.LIST',RECFM(FB),LRECL(80)"}},
	} {
		kind, ok := commands.Find("fteCreateTransfer")
		if !ok {
			t.Fatal("no fteCreateTransfer")
		}
		call, err := kind.Read(c.fte)
		if err != nil {
			t.Fatal(err)
		}
		d, err := call.Transfer(nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		want := requestOf(t, c.send...)
		got := fromXML(t, text, want)
		if slices.ContainsFunc(want.Items, func(it transfer.RequestItem) bool { return strings.Contains(string(it.Source.Path), "**") }) {
			// A pattern in all directories below takes files; ferry send has one -r for all sources.
			want.Recursive, want.Items[0].Recursive = false, true
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q asks for\n%+v, not\n%+v", c.fte, got, want)
		}
	}
}

// Each command of MQ MFT does something, or is one that Ferry does not have.
func TestCommandsOfMQMFTAreWired(t *testing.T) {
	does := fteCommands()
	for _, c := range commands.Commands() {
		if (does[c.Name] == nil) != (c.Missing != "") {
			t.Errorf("%s does nothing", c.Name)
		}
	}
}
