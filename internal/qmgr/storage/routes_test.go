package storage

import (
	"strings"
	"testing"
)

// A log line of the library about an impossible route becomes a sentence that names the remedy.
func TestWhatIsSaidOfRoutes(t *testing.T) {
	for line, want := range map[string]string{
		`127.0.0.1:1 - rid:5 - Remote server has a duplicate name: "QM2"`:                                        "another queue manager of the cluster has the name QM2",
		`127.0.0.1:1 - rid:5 - Rejecting connection, cluster name "Y" does not match "X"`:                        "a queue manager of cluster Y has come by a route to this one of cluster X",
		`127.0.0.1:1 - rid:5 - Route Error 'Rejecting connection, cluster name "Y" does not match "X"'`:          "a queue manager of cluster Y",
		`127.0.0.1:1 - rid:5 - TLS route handshake error: ferry://abc/agent/A1 may not be here`:                  "a route to another queue manager is refused: ferry://abc/agent/A1 may not be here",
		`Error trying to connect to route (attempt 7): dial tcp 127.0.0.1:1: connect: connection refused`:        "is not reached yet: dial tcp",
		`TLS certificate chain and hostname of solicited routes will not be verified. DO NOT USE IN PRODUCTION!`: "",
	} {
		if text, _, ok := RouteLine(line); !ok || !strings.HasPrefix(text, want) && !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("%s\nis said as %q, %v", line, text, ok)
		}
	}
	if text, _, ok := RouteLine("JetStream failed to store a msg on stream"); ok {
		t.Errorf("a line that has nothing to do with routes is said as %q", text)
	}
}
