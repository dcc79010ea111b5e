package faulty

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/lane/lanetest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// lanes returns a network that consists of a courier.
func lanes(t *testing.T, lossy bool) lanetest.Network {
	c := NewCourier()
	t.Cleanup(c.Close)
	if lossy {
		c.Set(lose)
	}
	return lanetest.Network{
		Lane: func(from transfer.AgentName) lanetest.Lane { return c.Lane(from) },
		Listen: func(to transfer.AgentName, take func(transfer.AgentName, []byte)) {
			c.Attach(to, func(p *Parcel) { take(p.From, p.Data) })
		},
		Break: func() func() {
			c.Set(func(r *Rules) { r.Cut = true })
			return func() { c.Set(func(r *Rules) { r.Cut = false }) }
		},
		Lossy: lossy,
	}
}

// lose makes a courier lose one message in ten, and refuse one in fifty.
func lose(r *Rules) {
	rng := rand.New(rand.NewPCG(1, 2))
	r.Decide = func(*Parcel) Handling {
		switch rng.IntN(50) {
		case 0:
			return Handling{Fail: true}
		case 1, 2, 3, 4, 5:
			return Handling{Drop: true}
		}
		return Handling{}
	}
}

func TestCourierKeepsTheContract(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		lanetest.Test(t, func(t *testing.T) lanetest.Network { return lanes(t, false) })
	})
	t.Run("losing some", func(t *testing.T) {
		lanetest.Test(t, func(t *testing.T) lanetest.Network { return lanes(t, true) })
	})
	t.Run("before another lane", func(t *testing.T) {
		lanetest.Test(t, func(t *testing.T) lanetest.Network {
			n := lanes(t, false)
			next := n.Lane
			var mu sync.Mutex
			n.Lossy = true
			before := map[transfer.AgentName]*Courier{}
			n.Lane = func(from transfer.AgentName) lanetest.Lane {
				mu.Lock()
				defer mu.Unlock()
				if before[from] == nil {
					before[from] = Over(next(from))
					t.Cleanup(before[from].Close)
					before[from].Set(lose)
				}
				return before[from].Lane(from)
			}
			return n
		})
	})
}

// TestHandlings: each Handling has its effect on the messages of one sender.
func TestHandlings(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Handling
		want string // arriving messages of a, b and c; the Handling applies to b
	}{
		{"none", Handling{}, "abc"},
		{"drop", Handling{Drop: true}, "ac"},
		{"fail", Handling{Fail: true}, "ac"},
		{"copies", Handling{Copies: 2}, "abbbc"},
		{"delay", Handling{Delay: time.Second}, "acb"},
		{"swap", Handling{Swap: true}, "acb"},
		{"damage", Handling{Damage: Flip}, "arc"},
		{"also", Handling{Also: []Parcel{{From: "A", To: "B", Kind: Chunk, Data: []byte("x")}}}, "abxc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, got := NewCourier(), ""
				var mu sync.Mutex
				net.Attach("B", func(p *Parcel) {
					mu.Lock()
					defer mu.Unlock()
					got += string(p.Data)
				})
				net.Set(func(r *Rules) {
					r.Decide = func(p *Parcel) Handling {
						if p.N == 2 {
							return c.h
						}
						return Handling{}
					}
				})
				for _, m := range []string{"a", "b", "c"} {
					if err := net.Lane("A").Send("B", transfer.ID{}, []byte(m)); (err != nil) != (c.h.Fail && m == "b") {
						t.Errorf("%s: %v", m, err)
					}
				}
				<-time.After(time.Minute)
				net.Close()
				mu.Lock()
				defer mu.Unlock()
				if got != c.want {
					t.Errorf("%q has arrived, want %q", got, c.want)
				}
			})
		})
	}
}

// TestAmnesia: messages on their way are lost, and all earlier messages come again.
func TestAmnesia(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := NewCourier()
		var mu sync.Mutex
		var got []wire.Kind
		net.Attach("B", func(p *Parcel) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, p.Kind)
		})
		net.Set(func(r *Rules) { r.Keep = true })
		send := func() {
			m := &wire.Message{Kind: wire.KindCancel, Cancel: &wire.Cancel{}, From: "A", Transfer: transfer.ID{1}}
			if err := net.Line("A").Send("B", m); err != nil {
				t.Error(err)
			}
		}
		send()
		if lost := net.Forget(); lost != 1 {
			t.Errorf("%d messages were lost", lost)
		}
		<-time.After(time.Second)
		net.Replay()
		send()
		<-time.After(time.Second)
		net.Close()
		if len(got) != 2 || net.Count(wire.KindCancel) != 2 {
			t.Errorf("%v have arrived of %d", got, net.Count(wire.KindCancel))
		}
	})
}
