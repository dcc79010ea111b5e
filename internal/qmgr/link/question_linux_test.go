package link

import (
	"net"
	"testing"

	"ferry/internal/qmgr/qmgrtest"
)

// Bytes that the other host acknowledges are a movement, though nothing comes back.
func TestAcknowledgedBytesAreAMovement(t *testing.T) {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer in.Close()
	near, err := net.Dial("tcp", in.Addr().String())
	check(t, err)
	defer near.Close()
	far, err := in.Accept()
	check(t, err)
	defer far.Close()
	s := &Socket{Conn: near}
	before := s.movement()
	if s.movement() != before {
		t.Error("a movement without a byte")
	}
	_, err = near.Write(qmgrtest.Noise(1000))
	check(t, err)
	qmgrtest.Eventually(t, "the bytes are acknowledged", func() bool { return s.movement() != before })
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
