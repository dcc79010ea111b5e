package protocol_test

import (
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestASourceFollowsAMovedDestination changes the address of a destination, which tells its sources at once. Messages
// to the old address are lost without an error.
func TestASourceFollowsAMovedDestination(t *testing.T) {
	for _, begun := range []bool{true, false} {
		bubble(t, setup{settings: transfer.Settings{CheckpointInterval: 1}}, func(w *world) {
			w.change(func(w *world) { w.place = "192.0.2.1:5000" })
			w.slow(50 * time.Millisecond)
			data := map[string][]byte{"in/a": content(1, 30<<20), "in/b": content(2, 1000)}
			w.write(data)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
			w.want(id, transfer.Successful, "out", data)
			w.until(time.Minute, "the transfer is accepted", func() bool { return w.incoming(id) != nil })
			if begun {
				pass(time.Second)
			}
			w.change(func(w *world) { w.place = "192.0.2.2:5000" })
			w.dst.living().recv.Moved([]transfer.AgentName{srcName})
			w.finish(time.Minute)
			if n := w.source(id).Nonce; n != 1 {
				w.t.Errorf("the source asked %d times, as the destination was silent", n)
			}
			p := w.source(id).Progress
			if p.Resumes != 1 {
				w.t.Errorf("%d resumes", p.Resumes)
			}
			if p.Lane != transfer.LaneDirect {
				w.t.Errorf("it ended by the lane %s", p.Lane)
			}
		})
	}
}

// TestASourceAsksAMovedDestinationToDial moves the destination to an address that the source cannot dial. The source
// asks again, so that the destination dials.
func TestASourceAsksAMovedDestinationToDial(t *testing.T) {
	bubble(t, setup{settings: transfer.Settings{CheckpointInterval: 1}}, func(w *world) {
		w.change(func(w *world) {
			w.place = "192.0.2.1:5000"
			w.remote = func(said *wire.Accept) bool { return said.Direct.Addresses[0] == "192.0.2.2:5000" && said.Nonce == 1 }
		})
		w.slow(50 * time.Millisecond)
		data := map[string][]byte{"in/a": content(1, 30<<20)}
		w.write(data)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
		w.want(id, transfer.Successful, "out", data)
		w.until(time.Minute, "the transfer is accepted", func() bool { return w.incoming(id) != nil })
		pass(time.Second)
		w.change(func(w *world) { w.place = "192.0.2.2:5000" })
		w.dst.living().recv.Moved([]transfer.AgentName{srcName})
		w.finish(time.Minute)
		if s := w.source(id); s.Nonce != 2 || s.Progress.Lane != transfer.LaneDirect {
			w.t.Errorf("it was opened %d times and ended by the lane %s", s.Nonce, s.Progress.Lane)
		}
	})
}
