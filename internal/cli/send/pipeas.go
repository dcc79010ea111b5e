package send

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/session"
	"ferry/internal/node/member"
	"ferry/internal/node/onebox"
	"ferry/internal/qmgr"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// pipeAs connects the user and says how the pipe of q connects, until release. In a network with identities the pipe is
// its user, with a ticket for the transfer; q is changed to its name there.
func pipeAs(ctx context.Context, cmd *cobra.Command, network string, q *transfer.Request, patience time.Duration, log *slog.Logger) (as onebox.Caller, release func(), err error) {
	release = func() {}
	user, err := session.Connect(ctx, cmd, network, "ferry", patience, log)
	if err != nil {
		return as, release, err
	}
	i := user.Identity()
	as = onebox.Caller{User: user, Name: transfer.StreamAgent(q.ID), Agent: qmgr.ConnConfig{URL: network, Identity: i, Timeout: patience}}
	if i == nil {
		return as, release, nil
	}

	as.Name = transfer.StreamAgentOf(i.Name().String(), q.ID)
	t := &ticket{desk: enrol.Client{Conn: user}, log: log, pipe: authority.Pipe{Transfer: q.ID}}
	if q.Source.Stream() {
		q.Source, t.pipe.Peer, t.pipe.Right = as.Name, q.Destination, transfer.AuthDest
	} else {
		q.Destination, t.pipe.Peer, t.pipe.Right = as.Name, q.Source, transfer.AuthSource
	}
	if err := t.first(ctx, min(patience, ticketWait)); err != nil {
		user.Close()
		return as, release, err
	}
	as.Agent.Ticket = func() identity.JWTs { return *t.jwts.Load() }
	ctx, release = context.WithCancel(ctx)
	go t.keep(ctx)
	return as, release, nil
}

// A ticket is renewed while its pipe is there. It is in the memory of the command alone.
type ticket struct {
	desk enrol.Client
	log  *slog.Logger
	pipe authority.Pipe
	jwts atomic.Pointer[identity.JWTs]
}

const (
	// ticketWait is the time for which a command asks an authority that does not answer. Shortly after the start of
	// queue managers, the channel to the authority may not be up yet.
	ticketWait  = 5 * time.Second
	ticketPause = 250 * time.Millisecond
)

// first gets the signature of the ticket, within a time.
func (t *ticket) first(ctx context.Context, within time.Duration) error {
	end := time.Now().Add(within)
	for {
		err := t.renew(ctx)
		if transfer.KindOf(err) != transfer.KindNoManager || !time.Now().Before(end) {
			return err
		}
		select {
		case <-time.After(ticketPause):
		case <-ctx.Done():
			return err
		}
	}
}

func (t *ticket) renew(ctx context.Context) error {
	jwts, err := t.desk.Pipe(ctx, t.pipe)
	if err == nil {
		t.jwts.Store(&jwts)
	}
	return err
}

// keep has the ticket renewed, until ctx ends.
func (t *ticket) keep(ctx context.Context) {
	next := time.NewTimer(authority.TicketRenew)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		wait := authority.TicketRenew
		if err := t.renew(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("the ticket of the pipe is not renewed yet", "error", err)
			wait = member.RenewAgain
		}
		next.Reset(wait)
	}
}
