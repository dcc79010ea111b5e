package qmgr

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
)

// A registering is the last identity.Registration that a Conn has given to its queue manager.
type registering struct {
	identity *identity.Identity // of the Conn; nil: it has no registration
	server   Local              // instead of a name that the connection shows: the queue manager of this process
	control  *link.Link
	log      *slog.Logger

	mu      sync.Mutex
	at      string    // the queue manager
	left    string    // the one before
	since   time.Time // when the Conn left that
	made    int64
	session int64     // of the control connection
	said    time.Time // when the queue manager took the statement
}

// keep gives the queue manager a registration whenever the Conn has come up, and every errands.RegisterEvery, until the Conn is closed.
func (p *registering) keep(a remoteAdmin) {
	for {
		session, over := p.control.CameUp()
		wait := errands.RegistrationsAgain
		p.mu.Lock()
		due := p.session != session || time.Since(p.said) >= errands.RegisterEvery
		if !due {
			wait = errands.RegisterEvery - time.Since(p.said)
		}
		p.mu.Unlock()
		if due && p.control.Up.Load() {
			ctx, cancel := context.WithTimeout(p.control.Base.Ctx, streams.APITimeout)
			_, err := a.askRegistered(ctx, errands.Errand{Op: errands.OpRegister})
			cancel()
			if err == nil {
				continue
			}
			p.log.Debug("give registration to queue manager failed", slog.String("at", p.control.Base.Where), slog.Any("error", err))
		}
		select {
		case <-time.After(max(wait, errands.RegistrationsAgain)):
		case <-over:
		case <-p.control.Base.Ctx.Done():
			return
		}
	}
}

// askRegistered does an errand, with a registration of the Conn. If the clock of this host was set back, the queue manager knows a later
// registration of the identity. Then askRegistered repeats the errand with a registration that is later still.
func (a remoteAdmin) askRegistered(ctx context.Context, e errands.Errand) (res errands.Result, err error) {
	p := a.registering
	session, _ := p.control.CameUp()
	for range 2 {
		var made int64
		if e.Registration, made, err = p.say(); err != nil {
			return res, err
		}
		if res, err = a.ask(ctx, e); err != nil {
			return res, err
		}
		p.mu.Lock()
		behind := made != 0 && res.Registered > made && time.UnixMilli(res.Registered).Before(time.Now().Add(2*(errands.RegistrationLife+errands.MaxClockOff)))
		p.made = max(p.made, res.Registered)
		p.session, p.said = session, time.Now()
		p.mu.Unlock()
		if !behind {
			break
		}
	}
	return res, nil
}

// say signs a registration of the Conn. The registration is nil without an identity, or if the name of the queue manager is not
// known.
func (p *registering) say() (said json.RawMessage, made int64, err error) {
	i := p.identity
	if i == nil || i.Name().Role == identity.Manager {
		return nil, 0, nil
	}
	at := ""
	if s := p.server; s != nil {
		at = s.Name()
	} else if name := p.control.Peer.Load(); name != nil {
		at = *name
	}
	if at == "" {
		return nil, 0, nil
	}
	now := time.Now()
	p.mu.Lock()
	if p.at != at && p.at != "" {
		p.left, p.since = p.at, now
	}
	if p.left == at || now.Sub(p.since) > errands.RegistrationLife {
		p.left = ""
	}
	p.at = at
	p.made = max(now.UnixMilli(), p.made+1)
	x := identity.Registration{At: at, Left: p.left, Made: p.made}
	p.mu.Unlock()
	if i.Name().Role == identity.User { // other commands of the user may still be at the queue manager that this one has left
		x.JWT, x.Left = i.JWTs().User, ""
	}
	signed, err := i.SignRegistration(x)
	if err != nil {
		return nil, 0, err
	}
	said, err = json.Marshal(signed)
	return said, x.Made, err
}

func (a remoteAdmin) Ensure(ctx context.Context) (map[string]streams.Mark, error) {
	res, err := a.askRegistered(ctx, errands.Errand{Op: errands.OpEnsure})
	return res.Marks, err
}
