package agent

import (
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// `agent rm --revoke` in a network without identities removes nothing.
func TestRmWithoutAnIdentityToRevoke(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	at, err := server.Start(t.Context(), server.Config{Name: "QM", Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.Shutdown)
	coordination, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: at, Name: "coordination", Self: wire.Coordination, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(coordination.Close)
	var asked atomic.Int64
	if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		asked.Add(1)
		coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(wire.Answer{V: wire.Version}))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := coordination.Request(t.Context(), wire.AskSubject(wire.Coordination, wire.Coordination), nil, time.Minute); err != nil { // the server has the subscription
		t.Fatal(err)
	}
	asked.Store(0)
	for _, c := range []struct {
		args []string
		kind transfer.Kind
		asks int64
	}{
		{[]string{"BETA", "--revoke"}, transfer.KindUsage, 0},
		{[]string{"BETA"}, transfer.KindNone, 1},
	} {
		rm := newAgentRm()
		rm.SetArgs(append(c.args, "--timeout", "1m", "--network", at.URL()))
		rm.SetOut(io.Discard)
		rm.SetErr(io.Discard)
		if err := rm.ExecuteContext(t.Context()); transfer.KindOf(err) != c.kind || asked.Load() != c.asks {
			t.Errorf("agent rm %q ends with %v, and coordination was asked %d times", c.args, err, asked.Load())
		}
	}
}

// `agent show` names the exits of an agent. It does not say that there are none, or no limit of the rates, where the user
// may not see them.
func TestShownExits(t *testing.T) {
	row := func(a *wire.AgentStatus, name string) string {
		for _, r := range agentRows(a) {
			if r[0] == name {
				return r[1]
			}
		}
		return "no row"
	}
	for _, c := range []struct{ roots, exits, want, rates string }{
		{"/srv", "source-start=a.sh monitor=b.sh", "source-start=a.sh monitor=b.sh", "no limit"},
		{"/srv", "", "none", "no limit"},
		{"", "", "not shown", "not shown"},
	} {
		a := &wire.AgentStatus{Beat: wire.Beat{Agent: "ALPHA", Roots: strings.Fields(c.roots), Exits: strings.Fields(c.exits)}}
		if got := row(a, "exits"); got != c.want {
			t.Errorf("roots %q: the exits are %q, want %q", c.roots, got, c.want)
		}
		if got := row(a, "sends at most"); got != c.rates {
			t.Errorf("roots %q: it sends at most %q, want %q", c.roots, got, c.rates)
		}
	}
}
