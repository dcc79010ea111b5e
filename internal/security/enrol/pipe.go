package enrol

import (
	"context"

	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// ticket answers opPipe.
func ticket(a *authority.Authority, user identity.Name, p *authority.Pipe) (*identity.JWTs, error) {
	if p == nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the request for a pipe is missing")
	}
	t, err := authority.Ticket(a, user, *p)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// Pipe has a ticket signed for a pipe of the asker, which is a user. The error is of KindDenied where the rules do not
// allow the request, and of KindNoManager where the authority does not answer.
func (a Client) Pipe(ctx context.Context, p authority.Pipe) (identity.JWTs, error) {
	r, err := a.ask(ctx, ask{Op: opPipe, Pipe: &p})
	switch kind := transfer.KindOf(err); {
	case kind == transfer.KindUnreachable || kind == transfer.KindTimeout:
		return identity.JWTs{}, transfer.Errorf(transfer.KindNoManager, "the authority of the network does not answer, and no pipe starts without its ticket: %w", err).
			WithHint("start the authority: `ferry up`, or `ferry authority run`; a file is sent without it")
	case err != nil:
		return identity.JWTs{}, err
	case r.Ticket == nil || r.Ticket.User == "" || r.Ticket.Data == "":
		return identity.JWTs{}, transfer.Errorf(transfer.KindVersion, "the authority has issued no ticket")
	}
	return *r.Ticket, nil
}
