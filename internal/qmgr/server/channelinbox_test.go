package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A peer that hears the inbox of a question cannot answer for the queue manager, or the agent, that was asked: the
// matrix of TestWhatAChannelPasses has these inboxes. A queue manager that ONE or ALPHA has asked learns no inbox for
// the answers of another queue manager. Otherwise it could answer for the other one. Then ONE would drop requests that
// were never forwarded, and ALPHA would lose chunk messages that were never stored.
func TestAQueueManagerDoesNotAnswerForAnother(t *testing.T) {
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	secret := func(inbox string) string { return strings.Split(inbox+"....", ".")[4] }
	known := map[string]string{} // by the secret: the question that contained it
	learn := func(what, inbox string) {
		t.Helper()
		if _, _, ok := wire.ReadInbox(inbox); !ok {
			t.Fatalf("%s wants its answer on %q", what, inbox)
		}
		if other, ok := known[secret(inbox)]; ok {
			t.Errorf("%s and %s have one secret", what, other)
		}
		known[secret(inbox)] = what
	}
	for _, name := range []string{"TWO", "THREE"} {
		i := authoritytest.Identity(t, a, identity.Manager, name, roles.Manager)
		l, err := leafOf(t, s, i, i.JWTs().Channel)
		must(t, err)
		_, err = fmt.Fprintf(l.conn, "LS+ ferry.forward.%s.*\r\n", name)
		must(t, err)
		for question := []string{""}; question[0] != "LMSG"; { // for the registrations that it knows
			line, err := l.in.ReadString('\n')
			must(t, err)
			if question = strings.Fields(line); len(question) == 4 {
				learn("a question to "+name, question[2])
			}
		}
	}

	alpha, all := as(t, a, s, "ALPHA"), trusted(t, s)
	asked := make(chan *nats.Msg, 16)
	for _, subject := range []string{"ferry.ask.*.ALPHA", "ferry.data.*.ALPHA.*"} {
		nc := controlOf(all)
		if strings.HasPrefix(subject, "ferry.data.") {
			nc = dataOf(all)
		}
		_, err := nc.ChanSubscribe(subject, asked)
		must(t, err)
		must(t, nc.FlushTimeout(qmgrtest.Patience))
	}
	learn("a question of ALPHA to its queue manager", alpha.NewInbox(wire.Manager))
	for _, of := range []string{"GAMMA", "authority"} {
		go alpha.Request(t.Context(), wire.AskSubject(of, "ALPHA"), []byte("x"), time.Minute)
		m := qmgrtest.Receive(t, "a question of ALPHA", asked)
		for m.Subject != wire.AskSubject(of, "ALPHA") {
			m = qmgrtest.Receive(t, "a question of ALPHA", asked)
		}
		learn("a question of ALPHA to "+of, m.Reply)
	}
	store := qmgr.StoreOf(alpha, "ALPHA")
	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	for _, at := range []string{"TWO", "THREE"} {
		store.Put(at, sh.Subject(), []byte("x"))
		_, inbox, _, err := errands.ReadRemoteMessage(qmgrtest.Receive(t, "a message that is to be stored", asked).Data)
		must(t, err)
		learn("a message of ALPHA to be stored at "+at, inbox)
	}
	if known[strings.Split(controlOf(alpha).NewInbox(), ".")[4]] != "" {
		t.Error("a question names the secret of the library's inboxes")
	}
}

// A queue manager sees the inbox of each question that passes it. It cannot hear the answers of a queue manager behind
// it there: they may come another way. It hears the answers of other queue managers, which it has asked.
func TestAPeerDoesNotHearAnswersOfItsOwnSide(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	two := into(t, s, authoritytest.Identity(t, a, identity.Manager, "TWO", roles.Manager))
	four := authoritytest.Identity(t, a, identity.Manager, "FOUR", roles.Manager)
	inbox := func(answerer string) string {
		return wire.InboxSubject(wire.Manager, answerer, qmgrtest.Secret, 1)
	}
	for _, of := range []string{"store-TWO", "store-THREE", "store-FOUR", "*", "store-*"} {
		two.control.say("LS+ ferry.inbox.qmgr.%s.%s.*\r\n", of, qmgrtest.Secret)
	}
	c := trusted(t, s)
	hears := func(want ...string) {
		t.Helper()
		for _, of := range []string{"store-TWO", "store-FOUR", "authority", "store-THREE"} {
			must(t, c.Publish(inbox(of), []byte("an answer")))
		}
		heard := two.control.heard(inbox("store-THREE"))
		for subject := range heard {
			if !strings.HasPrefix(subject, "ferry.inbox.") {
				delete(heard, subject)
			}
		}
		if len(heard) != len(want) || len(want) > 0 && !heard[want[0]] {
			t.Errorf("TWO hears %v, and not %v", heard, want)
		}
	}
	hears(inbox("store-FOUR"))
	two.control.say("%s", message(wire.RegistrationSubject(wire.Manager), placedAt(t, four, "TWO", time.Now())))
	hears()
}

// No channel carries the inbox of a question to a queue manager, which answers the clients beside it alone. An agent that
// reads stored data asks several times a second. Each inbox was two packets on each channel of the network.
func TestInboxesOfAQueueManagerPassNoChannel(t *testing.T) {
	a := authoritytest.New(t)
	two := authoritytest.Identity(t, a, identity.Manager, "TWO", roles.Manager)
	for _, dials := range []bool{false, true} {
		t.Run(fmt.Sprintf("dials=%t", dials), func(t *testing.T) {
			var peer *hostile
			var s *Server
			if dials {
				peer, s = under(t, a, two, "ONE")
			} else {
				s = linked(t, a, "ONE")
				peer = into(t, s, two)
			}
			alpha := controlOf(as(t, a, s, "ALPHA"))
			var marker string
			for n, answerer := range []string{wire.Manager, wire.Up, wire.Coordination} { // the last one passes
				marker = wire.InboxSubject("ALPHA", answerer, qmgrtest.Secret, uint64(n))
				_, err := alpha.SubscribeSync(marker)
				must(t, err)
			}
			must(t, alpha.FlushTimeout(qmgrtest.Patience))
			for subject := ""; subject != marker; {
				subject = qmgrtest.Receive(t, "the subscription of "+marker, peer.control.wants)
				if _, of, ok := wire.ReadInbox(subject); ok && (of == wire.Manager || of == wire.Up) {
					t.Errorf("the channel carries the subscription of %s", subject)
				}
			}
		})
	}
}
