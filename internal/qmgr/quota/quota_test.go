package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

const mib = 1 << 20

// stockOf returns the Stock of an empty stream.
func stockOf(share Share, bytes, messages uint64) *Stock {
	return NewStock("the stream", share, Room{MaxBytes: bytes, MaxMessages: messages})
}

// fill publishes messages until one is refused, and returns how many were admitted.
func fill(t *testing.T, s *Stock, member, to string, size int) (n int) {
	t.Helper()
	for ; ; n++ {
		err := s.Admit(Message{Subject: "ferry.command." + to + "." + member, Member: member, Destination: to, Size: size})
		if err != nil {
			if transfer.KindOf(err) != transfer.KindNoSpace {
				t.Errorf("%s is refused with %v", member, err)
			}
			return n
		}
	}
}

// One member can use a ninth of a stream, by bytes and by messages, and another one finds room.
func TestAShareOfTheRoom(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 512*mib, 200_000)
	if n := fill(t, s, "eve", "NOSUCH", mib); n < 50 || n > 57 {
		t.Errorf("eve has stored %d messages of 1 MiB", n)
	}
	if n := fill(t, s, "eve", "OTHER", mib); n > 0 {
		t.Errorf("eve has stored %d more for another agent", n)
	}
	if n := fill(t, s, "bob", "NOSUCH", mib); n < 45 {
		t.Errorf("bob has room for %d messages of 1 MiB", n)
	}
	s = stockOf(Share{Member: 1, Destination: 16}, 512*mib, 200_000)
	if n := fill(t, s, "eve", "NOSUCH", 1); n < 22_000 || n > 22_300 {
		t.Errorf("eve has stored %d messages of a byte", n)
	}
}

// Twenty members together leave room for a twenty-first.
func TestManyMembersLeaveRoom(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 512*mib, 200_000)
	for round := range 2 { // all of them continue
		for n := range 20 {
			fill(t, s, fmt.Sprint("eve", n), fmt.Sprint("AGENT", n), 100_000)
		}
		if n := fill(t, s, fmt.Sprint("bob", round), "ALPHA", 64<<10); n < 70 {
			t.Errorf("bob has room for %d messages of 64 KiB", n)
		}
	}
}

// The messages for one agent, of many members, leave room for those for others.
func TestOneDestinationLeavesRoom(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 512*mib, 200_000)
	n := 0
	for i := range 100 {
		n += fill(t, s, fmt.Sprint("eve", i), "DOWN", mib)
	}
	if n > 345 {
		t.Errorf("%d MiB wait for one agent", n)
	}
	if n := fill(t, s, "bob", "ALPHA", mib); n < 16 {
		t.Errorf("bob has room for %d messages of 1 MiB for another agent", n)
	}
}

// The messages that one queue manager forwards, of many members for many agents, leave room for others.
func TestOneQueueManagerLeavesRoom(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16, Via: 4}, 512*mib, 200_000)
	from := func(via string, n int) error {
		member, to := fmt.Sprint("eve", n%1000), fmt.Sprint("AGENT", n%1000)
		return s.Admit(Message{Subject: "ferry.command." + to + "." + member, Member: member, Destination: to, Via: via, Size: mib})
	}
	n := 0
	for ; from("FAR", n) == nil; n++ {
	}
	if n < 165 || n > 175 {
		t.Errorf("%d messages of 1 MiB were taken of one queue manager", n)
	}
	for k := range 50 {
		if err := from("OTHER", 1000+k); err != nil {
			t.Error(err)
		}
	}
	if n := fill(t, s, "bob", "ALPHA", mib); n < 20 {
		t.Errorf("bob has room for %d messages of 1 MiB", n)
	}
	for range 2 { // all of them were read
		s.Look(Room{MaxBytes: 512 * mib, MaxMessages: 200_000}, nil)
	}
	if s.Held() || len(s.via) > 0 {
		t.Error("messages that were read are charged")
	}
	if err := from("FAR", 0); err != nil {
		t.Error(err)
	}
}

// A request of 16 MiB in 512 parts, its repeat, and 5,000 small requests of one member are no flood.
func TestLegitimateLoadIsAdmitted(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 512*mib, 200_000)
	for _, load := range []struct{ messages, size int }{{1024, 32 << 10}, {5000, 4 << 10}} {
		for n := range load.messages {
			if err := s.Admit(Message{Subject: "ferry.command.ALPHA.bob", Member: "bob", Destination: "ALPHA", Size: load.size}); err != nil {
				t.Fatalf("message %d of %d bytes: %v", n, load.size, err)
			}
		}
	}
}

