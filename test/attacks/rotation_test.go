package attacks

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/trust"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const day = 24 * time.Hour

// A rotating is a dated network with members that renew due identities, as Ferry's commands do. It counts refused
// members.
type rotating struct {
	*dated
	authority *qmgr.Conn
	self      *identity.Identity   // of the authority
	own       []*identity.Identity // of the authority's process and of the queue manager's
	agents    []*identity.Identity
	refused   atomic.Int64
	renewed   atomic.Int64
	said      []byte // the trust document that is published
}

func newRotating(t *testing.T, ago time.Duration) *rotating {
	t.Helper()
	r := &rotating{dated: &dated{}}
	r.behind.Store(int64(ago))
	r.network = newNetworkOf(t, authoritytest.NewWith(t, func() time.Time { return time.Now().Add(-time.Duration(r.behind.Load())) }))
	r.self = r.identity(identity.Authority, "", roles.Authority)
	service := r.identity(identity.Coordination, "", roles.Coordination)
	r.own = []*identity.Identity{r.self, r.qm, service}
	var err error
	r.authority, err = qmgr.Connect(r.ctx, r.config(r.self))
	must(t, err)
	t.Cleanup(r.authority.Close)
	desk := &enrol.Responder{Authority: r.Authority, Conn: r.authority, Changed: func() {}, Log: slog.New(slog.DiscardHandler)}
	stop, err := desk.Attend()
	must(t, err)
	t.Cleanup(stop)
	conn, err := qmgr.Connect(r.ctx, r.config(service))
	must(t, err)
	t.Cleanup(conn.Close)
	s, err := coordination.Start(r.ctx, coordination.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, conn)
	must(t, err)
	t.Cleanup(s.Stop)
	return r
}

func (r *rotating) config(i *identity.Identity) qmgr.ConnConfig {
	return qmgr.ConnConfig{URL: r.server.URL(), Identity: i, Log: slog.New(slog.DiscardHandler), OnRefused: func(error) { r.refused.Add(1) }}
}

// member runs an agent that renews its identity as soon as it is due.
func (r *rotating) member(name, root string) {
	r.t.Helper()
	i := r.identity(identity.Agent, name, roles.Agent)
	r.agents = append(r.agents, i)
	r.run(i, root, func(cc *qmgr.ConnConfig) { *cc = r.config(i) })
	var over sync.WaitGroup
	over.Go(func() {
		for {
			select {
			case <-i.Soon():
				r.renew(i)
				r.renewed.Add(1)
			case <-r.ctx.Done():
				return
			}
		}
	})
	r.t.Cleanup(over.Wait)
}

// tell publishes the present state of the authority to all members, as its process does.
func (r *rotating) tell() {
	r.t.Helper()
	for _, i := range r.own {
		if !slices.Equal(i.Known(), r.Roots().Hashes()) {
			r.renew(i)
		}
	}
	claims, err := r.Claims()
	must(r.t, err)
	must(r.t, r.server.Admit(claims))
	doc, err := r.Trust(trust.Rules)
	must(r.t, err)
	d, err := trust.Open(r.self.Trust(), r.Network(), doc)
	must(r.t, err)
	for _, i := range r.own {
		i.Trusting(d.Roots)
	}
	r.said = doc
}

// await waits until all agents have identities issued under the newest root. It repeats the trust document meanwhile,
// because a connection made with the first keys ends with them.
func (r *rotating) await(what string) {
	r.t.Helper()
	for slices.ContainsFunc(r.agents, func(i *identity.Identity) bool { return i.Known()[0] != r.Roots().Hash() }) {
		r.authority.Publish(wire.Rules, r.said)
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("%s: not all agents are renewed", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestKeysRotateUnderLoad changes all keys of the authority, twice, while transfers run on both lanes. All members are
// renewed, the first keys are given up, no member is refused and no data are lost.
func TestKeysRotateUnderLoad(t *testing.T) {
	r := newRotating(t, 20*day)
	from, to := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	must(t, os.WriteFile(filepath.Join(from, "a"), data, 0o600))
	user := r.identity(identity.User, "ann", roles.User) // is in the rules that the agents ask for
	r.member("ALPHA", from)
	r.member("BETA", to)
	first := r.Roots().Hash()

	cc := r.config(user)
	cc.Asks = true
	asks, err := qmgr.Connect(r.ctx, cc)
	must(t, err)
	t.Cleanup(asks.Close)
	c := &client.Client{Conn: asks, Clock: clock.System, Who: client.Me()}
	var enough atomic.Bool
	var done atomic.Int64
	var load sync.WaitGroup
	for _, lane := range []string{"direct", "queue"} {
		load.Go(func() {
			for n := 0; n < 3 || !enough.Load(); n++ {
				q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA",
					Items: transfer.ItemsOf("a"), Dest: transfer.File(transfer.Path(fmt.Sprintf("%s-%d", lane, n))), Lane: lane}
				q.Rate = 2 << 20
				p, err := c.Run(r.ctx, q, func(*transfer.Progress) {}, func(error) {})
				if err != nil || p.State != transfer.Successful {
					t.Errorf("transfer %d on the lane %s: %+v, %v", n, lane, p, err)
					return
				}
				got, err := os.ReadFile(filepath.Join(to, string(q.Dest.Path)))
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("transfer %d on the lane %s: %d bytes have arrived, %v", n, lane, len(got), err)
				}
				done.Add(1)
			}
		})
	}
	defer load.Wait()
	defer enough.Store(true)

	must(t, r.Rotate(""))
	r.tell()
	r.await("the first rotation")
	if claims := r.agents[0].Roots().Hashes(); len(claims) != 2 || claims[1] != first {
		t.Errorf("an agent trusts %v", claims)
	}

	// Eight days later JWTs have new keys, too. Once all members have new JWTs, the first keys can be removed.
	r.behind.Store(int64(12 * day))
	for _, i := range append(slices.Clone(r.agents), user) {
		r.renew(i)
	}
	for _, i := range r.own {
		r.renew(i)
	}
	must(t, r.Rotate(""))
	r.tell()
	r.await("the second rotation")
	if slices.Contains(r.Roots().Hashes(), first) {
		t.Error("the first root is still there")
	}
	before := done.Load()
	for done.Load() < before+2 {
		select {
		case <-r.ctx.Done():
			t.Fatal("no transfer ends after the rotations")
		case <-time.After(10 * time.Millisecond):
		}
	}
	enough.Store(true)
	load.Wait()
	if r.refused.Load() > 0 {
		t.Errorf("%d times somebody was refused", r.refused.Load())
	}
	if r.renewed.Load() < 4 {
		t.Errorf("agents were renewed %d times", r.renewed.Load())
	}
	if _, err := r.connect(user); err != nil {
		t.Errorf("the user is not let in any more: %v", err)
	}
}
