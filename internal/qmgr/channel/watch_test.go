package channel

import (
	"log/slog"
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/qmgrtest"
)

// A silent channel is connected anew, also where the library is in the middle of making a connection, and refuses another
// one for so long.
func TestChannelIsRenewedDuringAConnect(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conns := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := listener.Accept() // a peer that says nothing
			if err != nil {
				return
			}
			conns <- c
		}
	}()

	ending := make(chan struct{})
	c, err := OpenAll(Config{Name: "TWO", Dir: t.TempDir(), Channels: []Channel{{Name: "ONE", URL: "nats://" + listener.Addr().String()}}, Ending: ending, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c.Opts = &server.Options{ServerName: "TWO", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	if err := c.Leafnodes(c.Opts); err != nil {
		t.Fatal(err)
	}
	if c.NS, err = server.NewServer(c.Opts); err != nil {
		t.Fatal(err)
	}
	c.NS.Start()
	defer c.NS.Shutdown()
	conn := qmgrtest.Receive(t, "the first connection", conns)
	for c.renew("ONE") == nil { // the library had not begun to wait for a word of the peer
		conn.Close()
		conn = qmgrtest.Receive(t, "the next connection", conns)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.Watch()
	}()
	conn.Close()
	qmgrtest.Receive(t, "another connection", conns).Close()
	close(ending)
	<-watched
}
