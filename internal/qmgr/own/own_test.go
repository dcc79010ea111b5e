package own

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// A busyServer answers a connection within its process after a time.
type busyServer time.Duration

func (b busyServer) InProcessConn() (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		<-time.After(time.Duration(b))
		if _, err := fmt.Fprint(server, `INFO {"server_id":"A","proto":1,"max_payload":1024}`+"\r\n"); err != nil {
			return
		}
		for lines := bufio.NewScanner(server); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "PING") {
				fmt.Fprint(server, "PONG\r\n")
			}
		}
	}()
	return client, nil
}

// A queue manager waits up to a minute for its own answer, since silence within its process means only that the host is
// busy. Then it gives up.
func TestAQueueManagerWaitsForItself(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		there bool
	}{
		{0, true},
		{50 * time.Second, true},
		{time.Minute + time.Second, false},
	} {
		t.Run(c.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, err := Connect(busyServer(c.after), nats.NoReconnect())
				if err == nil {
					nc.Close()
				}
				if there := err == nil; there != c.there {
					t.Errorf("connected: %v, %v", there, err)
				}
			})
		})
	}
}
