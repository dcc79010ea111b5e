package qmgr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/authority/authoritytest"
	"ferry/internal/identity"
	"ferry/internal/qmgr/roles"
)

// A queue manager behind a channel that subscribes to the files, answers and figures of two agents at the hub hears none of
// them.
func TestAChannelDoesNotCarryTheFilesOfOthers(t *testing.T) {
	noLeaks(t)
	a := authoritytest.New(t)
	hub := linked(t, a, "HUB")
	mallory := authoritytest.Identity(t, a, identity.Manager, "MALLORY", roles.Manager)
	control, err := leafOf(t, hub, mallory, mallory.JWTs().Channel)
	must(t, err)
	data, err := leafOf(t, hub, mallory, mallory.JWTs().ChannelData)
	must(t, err)
	alpha, beta := as(t, a, hub, "ALPHA"), as(t, a, hub, "BETA")
	var got [2]chan string
	for n, l := range []*leaf{control, data} {
		fmt.Fprint(l.conn, "LS+ ferry.data.BETA.ALPHA.>\r\nLS+ ferry.data.>\r\nLS+ ferry.reply.BETA.*\r\nLS+ ferry.reply.*.*\r\nLS+ ferry.inbox.ALPHA.>\r\nLS+ ferry.progress.*.*\r\nPING\r\n")
		got[n] = make(chan string, 1000)
		go func() {
			defer close(got[n])
			for {
				line, err := l.in.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "PONG") || strings.Contains(line, "MSG ") {
					got[n] <- strings.TrimSpace(line)
				}
			}
		}()
		for receive(t, "an answer of the queue manager", got[n]) != "PONG" {
		}
	}
	must(t, alpha.PublishData("ferry.data.BETA.ALPHA.x", []byte("a file")))
	must(t, alpha.Publish("ferry.reply.BETA.ALPHA", []byte("a reply")))
	must(t, beta.Publish("ferry.inbox.ALPHA.BETA.x", []byte("an answer")))
	must(t, beta.Publish("ferry.progress.BETA.bob", []byte("a figure")))
	for n, l := range []*leaf{control, data} {
		must(t, alpha.Healthy(testContext(t)))
		must(t, beta.Healthy(testContext(t)))
		fmt.Fprint(l.conn, "PING\r\n")
		for line := range got[n] {
			if line == "PONG" {
				break
			}
			t.Errorf("a queue manager behind a channel hears %q", line)
		}
	}
}

// placedAt is a statement of an identity that it is at a queue manager.
func placedAt(t *testing.T, i *identity.Identity, at string, when time.Time) json.RawMessage {
	t.Helper()
	x := identity.Place{At: at, Made: when.UnixMilli()}
	if i.Name().Role == identity.User {
		x.JWT = i.JWTs().User
	}
	signed, err := i.SignPlace(x)
	must(t, err)
	said, err := json.Marshal(signed)
	must(t, err)
	return said
}
