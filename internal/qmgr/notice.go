package qmgr

import (
	"context"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/roles"
)

// Admit has a queue manager in another process take new claims of the authority. The Conn is the authority's. It does
// the same as Server.Admit.
func Admit(ctx context.Context, c *Conn, claims roles.Claims) error {
	_, err := remoteAdminOf(c).ask(ctx, errands.Errand{Op: errands.OpAdmit, Claims: &claims})
	return err
}

// Notice has the queue manager called degraded for an hour. The Conn is that of coordination.
func Notice(ctx context.Context, c *Conn, finding string) error {
	c.noticed(finding)
	if a, ok := c.admin.(remoteAdmin); ok {
		_, err := a.ask(ctx, errands.Errand{Op: errands.OpNotice, Text: finding})
		return err
	}
	if s := c.cfg.Server; s != nil {
		s.Notice(finding)
	}
	return nil
}
