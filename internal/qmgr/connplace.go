package qmgr

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
)

// A placing is the last identity.Place that a Conn has given to its queue manager.
type placing struct {
	mu      sync.Mutex
	at      string    // the queue manager
	left    string    // the one before
	since   time.Time // when the Conn left that
	made    int64
	session int64     // of the control connection
	said    time.Time // when the queue manager took the statement
}

// keep gives the queue manager a place whenever the Conn has come up, and every errands.PlaceEvery, until the Conn is closed.
func (p *placing) keep(a asker) {
	c := a.c
	for {
		session, over := c.Session()
		wait := errands.PlacesAgain
		c.placing.mu.Lock()
		due := c.placing.session != session || time.Since(c.placing.said) >= errands.PlaceEvery
		if !due {
			wait = errands.PlaceEvery - time.Since(c.placing.said)
		}
		c.placing.mu.Unlock()
		if due && c.control.Up.Load() {
			ctx, cancel := context.WithTimeout(c.base.Ctx, streams.APITimeout)
			_, err := a.placed(ctx, errands.Errand{Op: errands.OpPlace})
			cancel()
			if err == nil {
				continue
			}
			c.cfg.Log.Debug("give place to queue manager failed", slog.String("at", c.base.Where), slog.Any("error", err))
		}
		select {
		case <-time.After(max(wait, errands.PlacesAgain)):
		case <-over:
		case <-c.base.Ctx.Done():
			return
		}
	}
}

// placed does an errand, with a place of the Conn. If the clock of this host was set back, the queue manager knows a later
// place of the identity. Then placed repeats the errand with a place that is later still.
func (a asker) placed(ctx context.Context, e errands.Errand) (res errands.Result, err error) {
	c := a.c
	session, _ := c.Session()
	for range 2 {
		var made int64
		if e.Place, made, err = c.placing.say(c); err != nil {
			return res, err
		}
		if res, err = a.ask(ctx, e); err != nil {
			return res, err
		}
		c.placing.mu.Lock()
		behind := made != 0 && res.Placed > made && time.UnixMilli(res.Placed).Before(time.Now().Add(2*(errands.PlaceLife+errands.MaxClockOff)))
		c.placing.made = max(c.placing.made, res.Placed)
		c.placing.session, c.placing.said = session, time.Now()
		c.placing.mu.Unlock()
		if !behind {
			break
		}
	}
	return res, nil
}

// say signs a place of the Conn. The place is nil without an identity, or if the name of the queue manager is not
// known.
func (p *placing) say(c *Conn) (said json.RawMessage, made int64, err error) {
	i := c.cfg.Identity
	if i == nil || i.Name().Role == identity.Manager {
		return nil, 0, nil
	}
	at := ""
	if s := c.cfg.Server; s != nil {
		at = s.Name()
	} else if name := c.control.Peer.Load(); name != nil {
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
	if p.left == at || now.Sub(p.since) > errands.PlaceLife {
		p.left = ""
	}
	p.at = at
	p.made = max(now.UnixMilli(), p.made+1)
	x := identity.Place{At: at, Left: p.left, Made: p.made}
	p.mu.Unlock()
	if i.Name().Role == identity.User { // other commands of the user may still be at the queue manager that this one has left
		x.JWT, x.Left = i.JWTs().User, ""
	}
	signed, err := i.SignPlace(x)
	if err != nil {
		return nil, 0, err
	}
	said, err = json.Marshal(signed)
	return said, x.Made, err
}

func (a asker) Ensure(ctx context.Context) (map[string]streams.Mark, error) {
	res, err := a.placed(ctx, errands.Errand{Op: errands.OpEnsure})
	return res.Marks, err
}
