package qmgr

import (
	"context"

	"ferry/internal/qmgr/errands"
)

// These functions remove a member from its cluster for good. The library does the work: the group that places queues
// has one member less. The others keep each queue of the removed member, and so does a member that joins later. Only
// the account for the servers' own business may ask for it. The authority signs a user into it for a minute. Hellos
// carry Ferry's memory of the members (memberNote), so that a member that was away receives it, too.

// RemoveMember has the queue manager of the authority's connection remove a member of its cluster that is not running.
// Its error is of KindNotFound if there is none of that name, of KindAlive if it runs, and of KindNoManager if most of
// the others are not there.
func RemoveMember(ctx context.Context, c *Conn, name string, as errands.SystemUser) error {
	_, err := remoteAdminOf(c).ask(ctx, errands.Errand{Op: errands.OpRemove, Remove: &errands.Removal{Name: name, As: as}})
	return err
}
