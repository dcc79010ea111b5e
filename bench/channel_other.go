//go:build !linux

package bench

import (
	"errors"
	"net"
)

// stallLacks is the reason why the stall cannot be reproduced on this system.
const stallLacks = "not available: TCP_QUICKACK is Linux's alone"

func quickAck(*net.TCPConn) error { return errors.New(stallLacks) }
