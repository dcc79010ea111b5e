package queuemanager

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// startServer starts a queue manager without identities, and connects to it as its own process does.
func startServer(t *testing.T) (*server.Server, *qmgr.Conn) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	server, err := server.Start(t.Context(), server.Config{Name: "QM", Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	conn, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: server, Name: "ferry up", Self: wire.Up, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return server, conn
}

// While coordination does not run, questions to it are answered with its reason, except the question of another
// coordination that is to start.
func TestCoordinationThatIsAwayIsSaidToBe(t *testing.T) {
	server, conn := startServer(t)
	own, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: server, Name: "ferry coordination", Self: wire.Coordination})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	away := &coordinationAbsence{conn: own, log: slog.New(slog.DiscardHandler)}
	away.begin()
	away.begin() // after another try
	net := &client.Client{Conn: conn, Clock: clock.System, Who: client.Me(), Timeout: time.Minute}
	if err := net.Agents(t.Context(), func(*wire.AgentStatus) error { return nil }); transfer.KindOf(err) != transfer.KindUnreachable || !strings.Contains(err.Error(), coordinationAway) {
		t.Error(err)
	}
	ask := wire.AskSubject(wire.Coordination, conn.Self())
	if data, err := conn.Request(t.Context(), ask, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), 300*time.Millisecond); transfer.KindOf(err) != transfer.KindTimeout {
		t.Errorf("%s, %v", data, err)
	}
	away.end()
	// A question that meets the end of the subscription has no answer.
	var err2 error
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
		_, err2 = conn.Request(t.Context(), ask, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskAgents}), time.Second)
		if transfer.KindOf(err2) == transfer.KindUnreachable && !strings.Contains(err2.Error(), coordinationAway) {
			return
		}
	}
	t.Errorf("after its end: %v", err2)
}
