// Package ports reserves ports for the queue managers of tests. A queue manager
// takes two: its own, and by default the one after it, where others join the network.
package ports

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// Ports lie below the range of ports that systems take for outgoing connections: an agent
// that dials a dead queue manager there could otherwise end up connected to itself.
const (
	first = 12_000
	last  = 32_000
)

// Take finds a port of 127.0.0.1 that is free for TCP, as the one after it is. No other call, of this
// process or another, finds one of the two before release is called. A listener may come and go on
// them meanwhile: a reservation is a UDP socket of the same number.
func Take() (port int, release func(), err error) {
	for range 1000 {
		n := first + rand.IntN(last-first)
		held, ok := reserve(n, n+1)
		if ok {
			return n, func() { closeAll(held) }, nil
		}
	}
	return 0, nil, fmt.Errorf("no two ports between %d and %d are free", first, last)
}

// reserve holds ports that are all free.
func reserve(ports ...int) (held []io.Closer, ok bool) {
	for _, n := range ports {
		at := fmt.Sprintf("127.0.0.1:%d", n)
		u, err := net.ListenPacket("udp", at)
		if err == nil {
			held = append(held, u)
			var l net.Listener
			if l, err = net.Listen("tcp", at); err == nil {
				err = l.Close()
			}
		}
		if err != nil {
			closeAll(held)
			return nil, false
		}
	}
	return held, true
}

func closeAll(all []io.Closer) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
