package monitor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A queue is the application queue ORDERS, in memory.
type queue struct {
	mu    sync.Mutex
	mark  string // empty: there is no such queue
	away  bool   // the queue manager is
	all   []wire.QueueMessage
	last  uint64
	grown func() // once, before messages are counted
}

func (q *queue) put(group string, last bool) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	m := wire.QueueMessage{Number: q.last, Writer: "bob", Group: group, Size: 5, Header: map[string]string{}}
	if last {
		m.Header[wire.HeaderLast] = "true"
	}
	q.all = append(q.all, m)
	return q.last
}

func (q *queue) check(name transfer.QueueName, mark string) error {
	switch {
	case q.away:
		return transfer.Errorf(transfer.KindUnreachable, "the queue manager is away")
	case q.mark == "" || name != "ORDERS":
		return transfer.Errorf(transfer.KindMissing, "there is no queue %s", name)
	case mark != "" && mark != q.mark:
		return transfer.Errorf(transfer.KindConflict, "the queue was made anew")
	}
	return nil
}

func (q *queue) in(s *wire.QueueSpan) (all []wire.QueueMessage) {
	for _, m := range q.all {
		subject := wire.QueueSubject(s.Queue, m.Writer, m.Group)
		if m.Group == "" {
			subject = wire.QueueSubject(s.Queue, m.Writer, wire.NoGroup)
		}
		if ok, _ := path.Match(s.Filter(), subject); ok && m.Number >= s.First && (s.Last == 0 || m.Number <= s.Last) {
			all = append(all, m)
		}
	}
	return all
}

func (q *queue) Show(_ context.Context, name transfer.QueueName) (wire.QueueView, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	v := wire.QueueView{Queue: name, Mark: q.mark, Messages: uint64(len(q.all))}
	if len(q.all) > 0 {
		v.Last = q.last // which may be that of a message that is gone
	}
	return v, q.check(name, "")
}

func (q *queue) Groups(_ context.Context, of wire.QueueSpan) (all []wire.QueueGroup, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	by := map[string]*wire.QueueGroup{}
	for _, m := range q.in(&of) {
		if m.Group == "" {
			continue
		}
		if by[m.Group] == nil {
			by[m.Group] = &wire.QueueGroup{Writer: m.Writer, Group: m.Group}
		}
		g := by[m.Group]
		g.Messages, g.Last, g.Complete = g.Messages+1, m.Number, m.Header[wire.HeaderLast] == "true"
	}
	for _, g := range by {
		all = append(all, *g)
	}
	return all, q.check(of.Queue, of.Mark)
}

func (q *queue) Count(_ context.Context, of wire.QueueSpan) (n, bytes uint64, err error) {
	q.mu.Lock()
	grown := q.grown
	q.grown = nil
	q.mu.Unlock()
	if grown != nil {
		grown()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n = uint64(len(q.in(&of)))
	return n, 5 * n, q.check(of.Queue, of.Mark)
}

// A monitor neither reads messages nor reserves them.
func (q *queue) Reader(wire.QueueSpan, int) wire.QueuePieces { panic("a monitor reads no message") }

func (q *queue) Hold(context.Context, wire.QueueSpan, transfer.ID) error {
	return transfer.Errorf(transfer.KindInternal, "a monitor holds no message")
}

func (q *queue) Renew(context.Context, transfer.QueueName, transfer.ID) error {
	return transfer.Errorf(transfer.KindInternal, "a monitor holds no message")
}

func (q *queue) Release(context.Context, transfer.QueueName, transfer.ID) error {
	return transfer.Errorf(transfer.KindInternal, "a monitor holds no message")
}

func (q *queue) Take(_ context.Context, of wire.QueueSpan) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	gone := q.in(&of)
	q.all = slices.DeleteFunc(q.all, func(m wire.QueueMessage) bool {
		return slices.ContainsFunc(gone, func(o wire.QueueMessage) bool { return o.Number == m.Number })
	})
	return q.check(of.Queue, of.Mark)
}

