package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/wire"
)

// A queue manager that sends back the loop subject of another one does not end the channel of the other one.
func TestAPeerDoesNotPretendALoop(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	one := linked(t, a, "ONE")
	two := authoritytest.Identity(t, a, identity.Manager, "TWO", roles.Manager)
	l, err := leafOf(t, one, two, two.JWTs().Channel)
	must(t, err)
	three := linked(t, a, "THREE", to(one))
	running(t, three)
	made := three.Channels().List()[0].Made
	account, err := three.NS.LookupAccount(three.AccountName)
	must(t, err)
	loop := reflect.ValueOf(account).Elem().FieldByName("lds").String() // as a queue manager behind a channel of THREE could learn it
	if !strings.HasPrefix(loop, registrations.LoopSubject) {
		t.Fatalf("the loop subject of THREE is %q", loop)
	}
	heard := make(chan bool, 100)
	go func() {
		for {
			line, err := l.in.ReadString('\n')
			if err != nil {
				return
			}
			switch words := strings.Fields(line); {
			case strings.HasPrefix(line, "PING"):
				fmt.Fprint(l.conn, "PONG\r\n")
			case len(words) > 1 && words[0] == "LMSG" && words[1] == "ferry.reply.DELTA.GAMMA":
				heard <- true
			}
		}
	}()
	place := func(i *identity.Identity, token, at string) string {
		return message(wire.RegistrationSubject(token), placedAt(t, i, at, time.Now()))
	}
	// TWO has a registration at THREE, and THREE has none at TWO.
	_, err = fmt.Fprint(l.conn, place(two, wire.Manager, "ONE")+place(two, wire.Manager, "THREE")+place(authoritytest.Identity(t, a, identity.Agent, "DELTA", roles.Agent), "DELTA", "TWO")+
		"LS+ "+loop+"\r\nLS+ ferry.reply.DELTA.*\r\n")
	must(t, err)
	gamma := as(t, a, three, "GAMMA")
	qmgrtest.Eventually(t, "TWO hears the subject that it has named behind the loop subject", func() bool {
		must(t, gamma.Publish(wire.ReplySubject("DELTA", "GAMMA"), []byte("x")))
		return len(heard) > 0
	})
	if c := three.Channels().List()[0]; c.State != channel.ChannelRunning || c.Made != made {
		t.Errorf("the channel of THREE is %s (%s), and had %d connections, not %d", c.State, c.Reason, c.Made, made)
	}
}
