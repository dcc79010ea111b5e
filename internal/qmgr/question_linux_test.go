package qmgr

import (
	"net"
	"testing"

	"ferry/internal/qmgr/qmgrtest"
)

// Bytes that the other host acknowledges are a movement, though nothing comes back.
func TestAcknowledgedBytesAreAMovement(t *testing.T) {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer in.Close()
	near, err := net.Dial("tcp", in.Addr().String())
	must(t, err)
	defer near.Close()
	far, err := in.Accept()
	must(t, err)
	defer far.Close()
	s := &socket{Conn: near}
	before := s.movement()
	if s.movement() != before {
		t.Error("a movement without a byte")
	}
	_, err = near.Write(noise(1000))
	must(t, err)
	qmgrtest.Eventually(t, "the bytes are acknowledged", func() bool { return s.movement() != before })
}
