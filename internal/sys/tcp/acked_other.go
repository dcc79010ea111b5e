//go:build !linux

package tcp

import (
	"net"
	"time"
)

// Acked is 0 and false: the system does not say how many bytes the other host has
// acknowledged.
func Acked(net.Conn) (acked uint64, more bool) { return 0, false }

// Carried is 0 and false: the system does not say.
func Carried(net.Conn) (acked uint64, waiting bool) { return 0, false }

// Stalled is 0: the system does not say.
func Stalled(net.Conn) time.Duration { return 0 }