// OnQueue returns a definition for ORDERS.
func OnQueue(kind string, change ...func(*Definition)) *Definition {
	return files(append([]func(*Definition){func(d *Definition) {
		d.Dir, d.Match, d.Condition.Kind, d.Request.Dest = queueAt("queue:ORDERS"), "", kind, transfer.File("in/")
	}}, change...)...)
}

// carry ends the running transfers: each takes exactly the messages of its source. It returns their numbers.
func (b *bench) carry(removes bool, state transfer.State) (all []uint64) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.order {
		if b.states[id] != nil {
			continue
		}
		b.states[id] = &transfer.Progress{ID: id, State: state, Ended: time.Now()}
		q := b.asked[id]
		a, err := placequeue.Chosen(q.Items[0].Source, q.Items[0].Picked)
		b.must(err)
		if len(q.Items) != 1 || a.Picked.Messages == 0 || q.Base != "" {
			b.t.Errorf("a transfer of %+v", q.Items)
		}
		span := wire.QueueSpan{Queue: a.Queue, Mark: a.Picked.Mark, Writer: a.Picked.Writer, Group: a.Group, First: a.After + 1, Last: a.Picked.Last}
		b.queue.mu.Lock()
		sent := b.queue.in(&span)
		b.queue.mu.Unlock()
		if uint64(len(sent)) != a.Picked.Messages {
			b.t.Errorf("%s names %d messages, and %d are there", q.Items[0].Source, a.Picked.Messages, len(sent))
		}
		if state != transfer.Successful {
			continue
		}
		b.states[id].Files = 1
		for _, m := range sent {
			all = append(all, m.Number)
		}
		if removes {
			b.must(b.queue.Take(b.t.Context(), span))
		}
	}
	return all
}

// Messages are sent once: the messages that have arrived together, and with --delete-source the remaining ones.
func TestQueueNotEmpty(t *testing.T) {
	for _, removes := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.create(OnQueue("", func(d *Definition) {
				if removes {
					d.Request.Disposition = transfer.DispositionDelete
				}
			}), false)
			pass(3 * time.Second)
			b.expect("[]")
			b.queue.put("", false)
			b.queue.put("g", false)
			pass(2 * time.Second)
			b.queue.put("", false) // while the transfer is running: the message of the next one
			pass(10 * time.Second)
			if got := fmt.Sprint(b.carry(removes, transfer.Successful)); got != "[1 2]" {
				t.Fatalf("the first transfer has messages %s", got)
			}
			pass(2 * time.Second)
			if got := fmt.Sprint(b.carry(removes, transfer.Successful)); got != "[3]" {
				t.Fatalf("the second transfer has messages %s", got)
			}
			pass(time.Minute)
			if got := b.carry(removes, transfer.Successful); got != nil {
				t.Fatalf("a third transfer has messages %v", got)
			}
			b.queue.mu.Lock()
			b.queue.mark, b.queue.all, b.queue.last = "two", nil, 0
			b.queue.mu.Unlock()
			b.queue.put("", false) // of another queue of that name
			pass(2 * time.Second)
			if got := fmt.Sprint(b.carry(removes, transfer.Successful)); got != "[1]" {
				t.Fatalf("of the queue that was made anew it has %s", got)
			}
		})
	}
}

// Messages that arrive while others are counted belong to the next transfer.
func TestQueueGrowsMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(OnQueue(ConditionNotEmpty), false)
		b.queue.put("", false)
		b.queue.mu.Lock()
		b.queue.grown = func() { b.queue.put("", false) }
		b.queue.mu.Unlock()
		pass(2 * time.Second)
		if got := fmt.Sprint(b.carry(false, transfer.Successful)); got != "[1]" {
			t.Fatalf("the first transfer has messages %s", got)
		}
		pass(2 * time.Second)
		if got := fmt.Sprint(b.carry(false, transfer.Successful)); got != "[2]" {
			t.Fatalf("the second transfer has messages %s", got)
		}
	})
}

