// Package lanetest tests the contract of a lane, which carries chunk messages from one agent to another. Every lane
// passes it, and a faulty one as far as its faults allow.
//
// A lane delivers the messages of one transfer in the order of sending, unchanged, to the addressed agent, and names
// their sender. Or it loses some messages, which shows as a gap in their sequence. It does not use a message after Send
// returns, and never changes a message after delivery.
package lanetest

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A Lane sends chunk messages of an agent.
type Lane interface {
	Send(to transfer.AgentName, id transfer.ID, message []byte) error
}

// A Network connects lanes: messages on a lane of one agent arrive at the listener of another.
type Network struct {
	Lane   func(from transfer.AgentName) Lane
	Listen func(to transfer.AgentName, take func(from transfer.AgentName, message []byte))
	// Break separates all agents until mend is called. Meanwhile Send may fail or lose messages, but does not block.
	// Nil: the network has no such fault.
	Break func() (mend func())
	// Lossy means that messages may get lost at any time, but are not duplicated or reordered.
	Lossy bool
	// Largest is the greatest length of a message in bytes; 0: unlimited.
	Largest int
}

const (
	alpha transfer.AgentName = "ALPHA"
	beta  transfer.AgentName = "BETA"
	gamma transfer.AgentName = "GAMMA.X" // a name that is not its own token
)

// patience is the time limit for an arrival on a busy host.
const patience = 90 * time.Second

// Test tests the contract on a network. open makes a new network.
func Test(t *testing.T, open func(t *testing.T) Network) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, n Network)
	}{
		{"in order", inOrder}, {"as they were sent", asSent}, {"to their destinations", addressed},
		{"many at once", manyAtOnce}, {"parted", parted},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// An inbox keeps the arrived messages.
type inbox struct {
	mu   sync.Mutex
	got  []letter
	more chan struct{}
}

type letter struct {
	from    transfer.AgentName
	message []byte
}

func listen(n Network, to transfer.AgentName) *inbox {
	b := &inbox{more: make(chan struct{}, 1)}
	n.Listen(to, func(from transfer.AgentName, message []byte) {
		b.mu.Lock()
		b.got = append(b.got, letter{from, message})
		b.mu.Unlock()
		select {
		case b.more <- struct{}{}:
		default:
		}
	})
	return b
}

func (b *inbox) all() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]letter(nil), b.got...)
}

// until waits until enough messages have arrived.
func (b *inbox) until(t *testing.T, what string, enough func([]letter) bool) {
	t.Helper()
	late := time.After(patience)
	for !enough(b.all()) {
		select {
		case <-b.more:
		case <-late:
			t.Fatalf("%s does not arrive; %d messages have", what, len(b.all()))
		}
	}
}

func id(k byte) transfer.ID { return transfer.ID{k, 6: 0x70, 8: 0x80} }

// message returns a message with a number and a length. Each of its bytes depends on both.
func message(transfer byte, seq uint64, size int) []byte {
	m := make([]byte, max(size, 9))
	m[0] = transfer
	binary.BigEndian.PutUint64(m[1:], seq)
	for i := 9; i < len(m); i++ {
		m[i] = byte(uint64(i)*7 + seq + uint64(transfer))
	}
	return m
}

// check compares the arrived messages of one transfer with the sent ones: none invented, none twice, and none out of
// order. It returns the last number.
func check(t *testing.T, got []letter, of byte, size func(seq uint64) int, lossy bool) (last uint64) {
	t.Helper()
	for _, l := range got {
		if len(l.message) < 9 || l.message[0] != of {
			continue
		}
		seq := binary.BigEndian.Uint64(l.message[1:])
		switch {
		case seq <= last:
			t.Fatalf("message %d of transfer %d comes after message %d", seq, of, last)
		case seq != last+1 && !lossy:
			t.Fatalf("message %d of transfer %d comes after message %d, and nothing was to be lost", seq, of, last)
		case !bytes.Equal(l.message, message(of, seq, size(seq))):
			t.Fatalf("message %d of transfer %d is not the one that was sent", seq, of)
		}
		last = seq
	}
	return last
}

// send sends one message. If messages may get lost, a refused one counts as lost.
func (n Network) send(t *testing.T, l Lane, to transfer.AgentName, of byte, m []byte) {
	t.Helper()
	if err := l.Send(to, id(of), m); err != nil && !n.Lossy {
		t.Errorf("a message is not taken: %v", err)
	}
}

