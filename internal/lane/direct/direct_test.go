package direct_test

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"ferry/internal/lane/direct"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func two(t *testing.T, change func(*direct.Config)) (*world, *hub, *hub) {
	w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
	return w, w.add("ALPHA", change), w.add("BETA", change)
}

func open(t *testing.T, from, to *hub, k byte) (*direct.Lane, error) {
	t.Helper()
	return from.Open(t.Context(), id(k), "BETA", to.Offer(id(k), "ALPHA"), 0)
}

func mustOpen(t *testing.T, from, to *hub, k byte) *direct.Lane {
	t.Helper()
	l, err := open(t, from, to, k)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func send(t *testing.T, l *direct.Lane, k byte, seq uint64) {
	t.Helper()
	if err := l.Send(framed(id(k), 1, seq, []byte("x"))); err != nil {
		t.Fatal(err)
	}
}

func TestOnePathCarriesAllTransfersOfAPair(t *testing.T) {
	_, a, b := two(t, nil)
	for k := byte(1); k <= 5; k++ {
		send(t, mustOpen(t, a, b, k), k, 1)
	}
	b.got(t, 5)
	if a.dialled() != 1 {
		t.Errorf("%d connections for five transfers", a.dialled())
	}
	// The same connection serves the other direction.
	ctx := t.Context()
	l, err := b.Open(ctx, id(9), "ALPHA", a.Offer(id(9), "BETA"), 0)
	if err != nil {
		t.Fatal(err)
	}
	send(t, l, 9, 1)
	if got := a.got(t, 1); got[0].from != "BETA" || b.dialled() != 0 {
		t.Errorf("from %s, and BETA dialled %d times", got[0].from, b.dialled())
	}
}

func TestAWrongTokenIsNotLetIn(t *testing.T) {
	_, a, b := two(t, nil)
	for what, change := range map[string]func(*wire.Direct){
		"another transfer's": func(d *wire.Direct) { d.Token = b.Offer(id(2), "ALPHA").Token },
		"another agent's":    func(d *wire.Direct) { d.Token = b.Offer(id(1), "GAMMA").Token },
		"made up":            func(d *wire.Direct) { d.Token = strings.Repeat("00", 32) },
		"too short":          func(d *wire.Direct) { d.Token = "00" },
		"no hex":             func(d *wire.Direct) { d.Token = strings.Repeat("zz", 32) },
	} {
		offer := b.Offer(id(1), "ALPHA")
		change(offer)
		a.clock.forward(time.Hour)
		if l, err := a.Open(t.Context(), id(1), "BETA", offer, 0); err == nil {
			t.Errorf("%s: let in: %v", what, l)
		} else if transfer.KindOf(err) != transfer.KindUnreachable {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestConnectingTakesLongerWhereAnswersDo: a peer answers slowly because its link is slow or full. The first packet of
// a connection waits for the link as well.
func TestConnectingTakesLongerWhereAnswersDo(t *testing.T) {
	var most time.Duration // that the last connection had
	_, a, b := two(t, func(cfg *direct.Config) {
		cfg.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			end, _ := ctx.Deadline()
			most = max(most, time.Until(end))
			return nil, errors.New("no way there")
		}
	})
	for _, c := range []struct{ took, above, below time.Duration }{
		{0, 0, 3 * time.Second},
		{time.Second, 3 * time.Second, 7 * time.Second},
		{time.Hour, 7 * time.Second, 8 * time.Second},
	} {
		most = 0
		a.clock.forward(time.Hour)
		if _, err := a.Open(t.Context(), id(1), "BETA", b.Offer(id(1), "ALPHA"), c.took); transfer.KindOf(err) != transfer.KindUnreachable {
			t.Fatal(err)
		}
		if most <= c.above || most > c.below {
			t.Errorf("where an answer took %s, connecting may take %s", c.took, most)
		}
	}
}

func TestATokenDiesWithItsTransfer(t *testing.T) {
	_, a, b := two(t, nil)
	offer := b.Offer(id(1), "ALPHA")
	b.setOver(id(1), true)
	if _, err := a.Open(t.Context(), id(1), "BETA", offer, 0); err == nil {
		t.Error("the token of a transfer that is over is taken")
	}
}

func TestMessagesOfATransferWithoutItsTokenAreDropped(t *testing.T) {
	_, a, b := two(t, nil)
	send(t, mustOpen(t, a, b, 1), 1, 1)
	b.got(t, 1)
	// The path is up, but messages of a transfer with the token of another one are dropped.
	offer := b.Offer(id(2), "ALPHA")
	offer.Token = b.Offer(id(1), "ALPHA").Token
	l, err := a.Open(t.Context(), id(2), "BETA", offer, 0)
	if err != nil {
		t.Fatal(err)
	}
	send(t, l, 2, 1)
	// Messages of another transfer on a lane are dropped, too.
	good := mustOpen(t, a, b, 1)
	if err := good.Send(framed(id(3), 1, 1, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	send(t, good, 1, 2)
	for _, l := range b.got(t, 2) {
		h, _ := wire.PeekHeader(l.m)
		if h.Transfer != id(1) {
			t.Errorf("a message of transfer %s was taken", h.Transfer)
		}
	}
}

// A transfer that was refused once is admitted when it is opened again on the same path. It was refused for a token of
// the peer's last run, or because it was not running yet.
func TestARefusedTransferIsLetInWhenItIsOpenedAgain(t *testing.T) {
	refuse := map[string]func(b *hub, offer *wire.Direct){
		"an old token": func(b *hub, offer *wire.Direct) { offer.Token = b.Offer(id(3), "ALPHA").Token },
		"not going on": func(b *hub, _ *wire.Direct) { b.setOver(id(2), true) },
	}
	for what, refused := range refuse {
		_, a, b := two(t, nil)
		send(t, mustOpen(t, a, b, 1), 1, 1)
		b.got(t, 1)
		offer := b.Offer(id(2), "ALPHA")
		refused(b, offer)
		l, err := a.Open(t.Context(), id(2), "BETA", offer, 0)
		if err != nil {
			t.Fatal(what, err)
		}
		send(t, l, 2, 1)
		send(t, mustOpen(t, a, b, 1), 1, 2)
		if got := b.got(t, 2); len(got) != 2 {
			t.Fatalf("%s: %d messages are taken", what, len(got))
		}
		b.setOver(id(2), false)
		send(t, mustOpen(t, a, b, 2), 2, 1)
		if h, _ := wire.PeekHeader(b.got(t, 3)[2].m); h.Transfer != id(2) {
			t.Errorf("%s: a message of transfer %s was taken", what, h.Transfer)
		}
	}
}

func TestOnlyThePinnedCertificateIsAccepted(t *testing.T) {
	_, a, b := two(t, func(c *direct.Config) { c.Mode = wire.DirectTLS })
	offer := b.Offer(id(1), "ALPHA")
	offer.Pin = a.Offer(id(1), "BETA").Pin
	if _, err := a.Open(t.Context(), id(1), "BETA", offer, 0); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("another certificate: %v", err)
	}
	a.clock.forward(time.Hour)
	if _, err := open(t, a, b, 1); err != nil {
		t.Fatal(err)
	}
}

func TestItIsTLS13(t *testing.T) {
	_, _, b := two(t, func(c *direct.Config) { c.Mode = wire.DirectTLS })
	_, err := tls.Dial("tcp", b.Addresses()[0], &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		t.Fatal("TLS 1.2 is spoken")
	}
}

func TestModesMustAgree(t *testing.T) {
	w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
	a := w.add("ALPHA", func(c *direct.Config) { c.Mode = wire.DirectTLS })
	b := w.add("BETA", nil)
	if _, err := open(t, a, b, 1); err == nil || a.dialled() != 0 {
		t.Fatalf("plain and TLS meet: %v, %d dialled", err, a.dialled())
	}
}

// R30: a network that drops packets costs one time-out, not one for each file. A new run of the peer is tried at once.
func TestABlackHoleCostsOneTimeOut(t *testing.T) {
	w, a, b := two(t, func(c *direct.Config) {
		if c.Agent == "ALPHA" {
			c.Listen = ""
		}
	})
	a.setWall(true)
	for k := byte(1); k <= 20; k++ {
		if _, err := open(t, a, b, k); err == nil {
			t.Fatal("through the wall")
		}
	}
	if a.dialled() != 1 {
		t.Fatalf("dialled %d times", a.dialled())
	}
	a.setWall(false)
	if _, err := open(t, a, b, 1); err == nil {
		t.Fatal("it was tried again at once")
	}
	a.clock.forward(time.Minute)
	if _, err := open(t, a, b, 1); err != nil {
		t.Fatalf("not tried again: %v", err)
	}
	b.Close()
	until(t, "the path ends", func() bool {
		b = w.add("BETA", nil)
		defer b.Close()
		_, err := open(t, a, b, 1)
		return err == nil
	})
}

// If connections are possible in one direction only, the destination dials.
func TestTheDestinationDialsWhereTheSourceCannot(t *testing.T) {
	_, a, b := two(t, nil)
	a.setWall(true)
	if _, err := open(t, a, b, 1); err == nil {
		t.Fatal("through the wall")
	}
	if !a.Wants("BETA") {
		t.Fatal("the source does not ask to be dialled")
	}
	theirs := a.Offer(id(2), "BETA")
	theirs.Dial = true
	b.Meet(id(2), "ALPHA", theirs)
	l := mustOpen(t, a, b, 2)
	send(t, l, 2, 1)
	if got := b.got(t, 1); got[0].from != "ALPHA" {
		t.Errorf("from %s", got[0].from)
	}
}

func TestTheDestinationDialsWhereItDoesNotListen(t *testing.T) {
	_, a, b := two(t, func(c *direct.Config) {
		if c.Agent == "BETA" {
			c.Listen = ""
		}
	})
	b.Meet(id(1), "ALPHA", a.Offer(id(1), "BETA"))
	send(t, mustOpen(t, a, b, 1), 1, 1)
	b.got(t, 1)
}

func TestNeitherListens(t *testing.T) {
	_, a, b := two(t, func(c *direct.Config) { c.Listen = "" })
	if _, err := open(t, a, b, 1); transfer.KindOf(err) != transfer.KindUnreachable {
		t.Fatal(err)
	}
}

// A path that the peer does not dial costs its time-out only once.
func TestAPeerThatDoesNotDialIsNotWaitedForAgain(t *testing.T) {
	_, a, b := two(t, nil)
	a.setWall(true)
	for k := byte(1); k <= 20; k++ {
		if _, err := open(t, a, b, k); err == nil {
			t.Fatal("through the wall")
		}
	}
	if a.Wants("BETA") {
		t.Error("the source still asks to be dialled")
	}
}

func TestABrokenPathIsNoticedAndReplaced(t *testing.T) {
	_, a, b := two(t, nil)
	l := mustOpen(t, a, b, 1)
	send(t, l, 1, 1)
	b.got(t, 1)
	a.cutAll(t, l)
	if err := l.Send(framed(id(1), 1, 2, nil)); transfer.KindOf(err) != transfer.KindUnreachable {
		t.Errorf("sending on a broken lane: %v", err)
	}
	send(t, mustOpen(t, a, b, 1), 1, 2)
	b.got(t, 2)
}

// A path that was silent for a while is checked before it is used. A path with a dead other end is closed.
func TestASilentPathIsNotUsedAgain(t *testing.T) {
	_, a, b := two(t, nil)
	relay, stop := relayTo(t, b.Addresses()[0])
	offer := func(k byte) *wire.Direct {
		d := b.Offer(id(k), "ALPHA")
		d.Addresses = append([]string{relay}, d.Addresses...)
		return d
	}
	l, err := a.Open(t.Context(), id(1), "BETA", offer(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	stop() // the network swallows everything from now on
	a.clock.forward(10 * time.Second)
	if _, err := a.Open(t.Context(), id(2), "BETA", offer(2), 0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	default:
		t.Error("the silent path is still there")
	}
	if a.dialled() != 3 { // the relay twice: the second time it forwards no connection
		t.Errorf("dialled %d times", a.dialled())
	}
}

// relayTo passes bytes on until stop. Then it drops them, and accepts no connection.
func relayTo(t *testing.T, address string) (at string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	t.Cleanup(func() { l.Close() })
	pass := func(from, to net.Conn) {
		b := make([]byte, 4096)
		for {
			n, err := from.Read(b)
			if err != nil {
				to.Close()
				return
			}
			select {
			case <-gone:
			default:
				to.Write(b[:n])
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			go pass(in, out)
			go pass(out, in)
		}
	}()
	return l.Addr().String(), func() { close(gone); l.Close() }
}

func TestUnidentifiedConnectionsAreClosed(t *testing.T) {
	_, a, b := two(t, nil)
	for what, say := range map[string]string{
		"http":      "GET / HTTP/1.1\r\n\r\n",
		"huge":      "\xff\xff\xff\xff\x05",
		"a chunk":   "\x00\x00\x00\x01\x05x",
		"bad hello": "\x00\x00\x00\x02\x01{}",
		"no json":   "\x00\x00\x00\x02\x01xx",
	} {
		c, err := net.Dial("tcp", b.Addresses()[0])
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte(say))
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, errTimeout) {
			t.Errorf("%s: %d bytes, %v", what, n, err)
		}
		c.Close()
	}
	mustOpen(t, a, b, 1)
}

var errTimeout = context.DeadlineExceeded

// Connections without a HELLO do not keep out connections with a token, in any number.
func TestUnidentifiedConnectionsDoNotBlockOthers(t *testing.T) {
	_, a, b := two(t, nil)
	for range 600 {
		c, err := net.Dial("tcp", b.Addresses()[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	send(t, mustOpen(t, a, b, 1), 1, 1)
	b.got(t, 1)
}

func TestOffersSayWhereAndHow(t *testing.T) {
	w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
	a := w.add("ALPHA", func(c *direct.Config) {
		c.Mode, c.Addresses = wire.DirectTLS, []string{"files.example.com:0", "192.0.2.1:99"}
	})
	d := a.Offer(id(1), "BETA")
	if pin, err := hex.DecodeString(d.Pin); err != nil || len(pin) != 32 || d.Mode != "tls" {
		t.Errorf("%+v", d)
	}
	if len(d.Addresses) != 2 || strings.HasSuffix(d.Addresses[0], ":0") || d.Addresses[1] != "192.0.2.1:99" {
		t.Errorf("port 0 stands for the one that was found: %v", d.Addresses)
	}
}

func TestWrongSettings(t *testing.T) {
	for what, c := range map[string]direct.Config{
		"mode":        {Agent: "ALPHA", Mode: "ssh"},
		"connections": {Agent: "ALPHA", Mode: "plain", Connections: 17},
		"buffer":      {Agent: "ALPHA", Mode: "plain", Options: tcp.Options{SendBuffer: -1}},
		"address":     {Agent: "ALPHA", Mode: "plain", Listen: "nowhere.invalid:1"},
		"told":        {Agent: "ALPHA", Mode: "plain", Addresses: []string{"files.example.com"}},
	} {
		if h, err := direct.New(c); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s: %v %v", what, h, err)
		}
	}
}

// A hub that moves is reached at its new address, and no longer at the old one.
func TestAHubMoves(t *testing.T) {
	_, a, b := two(t, nil)
	before := b.Addresses()[0]
	if _, err := b.Move("127.0.0.2:0", nil); err != nil {
		t.Fatal(err)
	}
	if now := b.Addresses(); len(now) != 1 || !strings.HasPrefix(now[0], "127.0.0.2:") || strings.HasSuffix(now[0], ":0") {
		t.Errorf("it is told at %v", now)
	}
	if c, err := net.Dial("tcp", before); err == nil {
		c.Close()
		t.Errorf("it still listens at %s", before)
	}
	send(t, mustOpen(t, a, b, 1), 1, 1)
	b.got(t, 1)
	if _, err := b.Move("203.0.113.1:0", nil); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("moving to an address of another host: %v", err)
	}
	send(t, mustOpen(t, a, b, 2), 2, 1)
	b.got(t, 2)
}

// A path that seems alive is not used once the peer announces another address: messages to the old one may all be lost.
func TestAPathToAnotherPlaceIsNotTaken(t *testing.T) {
	_, a, b := two(t, nil)
	send(t, mustOpen(t, a, b, 1), 1, 1)
	b.got(t, 1)
	if _, err := b.Move("127.0.0.2:0", nil); err != nil {
		t.Fatal(err)
	}
	for k := byte(2); k < 4; k++ {
		send(t, mustOpen(t, a, b, k), k, 1)
		b.got(t, int(k))
		if a.dialled() != 2 {
			t.Errorf("dialled %d times", a.dialled())
		}
	}
}

// If a peer announces another address that cannot be reached, and has not left the old one, the old path is used.
func TestAPathToAnotherPlaceThatAnswers(t *testing.T) {
	_, a, b := two(t, nil)
	send(t, mustOpen(t, a, b, 1), 1, 1)
	b.got(t, 1)
	if lost, err := b.Move("127.0.0.2:0", nil); err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
	a.setWall(true)
	send(t, mustOpen(t, a, b, 2), 2, 1)
	b.got(t, 2)
}

// If the source cannot dial and has moved, the destination dials it again, even if its old path seems alive.
func TestAMovedSourceIsDialledAnew(t *testing.T) {
	_, a, b := two(t, nil)
	a.setWall(true)
	for k := byte(1); k <= 2; k++ {
		theirs := a.Offer(id(k), "BETA")
		theirs.Dial = true
		b.Meet(id(k), "ALPHA", theirs)
		until(t, "BETA dials", func() bool { return b.dialled() == int(k) })
		send(t, mustOpen(t, a, b, k), k, 1)
		b.got(t, int(k))
		if _, err := a.Move("127.0.0.2:0", nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A hub that moves to its present address keeps its listener, announces the given addresses, and ends no path.
func TestAHubThatStays(t *testing.T) {
	_, a, b := two(t, nil)
	l := mustOpen(t, a, b, 1)
	for _, told := range []string{"192.0.2.7:0", "192.0.2.8:0"} {
		lost, err := b.Move("127.0.0.1:0", []string{told})
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		if now := b.Addresses(); len(now) != 1 || !strings.HasPrefix(now[0], strings.TrimSuffix(told, "0")) || strings.HasSuffix(now[0], ":0") {
			t.Errorf("it is told at %v", now)
		}
	}
	send(t, l, 1, 1)
	b.got(t, 1)
	if _, err := b.Move("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	a.cutAll(t, l)
	send(t, mustOpen(t, a, b, 2), 2, 1)
	b.got(t, 2)
}
