package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
)

const (
	memoryLook = 100 * time.Millisecond
	// removeWait bounds the wait for the cluster's leader, which does not answer while another one is elected. It is
	// shorter than streams.APITimeout, so that the asker gets the reason.
	removeWait = 3 * time.Second
)

// Remove removes another member of the cluster. It may be repeated after an interruption.
func (m *Member) Remove(ctx context.Context, r errands.Removal) error {
	s, cluster := m.Store, m.Cluster.Name
	m.mu.Lock()
	members, removed := slices.Clone(m.Note.Members), slices.Contains(m.Note.Removed, r.Name)
	m.mu.Unlock()
	p := m.Now.Load()
	switch {
	case removed:
		return transfer.Errorf(transfer.KindNotFound, "queue manager %s was removed from cluster %s before", printed(r.Name), cluster)
	case !slices.Contains(members, r.Name):
		return transfer.Errorf(transfer.KindNotFound, "cluster %s has no member %s", cluster, printed(r.Name)).
			WithHint("its members are " + strings.Join(members, ", "))
	case r.Name == s.Cfg.Name || slices.Contains(p.Here, r.Name):
		return transfer.Errorf(transfer.KindAlive, "queue manager %s is running, and a member of cluster %s", r.Name, cluster).
			WithHint("stop it first; it cannot be a member again under that name")
	case !p.Quorum:
		return transfer.Errorf(transfer.KindNoManager, "most members of cluster %s have to be there to remove one: %s", cluster, m.Passing()).
			WithHint("start those that are away and are to stay")
	case len(p.leaderless) > 0:
		return transfer.Errorf(transfer.KindNoManager, "cluster %s has queues without a leader, which may be kept by %s alone: %s", cluster, r.Name, strings.Join(p.leaderless, ", ")).
			WithHint("wait until `ferry ready` says nothing of them any more")
	}
	if err := m.askRemoval(ctx, r); err != nil {
		return err
	}
	s.Cfg.Log.Warn("a member was removed from the cluster", slog.String("queue_manager", r.Name), slog.String("cluster", cluster))
	m.gone(r.Name)
	for {
		m.mu.Lock()
		kept := slices.Contains(m.Note.Removed, r.Name)
		m.mu.Unlock()
		if kept {
			return nil
		}
		if sleep.For(ctx, memoryLook, nil) {
			return transfer.Errorf(transfer.KindTimeout, "queue manager %s was removed, and %s has not noted that yet", r.Name, s.Cfg.Name).WithHint("do it again")
		}
	}
}

// askRemoval asks the library's server that leads the cluster. A member that this server does not know was removed by
// an earlier try.
func (m *Member) askRemoval(ctx context.Context, r errands.Removal) error {
	s := m.Store
	refused := func(err error) error {
		return transfer.Errorf(transfer.KindNoManager, "cluster %s does not remove %s: %w", m.Cluster.Name, r.Name, err).WithHint("try again in a moment")
	}
	nc, err := own.Connect(s.NS, nats.Name(own.Name), nats.NoReconnect(),
		nats.UserJWT(func() (string, error) { return r.As.JWT, nil }, func(nonce []byte) ([]byte, error) { return roles.SignNonce(r.As.Seed, nonce) }))
	if err != nil {
		return refused(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	body, err := json.Marshal(server.JSApiMetaServerRemoveRequest{Server: r.Name, Peer: PeerID(r.Name)})
	if err != nil {
		return err
	}
	answer, err := nc.RequestWithContext(ctx, server.JSApiRemoveServer, body)
	if err != nil {
		return refused(err)
	}
	var said server.JSApiMetaServerRemoveResponse
	switch err := json.Unmarshal(answer.Data, &said); {
	case err != nil:
		return refused(err)
	case said.Error != nil && said.Error.ErrCode == uint16(server.JSClusterServerNotMemberErr):
		return nil
	case said.Error != nil:
		return refused(errors.New(said.Error.Description))
	case !said.Success:
		return refused(errors.New("it does not say why"))
	}
	return nil
}

// PeerID returns the name of a server in the library's groups. The library itself knows it only of servers that have
// been connected.
func PeerID(name string) string {
	const digits, size = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 8
	sum := sha256.Sum256([]byte(name))
	for n := range size {
		sum[n] = digits[int(sum[n])%len(digits)]
	}
	return string(sum[:size])
}

// gone has the member forget removed members, at its next look.
func (m *Member) gone(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if len(name) <= streams.MaxToken && !slices.Contains(m.removed, name) && !slices.Contains(m.Note.Removed, name) && len(m.removed) < maxRemoved {
			m.removed = append(m.removed, name)
		}
	}
}

// maxRemoved bounds how many removed members are remembered.
const maxRemoved = 1000

// forget removes the removed members from a note.
func (m *Member) forget(n memberNote) (now memberNote, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.removed {
		if name == n.Name || slices.Contains(n.Removed, name) || len(n.Removed) >= maxRemoved {
			continue
		}
		n.Removed = append(slices.Clone(n.Removed), name)
		n.Members = slices.DeleteFunc(slices.Clone(n.Members), func(has string) bool { return has == name })
		changed = true
	}
	m.removed = nil
	return n, changed
}

// printed quotes a name from another party for output, at most 200 characters of it.
func printed(name string) string { return fmt.Sprintf("%.200q", name) }