// flush sends messages with numbers from seq on until one has arrived: a lane that loses messages may lose the last
// ones.
func (n Network) flush(t *testing.T, b *inbox, l Lane, to transfer.AgentName, of byte, seq uint64, size int) {
	t.Helper()
	has := func(got []letter) bool {
		for _, x := range got {
			if len(x.message) >= 9 && x.message[0] == of && binary.BigEndian.Uint64(x.message[1:]) >= seq {
				return true
			}
		}
		return false
	}
	if !n.Lossy {
		n.send(t, l, to, of, message(of, seq, size))
		b.until(t, "the last message", has)
		return
	}

	late := time.After(patience)
	for k := seq; !has(b.all()); k++ {
		n.send(t, l, to, of, message(of, k, size))
		select {
		case <-b.more:
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatal("nothing arrives any more")
		}
	}
}

func small(uint64) int { return 50 }

func inOrder(t *testing.T, n Network) {
	b, l := listen(n, beta), n.Lane(alpha)
	const many = 2000
	for seq := uint64(1); seq < many; seq++ {
		n.send(t, l, beta, 1, message(1, seq, 50))
	}
	n.flush(t, b, l, beta, 1, many, 50)
	check(t, b.all(), 1, small, n.Lossy)
}

// asSent uses one buffer for all messages, as a sender does, and examines the arrived messages only at the end.
func asSent(t *testing.T, n Network) {
	b, l := listen(n, beta), n.Lane(alpha)
	size := func(seq uint64) int {
		size := []int{9, 40, 4096, 70_000, 500_000}[seq%5]
		if n.Largest > 0 {
			size = min(size, n.Largest)
		}
		return size
	}
	buf := make([]byte, 500_000)
	const many = 40
	for seq := uint64(1); seq < many; seq++ {
		m := buf[:copy(buf, message(1, seq, size(seq)))]
		n.send(t, l, beta, 1, m)
		for i := range m {
			m[i] = 0xEE
		}
	}

	n.flush(t, b, l, beta, 1, many, 9)
	late := func(seq uint64) int {
		if seq >= many {
			return 9
		}
		return size(seq)
	}
	check(t, b.all(), 1, late, n.Lossy)
}

func addressed(t *testing.T, n Network) {
	inboxes := map[transfer.AgentName]*inbox{}
	for _, name := range []transfer.AgentName{alpha, beta, gamma} {
		inboxes[name] = listen(n, name)
	}

	of := byte(0)
	type pair struct{ from, to transfer.AgentName }
	sent := map[byte]pair{}
	for from := range inboxes {
		for to := range inboxes {
			if of++; from != to {
				sent[of] = pair{from, to}
				n.flush(t, inboxes[to], n.Lane(from), to, of, 1, 50)
			}
		}
	}

	for name, b := range inboxes {
		for _, l := range b.all() {
			if p := sent[l.message[0]]; p.to != name || p.from != l.from {
				t.Errorf("%s was given a message that %s sent to %s, as from %s", name, p.from, p.to, l.from)
			}
		}
	}
}

func manyAtOnce(t *testing.T, n Network) {
	b := listen(n, beta)
	var wg sync.WaitGroup
	const transfers, many = 8, 300
	for k := range byte(transfers) {
		from := []transfer.AgentName{alpha, gamma}[k%2]
		wg.Go(func() {
			l := n.Lane(from)
			for seq := uint64(1); seq < many; seq++ {
				n.send(t, l, beta, k+1, message(k+1, seq, 200))
			}
		})
	}

	wg.Wait()
	for k := range byte(transfers) {
		n.flush(t, b, n.Lane([]transfer.AgentName{alpha, gamma}[k%2]), beta, k+1, many, 200)
	}

	for k := range byte(transfers) {
		check(t, b.all(), k+1, func(uint64) int { return 200 }, n.Lossy)
	}
}

// parted breaks the network in the middle. Messages sent meanwhile are refused or lost, and Send does not block.
// Afterwards messages arrive again, in order.
func parted(t *testing.T, n Network) {
	if n.Break == nil {
		return
	}

	b, l := listen(n, beta), n.Lane(alpha)
	n.flush(t, b, l, beta, 1, 1, 50)
	mend := n.Break()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seq := uint64(1000); seq < 1100; seq++ {
			l.Send(beta, id(1), message(1, seq, 50))
		}
	}()

	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Send blocks while the network is parted")
	}

	mend()
	lossy := n
	lossy.Lossy = true
	lossy.flush(t, b, l, beta, 1, 5000, 50)
	if last := check(t, b.all(), 1, small, true); last < 5000 {
		t.Errorf("the last that arrived is %d", last)
	}
}
