// Package queuemanager runs a queue manager, with the authority of its network, coordination and agents beside it. It also
// runs an authority in a process of its own.
package queuemanager
