package peers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// server starts a server with enough of FTP to send one text unchanged.
func server(t *testing.T, text string) *Server {
	t.Helper()
	var at [2]net.Listener
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		at[i] = l
	}
	go func() {
		c, err := at[0].Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "220 ready\r\n")
		for s := bufio.NewScanner(c); s.Scan(); {
			switch word, _, _ := strings.Cut(s.Text(), " "); word {
			case "USER":
				fmt.Fprint(c, "230 in\r\n")
			case "TYPE":
				fmt.Fprint(c, "200 as you like\r\n")
			case "PASV":
				port := at[1].Addr().(*net.TCPAddr).Port
				fmt.Fprintf(c, "227 here (127,0,0,1,%d,%d).\r\n", port>>8, port&255)
			case "RETR":
				fmt.Fprint(c, "150 it comes\r\n")
				if d, err := at[1].Accept(); err == nil {
					fmt.Fprint(d, text)
					d.Close()
				}
			}
		}
	}()
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return &Server{Kind: FTPText, port: at[0].Addr().(*net.TCPAddr).Port, place: Place{Address: "127.0.0.1", Dial: dial}}
}

// A server that accepts ASCII mode and sends binary is detected.
func TestProveText(t *testing.T) {
	for text, good := range map[string]bool{"a\r\nb\r\n": true, "a\nb\n": false, "a\r\nb\n": false, "no line end": false} {
		if err := server(t, text).ProveText(t.Context(), "x"); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
