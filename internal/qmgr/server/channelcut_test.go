package server

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A batch that is in a channel when the channel ends goes again at once. The messages stay until then.
func TestABatchEndsWithItsChannel(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	enqueue(t, c, "ferry.command.A.b", "x")
	conn, err := net.Dial("tcp", s.Channels().Addr())
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(qmgrtest.Patience))
	in := bufio.NewReader(conn)
	until := func(word string) {
		t.Helper()
		for {
			line, err := in.ReadString('\n')
			must(t, err)
			if strings.HasPrefix(line, word) {
				return
			}
		}
	}
	until("INFO")
	_, err = fmt.Fprintf(conn, `CONNECT {"name":"MALLORY","server_id":"x","headers":true,"version":"2.15.2","protocol":1}`+"\r\nLS+ %s\r\nPING\r\n", wire.AllForwarded("MALLORY"))
	must(t, err)
	until("PONG")
	qmgrtest.Eventually(t, "the connection is seen", func() bool { now, _ := s.channels.Connected(); return len(now) == 1 })
	drained := make(chan error, 1)
	go func() { drained <- s.forwarder.Drain("A", "MALLORY") }()
	until("LMSG ferry.forward.")
	conn.Close()
	qmgrtest.WantKind(t, qmgrtest.Receive(t, "the end of the batch", drained), transfer.KindUnreachable, "has ended before it answered")
	if n := stored(t, s, streams.StreamCommand); n != 1 {
		t.Errorf("%d messages are left", n)
	}
}
