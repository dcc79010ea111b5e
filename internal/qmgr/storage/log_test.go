package storage

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// The server's log lines about clients are written once a minute for each kind, under whichever names the clients come.
// Its lines about itself are always written.
func TestWhatClientsCauseIsLimited(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	for n := range 50 {
		client := fmt.Sprintf(`127.0.0.1:%d - cid:%d - "v1:go:x" - y%d" - `, n, n, n)
		l.Errorf(client+"Publish Violation - %s, Subject %q", "Nkey", fmt.Sprint("a", n))
		l.Errorf(client+"Subscription Violation - %s, Subject %q", "Nkey", fmt.Sprint("a", n))
		l.Warnf("Filestore [%s] is slow", "x")
	}
	got := out.String()
	for text, want := range map[string]int{"Publish Violation": 1, "Subscription Violation": 1, "is slow": 50} {
		if n := strings.Count(got, "queue manager: a client: "+text) + strings.Count(got, "queue manager: Filestore [x] "+text); n != want {
			t.Errorf("%q is said %d times, want %d", text, n, want)
		}
	}
	for format, want := range map[string]string{
		"x - cid:7 - Authentication error": "Authentication error",
		"x - cid:7 - 'quoted'":             "",
		"x - cid:":                         "",
		"JetStream is slow":                "-",
	} {
		kind, ok := ClientKind(format)
		if !ok {
			kind = "-"
		}
		if kind != want {
			t.Errorf("%q is of the kind %q, want %q", format, kind, want)
		}
	}
}

// An index that is built anew after a kill is no warning: an operator cannot act on it. Other lines about files are.
func TestARebuiltIndexIsNoWarning(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	l.Warnf("Filestore [%s] Stream state outdated, last block has additional entries, will rebuild", "FERRY_OWNER")
	l.Warnf("Filestore [%s] Recovering stream state from index errored: %v", "FERRY_OWNER", "prior state file")
	if out.Len() > 0 {
		t.Errorf("the log has %q", out.String())
	}
	l.Warnf("Filestore [%s] Recovering stream state from index errored: %v", "FERRY_OWNER", "corrupt state file")
	if !strings.Contains(out.String(), "corrupt state file") {
		t.Errorf("the log has %q", out.String())
	}
}
