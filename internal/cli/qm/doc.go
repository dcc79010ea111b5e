// Package qm has the commands for queue managers, their channels and their queues.
package qm
