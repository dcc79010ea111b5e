package qmgr

import (
	"github.com/nats-io/nats.go"
)

// Raw returns the library's connections of a Conn, for tests of the packages beneath this one.
func Raw(c *Conn) (control, data *nats.Conn) { return c.control.NATS(), c.data.NATS() }

// AskAlways has a Conn ask the queue manager for everything, as one with an identity does, for the same tests.
func AskAlways(c *Conn) { c.admin = remoteAdminOf(c) }
