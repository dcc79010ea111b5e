package channel

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// notes holds the library's log lines about connections to other queue managers. They explain why a channel is not up.
// The zero value has none.
type notes struct {
	mu sync.Mutex
	at map[string]note // by HOST:PORT at the other end
}

type note struct {
	text string
	when time.Time
}

// Heard takes a line of the library about a leafnode. Such lines are of one of two forms:
//
//	Error trying to connect as leafnode to remote server "HOST:PORT" (attempt N): TEXT
//	HOST:PORT - lid:NUMBER - TEXT
func (n *notes) Heard(line string) {
	if rest, ok := strings.CutPrefix(line, "Error trying to connect as leafnode to remote server \""); ok {
		address, rest, _ := strings.Cut(rest, "\"")
		_, text, _ := strings.Cut(rest, "): ")
		if strings.Contains(text, "proxy CONNECT failed") { // which Channels.dial has noted
			return
		}
		n.put(address, "no queue manager answers there: "+text)
		return
	}
	address, rest, ok := strings.Cut(line, " - lid:")
	if !ok {
		return
	}
	_, text, _ := strings.Cut(rest, " - ")
	n.put(address, explainLeaf(text))
}

// explainLeaf explains a log line of the library.
func explainLeaf(text string) string {
	switch {
	case strings.Contains(text, "Loop detected"):
		return "it closes a loop of channels, and messages would go round; remove one channel of the loop"
	case strings.Contains(text, "maximum payload"), strings.Contains(text, "Maximum Payload"):
		return "the queue managers differ in how large a message may be (max_payload)"
	case strings.Contains(text, "Authorization Violation"), strings.Contains(text, "authentication"):
		return "the queue manager there refuses the identity of this one"
	case strings.Contains(text, "tls: "), strings.Contains(text, "TLS"):
		return "the handshake failed: " + strings.TrimPrefix(text, "TLS leafnode handshake error: ")
	}
	return text
}

func (n *notes) put(address, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil || len(n.at) >= maxChannelNotes {
		n.at = map[string]note{} // they are of passing interest
	}
	n.at[address] = note{text, time.Now()}
}

// of returns the newest note about a channel; empty if there is none.
//
// way is the address of the gate.ChannelProxy of the channel; "" if the library dials itself.
func (n *notes) of(c *Channel, way string) string {
	urls, err := c.urls()
	if err != nil {
		return err.Error()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var newest note
	for address, x := range n.at {
		host, port, err := net.SplitHostPort(address)
		if err != nil || time.Since(x.when) > channelNoteValidFor {
			continue
		}
		for _, u := range urls {
			named := net.ParseIP(u.Hostname()) == nil // its address is not known here
			if (address == way || u.Port() == port && (u.Hostname() == host || named)) && x.when.After(newest.when) {
				newest = x
			}
		}
	}
	if newest.text == "" {
		return fmt.Sprintf("nothing was heard from %s yet", c.URL)
	}
	return newest.text
}
