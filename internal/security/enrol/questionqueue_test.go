package enrol

import (
	"fmt"
	"slices"
	"testing"

	"ferry/internal/qmgr"
	"ferry/internal/wire"
)

// questionOf is a question of a member.
func questionOf(member string, o op, n int) qmgr.Message {
	return qmgr.Message{Subject: wire.AskSubject(wire.Authority, member), Reply: fmt.Sprint(member, " ", o, " ", n), Data: fmt.Appendf(nil, `{"v":1,"op":%q}`, o)}
}

// Members take turns, and administration comes before renewals. One member has a bounded number of questions.
func TestMembersTakeTurns(t *testing.T) {
	q := newQuestionQueue()
	taken := 0
	for n := range 10 * maxPerMember {
		if q.add(questionOf("eve", opRenew, n)) {
			taken++
		}
	}
	if taken != maxPerMember {
		t.Errorf("%d questions of eve wait", taken)
	}
	for _, m := range []qmgr.Message{questionOf("bob", opTrust, 0), questionOf("bob", opRenew, 1), questionOf("root", opRevoke, 0)} {
		if !q.add(m) {
			t.Errorf("%s is refused", m.Reply)
		}
	}
	var got []string
	for range 6 {
		m, _ := q.next()
		got = append(got, m.Reply)
		q.done(m)
	}
	if want := []string{"root revoke 0", "eve renew 0", "bob trust 0", "eve renew 1", "bob renew 1", "eve renew 2"}; !slices.Equal(got, want) {
		t.Errorf("the order is %q", got)
	}
	for n := range 4 {
		if ok := q.add(questionOf("eve", opRenew, 100+n)); ok != (n < 3) {
			t.Errorf("question %d after three answers: %v", n, ok)
		}
	}
	q.end()
	for m, ok := q.next(); ok; m, ok = q.next() {
		q.done(m)
	}
	if q.all+len(q.held)+q.first.Speakers()+q.second.Speakers() != 0 {
		t.Errorf("left over: %+v", q)
	}
}

// A member that asks for administration without end does not hold up renewals.
func TestRenewalsComeBesideAdministration(t *testing.T) {
	q := newQuestionQueue()
	for n := range maxPerMember {
		q.add(questionOf("eve", opRevoke, n))
	}
	q.add(questionOf("bob", opRenew, 0))
	for n := range maxPerMember {
		m, _ := q.next()
		q.done(m)
		if wire.LastToken(m.Subject) == "bob" {
			return
		}
		q.add(questionOf("eve", opRevoke, maxPerMember+n))
	}
	t.Errorf("%d questions of eve come before the renewal of bob", maxPerMember)
}