// Each complete group is a transfer of its own.
func TestQueueGroups(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(OnQueue(ConditionGroup, func(d *Definition) {
			d.Request.Dest = transfer.File("in/${QueueName}-${GroupId{toUpper}}-${FileSize}")
			d.Request.Job = "${FileName}"
		}), false)
		b.queue.put("a", false)
		b.queue.put("b", false)
		b.queue.put("b", true)
		b.queue.put("", false)
		pass(2 * time.Second)
		if q := b.last(); q.Dest.Path != "in/ORDERS-B-10" || q.Job != "ORDERS" || q.Base != "" {
			t.Errorf("the request is %+v", q)
		}
		b.queue.put("a", true)
		b.queue.put("c", true)
		pass(10 * time.Second)
		if got := fmt.Sprint(b.carry(true, transfer.Successful)); got != "[2 3 1 5 6]" {
			t.Errorf("the transfers have messages %s", got)
		}
		pass(time.Minute)
		if n := len(b.sent()); n != 3 {
			t.Errorf("%d groups were sent", n)
		}
		b.queue.put("b", true) // a group of that name once more
		pass(2 * time.Second)
		if got := fmt.Sprint(b.carry(true, transfer.Successful)); got != "[7]" {
			t.Errorf("the last transfer has messages %s", got)
		}
	})
}

// Messages with failed transfers trigger again, ten times. Then they stay, and the audit log has a record. Other
// messages are sent.
func TestQueueRetries(t *testing.T) {
	for _, kind := range []string{ConditionNotEmpty, ConditionGroup} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.create(OnQueue(kind, func(d *Definition) { d.Request.Disposition = transfer.DispositionDelete }), false)
			b.queue.put("g", true)
			for n := range 11 {
				pass(maxRetryPause + time.Minute)
				if n == 10 {
					b.queue.put("h", true) // which has failed never
				}
				b.carry(true, transfer.Failed)
				if pass(900 * time.Millisecond); b.tried() != n+1 {
					t.Errorf("%s: the next transfer came at once", kind)
				}
			}
			pass(maxRetryPause + time.Minute)
			if got := b.tried(); got != 12 {
				t.Fatalf("%s: %d transfers were tried", kind, got)
			}
			notes := b.noted()
			if len(notes) == 0 || !strings.Contains(notes[len(notes)-1].Text, "the messages stay in the queue") {
				t.Errorf("%s: on record is %+v", kind, notes)
			}
			if s := b.shown(); s.Refused != 1 {
				t.Errorf("%s: refused are %d triggers", kind, s.Refused)
			}
			if got := fmt.Sprint(b.carry(true, transfer.Successful)); got != "[2]" {
				t.Errorf("%s: then it has sent %s", kind, got)
			}
			b.must(b.as("ann", CommandClear, Named{Name: "m"}))
			pass(2 * time.Second)
			if got := fmt.Sprint(b.carry(true, transfer.Successful)); got != "[1]" {
				t.Errorf("%s: cleared it has sent %s", kind, got)
			}
		})
	}
}

// A transfer is not made again if it was cancelled, or if some of its messages have arrived.
func TestQueueCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(OnQueue(ConditionNotEmpty), false)
		b.queue.put("", false)
		pass(2 * time.Second)
		b.carry(false, transfer.Cancelled)
		pass(time.Minute)
		if b.tried() != 1 {
			t.Errorf("%d transfers", b.tried())
		}
	})
}