// A look gives the room of messages that are gone back, oldest first. Messages that were admitted since the last look stay charged.
func TestALookGivesRoomBack(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 200*mib, 1000)
	const subject = "ferry.command.ALPHA.bob"
	put := func(size int) {
		t.Helper()
		if err := s.Admit(Message{Subject: subject, Member: "bob", Destination: "ALPHA", Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	look := func(left uint64) {
		s.Look(Room{MaxBytes: 200 * mib, MaxMessages: 1000}, map[string]uint64{subject: left})
	}
	held := func() uint64 {
		if s.members["bob"] == nil {
			return 0
		}
		return s.members["bob"].bytes / mib
	}
	put(1 * mib)
	put(2 * mib)
	put(3 * mib)
	if look(0); held() != 6 {
		t.Errorf("messages on their way are not charged: %d MiB are", held())
	}
	if look(2); held() != 5 {
		t.Errorf("of two messages that are left %d MiB are charged", held())
	}
	put(4 * mib)
	if look(1); held() != 7 {
		t.Errorf("of one message that is left, and one on its way, %d MiB are charged", held())
	}
	if look(7); held() != 7 {
		t.Errorf("messages that others have stored are charged: %d MiB", held())
	}
	if look(0); held() != 0 || len(s.subjects)+len(s.members)+len(s.to) != 0 || s.Held() {
		t.Errorf("a stream that is empty is held: %d MiB, %v", held(), s)
	}
}

// A look while messages are on their way to the stream makes no share larger: they take room that the stream does
// not report yet.
func TestALookDuringAFlood(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 512*mib, 200_000)
	alone := fill(t, s, "eve", "NOSUCH", mib)
	s.Look(Room{MaxBytes: 512 * mib, MaxMessages: 200_000}, nil)
	if n := fill(t, s, "eve", "OTHER", mib); n > 0 {
		t.Errorf("eve has %d messages of 1 MiB on their way, and %d more are admitted", alone, n)
	}
	if s.room.Messages != uint64(alone) || s.room.Bytes < uint64(alone)*mib {
		t.Errorf("%d messages on their way take the room of %d, %d MiB", alone, s.room.Messages, s.room.Bytes/mib)
	}
}

// A stream refuses the messages of a subject that has as many as it may. They are not charged, and do not lower the charge.
func TestMessagesBeyondASubjectAreNotCharged(t *testing.T) {
	s := NewStock("the stream", Share{Member: 1, Destination: 16}, Room{MaxBytes: 512 * mib, MaxMessages: 200_000, MaxPerSubject: 50})
	put := func(size int) {
		t.Helper()
		if err := s.Admit(Message{Subject: "ferry.command.ALPHA.eve", Member: "eve", Destination: "ALPHA", Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		put(10_000)
	}
	before := *s.members["eve"]
	for range 500 {
		put(100)
	}
	if got := *s.members["eve"]; got != before || got.messages != 50 || s.room.Messages != 50 {
		t.Errorf("after messages that are refused %+v is charged, not %+v", got, before)
	}
	for range 50 { // the agent has read the others meanwhile
		put(20_000)
	}
	if got := *s.members["eve"]; got.messages != 50 || got.bytes < 50*20_000 {
		t.Errorf("after larger messages %+v is charged", got)
	}
}

// The number of subjects is no reason for a refusal. An agent that stores many small transfers has a subject for each.
func TestASubjectForEachTransfer(t *testing.T) {
	s := stockOf(Share{Member: 8, Destination: 16}, 8<<30, 1<<17)
	for n := range 5_000 {
		if err := s.Admit(Message{Subject: fmt.Sprint("ferry.store.BETA.GAMMA.", n, ".1"), Member: "GAMMA", Destination: "BETA", Size: 2_000}); err != nil {
			t.Fatalf("transfer %d: %v", n, err)
		}
	}
}

// The messages of a stream bound its books.
func TestBooksAreBounded(t *testing.T) {
	s := stockOf(Share{Member: 1, Destination: 16}, 512*mib, 9_000)
	var err error
	for n := 0; err == nil; n++ {
		err = s.Admit(Message{Subject: fmt.Sprint("ferry.command.NOSUCH", n, ".eve"), Member: "eve", Destination: fmt.Sprint("NOSUCH", n), Size: 1})
	}
	if n := len(s.subjects); n != 1_000 || !strings.Contains(err.Error(), "of 1000 messages in the stream, the most that one may have") {
		t.Errorf("eve has messages for %d agents: %v", n, err)
	}
	p := NewPace(Rate{Messages: 1, Bytes: 1, Burst: time.Second})
	now := time.Unix(1, 0)
	for n := range 3 * mostMembers {
		now = now.Add(time.Second)
		p.Take(fmt.Sprint("eve", n), 1, now)
	}
	if len(p.members) > mostMembers {
		t.Errorf("%d members have a rate", len(p.members))
	}
}

// A stream without limits admits everything.
func TestAStreamWithoutLimits(t *testing.T) {
	s := stockOf(Share{Member: 1}, 0, 0)
	for range 100 {
		if err := s.Admit(Message{Subject: "a", Member: "eve", Destination: "ALPHA", Size: 1 << 30}); err != nil {
			t.Fatal(err)
		}
	}
}

// A member publishes a burst at once, and continues at its rate. Another one is not delayed by that.
func TestPace(t *testing.T) {
	p := NewPace(Rate{Messages: 100, Bytes: 1000, Burst: 2 * time.Second})
	now := time.Unix(1, 0)
	for n := range 200 {
		if wait := p.Take("eve", 1, now); wait > 0 {
			t.Fatalf("message %d waits for %s", n, wait)
		}
	}
	if wait := p.Take("eve", 1, now); wait != 10*time.Millisecond {
		t.Errorf("the next one waits for %s", wait)
	}
	if wait := p.Take("eve", 1000, now); wait != 1010*time.Millisecond {
		t.Errorf("a large one waits for %s", wait)
	}
	if wait := p.Take("bob", 1000, now); wait > 0 {
		t.Errorf("another member waits for %s", wait)
	}
	now = now.Add(time.Minute)
	for n := range 200 {
		if wait := p.Take("eve", 1, now); wait > 0 {
			t.Fatalf("message %d waits for %s a minute later", n, wait)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	s := stockOf(Share{Member: 1, Destination: 16}, 0, 0)
	n := 0
	for b.Loop() {
		if s.Admit(Message{Subject: "ferry.command.ALPHA.bob", Member: "bob", Destination: "ALPHA", Size: 1000}); n%1000 == 0 {
			s.Look(Room{}, nil)
			s.Look(Room{}, nil)
		}
		n++
	}
}
