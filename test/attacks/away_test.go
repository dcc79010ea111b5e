package attacks

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/client"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// skewed is a clock that is wrong by a constant.
type skewed struct {
	clock.Clock
	by time.Duration
}

func (s skewed) Now() time.Time { return s.Clock.Now().Add(s.by) }

// A lasting is a network with its whole state on disk, so that its processes can restart.
type lasting struct {
	*network
	dir, listen string
	guard       *server.Guard
	ids         map[string]*identity.Identity
	running     []func() // functions that stop the running services, the last one first
}

// newLasting makes a network with an authority that issued all identities the given time ago and has been away since.
func newLasting(t *testing.T, ago time.Duration) *lasting {
	t.Helper()
	a := authoritytest.NewWith(t, func() time.Time { return time.Now().Add(-ago) })
	l := &lasting{network: &network{Authority: a, t: t, ctx: t.Context()}, dir: t.TempDir(), listen: "127.0.0.1:0", ids: map[string]*identity.Identity{}}
	l.qm = l.identity(identity.Manager, "QM", roles.Manager)
	claims, err := a.Claims()
	must(t, err)
	l.guard = &server.Guard{Identity: l.qm, Claims: claims}
	l.ids["coordination"] = l.identity(identity.Coordination, "", roles.Coordination)
	l.ids["ann"] = l.identity(identity.User, "ann", roles.User)
	for _, name := range []string{"ALPHA", "BETA"} {
		l.ids[name] = l.identity(identity.Agent, name, roles.Agent)
		must(t, os.MkdirAll(filepath.Join(l.dir, "files", name), 0o700))
	}
	t.Cleanup(l.stop)
	return l
}

func (l *lasting) stop() {
	for n := len(l.running) - 1; n >= 0; n-- {
		l.running[n]()
	}
	l.running = nil
}

func (l *lasting) conn(who string) *qmgr.Conn {
	l.t.Helper()
	c, err := qmgr.Connect(l.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: l.server.URL(), Identity: l.ids[who], Log: slog.New(slog.DiscardHandler)})
	must(l.t, err)
	l.running = append(l.running, c.Close)
	return c
}

// start starts the queue manager, coordination and the agents. wrong has the errors of their clocks.
func (l *lasting) start(wrong map[string]time.Duration) {
	l.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var err error
	l.server, err = server.Start(l.ctx, server.Config{Dir: filepath.Join(l.dir, "qm"), Listen: l.listen, Guard: l.guard, Log: quiet})
	must(l.t, err)
	l.running = append(l.running, l.server.Shutdown)
	l.listen = strings.TrimPrefix(l.server.URL(), "nats://")
	if l.ids["authority"] == nil { // the authority runs at the first start, and publishes its trust document
		l.ids["authority"] = l.identity(identity.Authority, "", roles.Authority)
		desk := &enrol.Responder{Authority: l.Authority, Conn: l.conn("authority"), Changed: func() {}, Log: quiet}
		gone, err := desk.Attend()
		must(l.t, err)
		defer gone()
	}
	s, err := coordination.Start(l.ctx, coordination.Config{Dir: filepath.Join(l.dir, "coordination"), Log: quiet}, l.conn("coordination"))
	must(l.t, err)
	l.running = append(l.running, s.Stop)
	for _, name := range []string{"ALPHA", "BETA"} {
		a, err := agent.Start(l.ctx, agent.Config{Name: transfer.AgentName(name), Dir: filepath.Join(l.dir, name), Roots: []string{filepath.Join(l.dir, "files", name)},
			Log: quiet, Clock: skewed{clock.System, wrong[name]}}, l.conn(name))
		must(l.t, err)
		l.running = append(l.running, a.Stop)
	}
}

// moves sends a file from ALPHA to BETA on each lane.
func (l *lasting) moves(what string) *client.Client {
	l.t.Helper()
	c := &client.Client{Conn: l.conn("ann"), Clock: clock.System, Who: client.Me(), Timeout: 90 * time.Second}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	must(l.t, os.WriteFile(filepath.Join(l.dir, "files", "ALPHA", "a"), data, 0o600))
	for _, lane := range []string{"direct", "queue"} {
		to := fmt.Sprintf("%s-%s", what, lane)
		p, err := c.Run(l.ctx, &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA",
			Items: transfer.ItemsOf("a"), Dest: transfer.File(transfer.Path(to)), Lane: lane}, func(*transfer.Progress) {}, func(error) {})
		if err != nil || p.State != transfer.Successful {
			l.t.Fatalf("%s, on the lane %s: %+v, %v", what, lane, p, err)
		}
		if got, err := os.ReadFile(filepath.Join(l.dir, "files", "BETA", to)); err != nil || !bytes.Equal(got, data) {
			l.t.Errorf("%s, on the lane %s: %d bytes have arrived, %v", what, lane, len(got), err)
		}
	}
	return c
}

// TestTheAuthorityIsAway stops the authority for 9 days, and for nearly 30. Transfers run on both lanes, and the queue
// manager and the agents restart. Agents report that they have not heard from the authority.
func TestTheAuthorityIsAway(t *testing.T) {
	for what, ago := range map[string]time.Duration{"9 days": 9 * day, "30 days": 30*day - time.Hour} {
		l := newLasting(t, ago)
		l.start(nil)
		c := l.moves(what)
		s, err := c.Agent(l.ctx, "BETA")
		if err != nil || !strings.Contains(s.Reason, "nothing has been heard of the network's authority") {
			t.Errorf("%s: BETA is %+v, %v", what, s, err)
		}
		l.stop()
		l.start(nil)
		l.moves(what + ", started again")
		l.stop()
	}
}

// TestClocksAnHourOff sets clocks off by an hour at either end, and at the authority. Certificates are valid, and
// transfers run.
func TestClocksAnHourOff(t *testing.T) {
	const off = time.Hour - time.Minute
	for what, c := range map[string]struct{ authority, alpha, beta time.Duration }{
		"the source is behind":      {0, -off, 0},
		"the source is ahead":       {0, off, 0},
		"the destination is behind": {0, 0, -off},
		"the destination is ahead":  {0, 0, off},
		"both, apart":               {0, off, -off},
		"the authority is ahead":    {time.Hour, 0, 0},
		"the authority is behind":   {-time.Hour, 0, 0},
	} {
		l := newLasting(t, -c.authority)
		wrong := map[string]time.Duration{"ALPHA": c.alpha, "BETA": c.beta}
		l.start(wrong)
		l.moves(what)
		l.stop()
	}
}