// A monitor reports the reason why it cannot read the queue, and continues.
func TestQueueAway(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(OnQueue(ConditionNotEmpty), false)
		for _, away := range []func(on bool){
			func(on bool) { b.queue.away = on },
			func(on bool) { b.queue.mark = map[bool]string{false: "one"}[on] },
			func(on bool) { b.set(func() { b.denied[transfer.AuthSource] = on }) },
		} {
			b.queue.mu.Lock()
			away(true)
			b.queue.mu.Unlock()
			pass(3 * time.Second)
			if s := b.shown(); s.State != StateWaiting || s.Problem == nil {
				t.Errorf("the monitor is %s: %v", s.State, s.Problem)
			}
			b.queue.mu.Lock()
			away(false)
			b.queue.mu.Unlock()
			n := b.queue.put("", false)
			pass(3 * time.Second)
			if got := b.carry(false, transfer.Successful); len(got) != 1 || got[0] != n {
				t.Errorf("it has sent %v, not %d", got, n)
			}
			pass(time.Second)
		}
	})
}

func TestQueueDefinitions(t *testing.T) {
	for why, change := range map[string]func(*Definition){
		"is of directories":        func(d *Definition) { d.Condition.Kind = ConditionMatch },
		"no patterns":              func(d *Definition) { d.Match = "*" },
		"no batch of 2":            func(d *Definition) { d.Batch = 2 },
		"finds out itself":         func(d *Definition) { d.Dir = queueAt("queue:ORDERS?group=g") },
		"queue name":               func(d *Definition) { d.Dir = queueAt("queue:a b") },
		"an option":                func(d *Definition) { d.Dir = queueAt("queue:ORDERS?colour=red") },
		"no variable GroupId":      func(d *Definition) { d.Request.Dest = transfer.File("${GroupId}") },
		"no variable LastModified": func(d *Definition) { d.Request.Dest = transfer.File("${LastModifiedDate}") },
	} {
		if err := OnQueue(ConditionNotEmpty, change).Check(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q is not why: %v", why, err)
		}
	}
	if err := files(func(d *Definition) { d.Condition.Kind = ConditionGroup }).Check(); err == nil || !strings.Contains(err.Error(), "of queues") {
		t.Errorf("a directory with groups: %v", err)
	}
	d := OnQueue("")
	if err := d.Check(); err != nil || d.Condition.Kind != ConditionNotEmpty {
		t.Errorf("the condition is %s, %v", d.Condition, err)
	}
}

// Each message is sent by one successful transfer, after any failures of transfers and of the agent.
func TestQueueModel(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 9))
				b := newBench(t)
				b.start()
				defer func() { b.end() }()
				kind, removes := []string{ConditionNotEmpty, ConditionGroup}[r.IntN(2)], r.IntN(2) == 0
				b.create(OnQueue(kind, func(d *Definition) {
					d.Poll = transfer.Duration(10 * time.Second)
					if removes {
						d.Request.Disposition = transfer.DispositionDelete
					}
				}), false)
				sent, want := map[uint64]int{}, uint64(0)
				note := func(all []uint64) {
					for _, n := range all {
						sent[n]++
					}
				}
				for range 60 {
					switch r.IntN(6) {
					case 0, 1:
						for range 1 + r.IntN(3) {
							want = b.queue.put(fmt.Sprintf("g%d", want), true)
						}
					case 2:
						note(b.carry(removes, transfer.Successful))
					case 3:
						if r.IntN(3) == 0 {
							b.carry(removes, transfer.Failed)
						}
					case 4:
						b.fault.at.Store(b.fault.calls.Load() + 1 + r.Int64N(3))
						b.fault.late.Store(r.IntN(2) == 0)
						pass(30 * time.Second)
						b.crash()
						b.start()
					case 5:
						pass(time.Duration(r.IntN(30_000)) * time.Millisecond)
					}
				}
				for range 4 {
					pass(maxRetryPause + time.Minute)
					note(b.carry(removes, transfer.Successful))
				}
				for n := range want {
					if sent[n+1] != 1 {
						t.Errorf("message %d of %d was sent %d times (%s, removed: %v)", n+1, want, sent[n+1], kind, removes)
					}
				}
			})
		})
	}
}

func queueAt(p transfer.Path) transfer.Location {
	return transfer.Location{Place: transfer.Queues, Path: p}
}
