package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/automation/duty"
	"ferry/internal/client"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A counter is a duty that counts its commands, and submits the requests that it is given.
type counter struct {
	duty.Services
	running chan struct{}
	asked   chan transfer.Request
	done    chan *transfer.Progress
}

func (c *counter) Run(ctx context.Context) {
	close(c.running)
	for {
		select {
		case q := <-c.asked:
			p, err := c.Submit(word.Origin{Principal: "ann%40box"}, &q)
			if err != nil {
				c.Log.Error("cannot submit", "error", err)
			}
			c.done <- p
		case <-ctx.Done():
			return
		}
	}
}

func (c *counter) Commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{"count": {Needs: transfer.AuthMonitor, Do: func(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
		d := ledger.NamespaceOf(t, "counter")
		n, _ := strconv.Atoi(string(d.Get(who.Principal)))
		if err := d.Put(who.Principal, []byte(strconv.Itoa(n+1))); err != nil {
			return nil, err
		}
		if string(body) == `"too far"` {
			return nil, transfer.Errorf(transfer.KindUsage, "that is too far")
		}
		return n + 1, nil
	}}}
}

func (c *counter) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{"counted": {Answer: func(who duty.Caller, _ json.RawMessage) (n any, err error) {
		err = c.Ledger.View(func(t *ledger.Tx) error {
			n = string(ledger.NamespaceOf(t, "counter").Get(who.Principal))
			return nil
		})
		return n, err
	}}}
}

// A duty's command is done once however often it comes. A refused command leaves only its answer.
func TestDutiesAreDoneOnce(t *testing.T) {
	c := &counter{running: make(chan struct{}), asked: make(chan transfer.Request), done: make(chan *transfer.Progress, 1)}
	s := newScene(t, func(d duty.Services) (duty.Duty, error) { c.Services = d; return c, nil })
	<-c.running
	at := client.AtAgent{Client: &client.Client{Conn: s.stranger, Clock: clock.System, Timeout: patience}, Agent: "ALPHA"}
	counted := func() string {
		ans, err := at.Question(s.ctx, "counted", nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(ans.Body)
	}
	ans, err := at.Command(s.ctx, "count", "on")
	if err != nil || string(ans.Body) != "1" {
		t.Fatalf("counted %v, %v", ans, err)
	}
	again := wire.Marshal(wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: "count", Body: wire.Marshal("on")})
	for range 3 {
		s.enqueue(wire.ControlSubject("ALPHA", s.stranger.Self()), again)
	}
	if ans, err := at.Command(s.ctx, "count", "too far"); transfer.KindOf(err) != transfer.KindUsage { // which comes after those
		t.Fatalf("refused with %v, %v", ans, err)
	}
	if n := counted(); n != `"2"` {
		t.Errorf("counted %s", n)
	}
}

// A request from a duty is accepted once, for the principal that it names, in any size.
func TestDutiesSubmit(t *testing.T) {
	c := &counter{running: make(chan struct{}), asked: make(chan transfer.Request), done: make(chan *transfer.Progress, 1)}
	s := newScene(t, func(d duty.Services) (duty.Duty, error) { c.Services = d; return c, nil })
	large := request()
	for n := range 3000 {
		large.Items = append(large.Items, transfer.RequestItem{Source: transfer.File(transfer.Path("a file with a name " + strconv.Itoa(n)))})
	}
	for _, q := range []transfer.Request{request(), large} {
		for range 2 {
			c.asked <- q
			p := <-c.done
			if p == nil || p.ID != q.ID || p.Principal != "ann%40box" {
				t.Errorf("submitted: %+v", p)
			}
		}
	}
	s.settled()
}

// A queue that is full of requests of users has room for requests of duties, up to a number.
func TestDutiesHaveRoom(t *testing.T) {
	c := &counter{running: make(chan struct{}), asked: make(chan transfer.Request), done: make(chan *transfer.Progress, 1)}
	s := sceneOf(t, agent.Config{MaxQueued: 1, Duties: []duty.Maker{func(d duty.Services) (duty.Duty, error) { c.Services = d; return c, nil }}})
	s.submitted()
	busy, cancel := context.WithCancel(s.ctx)
	defer cancel()
	q := request()
	net := &client.Client{Conn: s.stranger, Clock: clock.System, Timeout: patience}
	if _, err := net.Submit(busy, &q, func(error) { cancel() }); err == nil {
		t.Fatal("a request of a user is accepted though the queue is full")
	}
	took := 0
	for range 102 {
		c.asked <- request()
		if p := <-c.done; p != nil {
			took++
		}
	}
	if took != 50 { // with the one that ann has submitted half of 101, rounded up
		t.Errorf("%d transfers of a duty are accepted", took)
	}
}

// Transfers that duties offer without end leave a tenth of the queue to users. They count in the shares of their
// makers.
func TestOffersLeaveRoom(t *testing.T) {
	desk := make(chan duty.Services, 1)
	c := &counter{running: make(chan struct{}), asked: make(chan transfer.Request), done: make(chan *transfer.Progress, 1)}
	s := sceneOf(t, agent.Config{MaxQueued: 20, Duties: []duty.Maker{func(d duty.Services) (duty.Duty, error) { c.Services = d; desk <- d; return c, nil }}})
	<-c.running
	d := <-desk
	var took []int
	for _, maker := range []string{"ann", "bob", "carl", "dora", "emma", "fred"} {
		n := 0
		for range 30 {
			q := request()
			if _, err := d.Offer(word.Origin{Principal: maker}, &q); err == nil {
				n++
			} else if transfer.KindOf(err) != transfer.KindBusy {
				t.Fatal(err)
			}
		}
		took = append(took, n)
	}
	if want := []int{9, 5, 2, 1, 1, 0}; !slices.Equal(took, want) {
		t.Errorf("of 20 places offers take %v, want %v", took, want)
	}
	s.submitted()
}

// A duty cancels a transfer that it has submitted, for any principal of the command. A second cancel of it succeeds,
// too.
func TestDutiesCancel(t *testing.T) {
	desk := make(chan duty.Services, 1)
	c := &counter{running: make(chan struct{}), asked: make(chan transfer.Request), done: make(chan *transfer.Progress, 1)}
	sceneOf(t, agent.Config{Duties: []duty.Maker{func(d duty.Services) (duty.Duty, error) { c.Services = d; desk <- d; return c, nil }}})
	<-c.running
	d, q := <-desk, request()
	if _, err := d.Offer(word.Origin{Principal: "ann%40box"}, &q); err != nil {
		t.Fatal(err)
	}
	if err := d.Cancel(word.Origin{Principal: "bob%40box"}, q.ID); err != nil {
		t.Fatal(err)
	}
	p, err := d.Status(q.ID)
	for err == nil && !p.State.Final() {
		p, err = d.Status(q.ID)
	}
	if err != nil || p.State != transfer.Cancelled {
		t.Errorf("it is %+v: %v", p, err)
	}
	if err := d.Cancel(word.Origin{Principal: "bob%40box"}, q.ID); err != nil {
		t.Errorf("cancelled twice: %v", err)
	}
}
