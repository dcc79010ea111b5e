package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/filelock"
	"ferry/internal/identity"
	"ferry/internal/keyfile"
	"ferry/internal/onebox"
	"ferry/internal/transfer"
)

// pipeAs is how the agent of standard input or output connects, which is a side of q, and
// its user. In a network with identities the agent has one of a few that this user keeps for
// that, until release; q is changed to its name.
func pipeAs(ctx context.Context, cmd *cobra.Command, network string, q *transfer.Request, patience time.Duration, log logT) (as onebox.Caller, release func(), err error) {
	as.Name = transfer.StreamAgent(q.ID)
	if as.User, _, err = userConfig(ctx, cmd, network, patience); err != nil {
		return as, nil, err
	}
	as.Agent = as.User
	as.Agent.Asks = false
	if as.User.Identity == nil {
		return as, func() {}, nil
	}

	before := as.Name
	lock, i, err := pipeIdentity(ctx, cmd, network, as.User.Identity, patience, log)
	if err != nil {
		return as, nil, err
	}
	as.Name, as.Agent.Identity = transfer.AgentName(i.Name().Name), i
	if q.Source == before {
		q.Source = as.Name
	}
	if q.Destination == before {
		q.Destination = as.Name
	}
	return as, func() { lock.Close() }, nil
}

// pipeIdentity is the first of the user's identities for pipes that no other command uses. It is
// issued where it is missing or due.
func pipeIdentity(ctx context.Context, cmd *cobra.Command, network string, user *identity.Identity, patience time.Duration, log logT) (io.Closer, *identity.Identity, error) {
	pipes, err := keyfile.Make(filepath.Join(user.Path(), "pipes"))
	if err != nil {
		return nil, nil, transfer.Errorf(transfer.KindUnwritable, "the identities for pipes cannot be kept: %w", err)
	}
	for n := range 256 {
		path := filepath.Join(pipes.Path(), fmt.Sprintf("%02x", n))
		if _, err := keyfile.Make(path); err != nil {
			return nil, nil, transfer.Errorf(transfer.KindUnwritable, "the identities for pipes cannot be kept: %w", err)
		}
		lock, err := filelock.Take(filepath.Join(path, "lock"))
		if errors.Is(err, filelock.ErrHeld) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		i, err := stored(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && time.Now().Before(i.Due()) {
			return lock, i, err
		}
		i, err = enrolPipe(ctx, cmd, network, path, user.Name(), byte(n), patience, log)
		if err == nil {
			return lock, i, nil
		}
		lock.Close()
		if transfer.KindOf(err) != transfer.KindConflict { // with other keys, which this host has lost
			return nil, nil, err
		}
	}
	return nil, nil, transfer.Errorf(transfer.KindBusy, "256 commands of this user read or write a pipe")
}

func enrolPipe(ctx context.Context, cmd *cobra.Command, network, path string, user identity.Name, n byte, patience time.Duration, log logT) (*identity.Identity, error) {
	conn, err := connectUser(ctx, cmd, network, "ferry enrol", patience, log)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return enrolHere(ctx, conn, path, identity.Name{Network: user.Network, Role: identity.Agent, Name: string(transfer.StreamAgentOf(user.String(), n))})
}
