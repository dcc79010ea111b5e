package errands

import (
	"testing"
	"time"

	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// TestPipesOfAUserAreCounted holds that a user has a limited number of pipes with readers, and that pipes that have
// ended, or asked long ago, do not count.
func TestPipesOfAUserAreCounted(t *testing.T) {
	var b pipeCount
	now := time.Unix(1_800_000_000, 0)
	pipe := func(user string, n int) transfer.AgentName {
		return transfer.StreamAgentOf(user, transfer.ID{14: byte(n >> 8), 15: byte(n)})
	}
	for n := range 10 * pipesOfUser {
		if err := b.enter(pipe("bob", n), now); err != nil {
			t.Fatal(err)
		}
		b.leave(pipe("bob", n))
	}
	if len(b.of) != 0 {
		t.Errorf("pipes that have ended are counted: %d users", len(b.of))
	}
	for n := range pipesOfUser {
		for range 2 { // the reader of requests and that of cancels
			if err := b.enter(pipe("bob", n), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.enter(pipe("bob", pipesOfUser), now.Add(PipeIdle)); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("pipe %d of a user: %v", pipesOfUser+1, err)
	}
	if err := b.enter(pipe("bob", 3), now.Add(PipeIdle)); err != nil {
		t.Errorf("a pipe that is counted asks again: %v", err)
	}
	if err := b.enter(pipe("alice", 0), now); err != nil {
		t.Errorf("another user: %v", err)
	}
	b.leave(pipe("bob", 5))
	if err := b.enter(pipe("bob", pipesOfUser), now.Add(PipeIdle)); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	if err := b.enter(pipe("bob", pipesOfUser+1), now.Add(PipeIdle+time.Second)); err != nil {
		t.Errorf("after %s: %v", PipeIdle, err)
	}
	if n := len(b.of[pipe("bob", 0).StreamUser()]); n != 3 {
		t.Errorf("%d pipes are counted, want 3", n)
	}
}

// TestErrandsOfQueuesNameTheirPrincipal holds that the queue manager checks the rules for the principal of an agent's
// errand, and that a refusal waits.
func TestErrandsOfQueuesNameTheirPrincipal(t *testing.T) {
	type question struct {
		principal string
		right     transfer.Authority
		agent     transfer.AgentName
		path      string
	}
	var asked []question
	r := NewRegistrar("a test", nil)
	defer r.Close()
	allows := Rules(func(principal string, right transfer.Authority, agent transfer.AgentName, path string) error {
		asked = append(asked, question{principal, right, agent, path})
		if principal != "bob" {
			return transfer.Errorf(transfer.KindDenied, "no rule gives it")
		}
		return nil
	})
	for _, x := range []struct {
		do     string
		before int
		right  transfer.Authority
	}{
		{streams.QueueRead, 0, transfer.AuthSource}, {streams.QueueCount, 0, transfer.AuthSource}, {streams.QueueFind, 0, transfer.AuthSource}, {streams.QueueHold, 0, transfer.AuthSource},
		{streams.QueueTake, 0, transfer.AuthDeleteSource}, {streams.QueuePublish, 0, transfer.AuthDest},
		{streams.QueuePublish, 3, ""}, {streams.QueueShow, 0, ""}, {streams.QueueReceipt, 0, ""}, {streams.QueueSettle, 0, ""}, {streams.QueueRenew, 0, ""}, {streams.QueueRelease, 0, ""},
	} {
		for _, y := range []struct {
			asker, principal string
			may              Rules
			want             transfer.Kind
		}{
			{"ALPHA", "bob", allows, transfer.KindNone},
			{"ALPHA", "eve", allows, transfer.KindBusy},
			{"ALPHA", "", allows, transfer.KindDenied},
			{"ALPHA", "", nil, transfer.KindNone},
			{"coordination", "", allows, transfer.KindNone},
		} {
			want := y.want
			if x.right == "" {
				want = transfer.KindNone
			}
			asked, r.May = nil, y.may
			task := &streams.QueueTask{Do: x.do, Before: x.before, For: y.principal}
			task.Span.Queue = "ORDERS"
			if err := r.permits(y.asker, task); transfer.KindOf(err) != want {
				t.Errorf("%s asks for %q for %q: %v, want %v", y.asker, x.do, y.principal, err, want)
			}
			if x.right != "" && y.principal != "" && (len(asked) != 1 || asked[0] != question{y.principal, x.right, "ALPHA", "/queue:ORDERS"}) {
				t.Errorf("%q is asked as %+v", x.do, asked)
			}
		}
	}
}
