//go:build !linux

package tcp

import "net"

func quickAck(*net.TCPConn) error { return nil }
