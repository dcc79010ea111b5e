package identity

import (
	"testing"

	"ferry/internal/transfer"
)

// The locations of ferry policy test are those of ferry send, and become the paths that rules name.
func TestQuestionsAboutLocations(t *testing.T) {
	roots := func(agent transfer.AgentName) ([]string, error) { return []string{"/srv/" + string(agent)}, nil }
	for text, want := range map[string]transfer.Path{
		"BETA:/in/a":           "/in/a",
		"BETA:in/../a":         "/srv/BETA/a",
		"BETA:in/*.csv":        "/srv/BETA/in/*.csv",
		"BETA:C:/in":           "C:/in",
		"BETA:queue:orders":    "/queue:ORDERS",
		"BETA:queue:O?group=*": "/queue:O",
		"BETA:./queue:O":       "/srv/BETA/queue:O",
		"BETA:file:queue:O":    "/srv/BETA/queue:O",
		"BETA:file:/in/a":      "/in/a",
		"BETA:./host:/y":       "/srv/BETA/host:/y",
		"BETA:/in/%25":         "/in/%25",
		"BETA:/in/*%25":        "/in/*%25",
	} {
		all, err := questions("0123456789ab", []string{"bob", "source", text}, roots)
		if err != nil || len(all) != 1 || all[0].Path != want {
			t.Errorf("%s: it asks %+v, want the path %s: %v", text, all, want, err)
		}
	}
	all, err := questions("0123456789ab", []string{"bob", "send", "ALPHA:queue:Q?group=*", "BETA:queue:R?split-size=1M"}, roots)
	if err != nil || len(all) != 3 || all[0].Path != "/queue:Q" || all[1].Path != "/queue:R" {
		t.Errorf("it asks %+v: %v", all, err)
	}
	for text, kind := range map[string]transfer.Kind{"BETA:": transfer.KindUsage, "BETA:sftp://host/x": transfer.KindNotBuilt, "BETA:'A.B'": transfer.KindUsage, "BETA:queue:": transfer.KindUsage} {
		if all, err := questions("0123456789ab", []string{"bob", "source", text}, roots); transfer.KindOf(err) != kind {
			t.Errorf("%s: it asks %+v: %v", text, all, err)
		}
	}
}

// A failure to learn the roots of an agent keeps its kind: a script sees whether to try again.
func TestRootsThatAreNotKnown(t *testing.T) {
	for _, kind := range []transfer.Kind{transfer.KindTimeout, transfer.KindUnreachable, transfer.KindNotFound} {
		_, err := questions("0123456789ab", []string{"bob", "source", "BETA:in"}, func(transfer.AgentName) ([]string, error) { return nil, transfer.Errorf(kind, "no answer") })
		if transfer.KindOf(err) != kind {
			t.Errorf("%s: %v", kind, err)
		}
	}
	_, err := questions("0123456789ab", []string{"bob", "source", "BETA:in"}, func(transfer.AgentName) ([]string, error) { return nil, nil })
	if transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("no roots: %v", err)
	}
}
