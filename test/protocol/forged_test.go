//go:build linux

package protocol_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/place/local/localtest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestOutcomesAreHeldAgainstTheJournal forges outcomes of a destination. The source must not delete or record a file
// that does not belong to the number of the item.
func TestOutcomesAreHeldAgainstTheJournal(t *testing.T) {
	for name, forge := range map[string]func(o *transfer.Outcome){
		"another file":            func(*transfer.Outcome) {},
		"an item that is not one": func(o *transfer.Outcome) { o.Item = 900 },
		"an item far ahead":       func(o *transfer.Outcome) { o.Item = 1 << 39 },
		"a directory":             func(o *transfer.Outcome) { o.Type = transfer.ItemDir },
		"a failure":               func(o *transfer.Outcome) { o.Err = transfer.Errorf(transfer.KindExists, "it is there") },
		"no file at all":          func(o *transfer.Outcome) { o.Source = "" },
	} {
		for _, last := range []bool{false, true} {
			bubble(t, setup{}, func(w *world) {
				files := map[string][]byte{"in/a": content(1, 20<<10), "in/b": content(2, 100), "in/c": content(3, 100)}
				w.write(files)
				w.write(map[string][]byte{"precious": content(4, 50)})
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					return faulty.Handling{Drop: p.Kind == wire.KindOutcomes && p.From == dstName}
				}
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true, Disposition: transfer.DispositionDelete}})
				w.want(id, transfer.Successful, "out", files)
				w.until(time.Minute, "no epoch", func() bool { return w.net.Count(wire.KindAck) > 0 })
				w.change(func(w *world) { w.fates = nil })
				o := transfer.Outcome{Item: 0, Type: transfer.ItemFile, Path: "/elsewhere", Source: transfer.Path(w.src.files("precious")),
					Size: 50, Version: localtest.VersionOf(t, w.src.files("precious"))}
				forge(&o)
				w.say(dstName, srcName, &wire.Message{Kind: wire.KindOutcomes, Transfer: id, Outcomes: &wire.Outcomes{Batch: 1 << 40, Outcomes: []transfer.Outcome{o}, Last: last}})
				w.finish(5 * time.Minute)
				if _, err := os.Stat(w.src.files("precious")); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if s := w.source(id); s.Progress.Warnings > 0 || s.Progress.Files != int64(len(files)) {
					t.Errorf("%s: %+v", name, s.Progress.Counts)
				}
			})
		}
	}
}

// TestSilentOpensKeepNobodyOut opens thousands of transfers from sources that then send nothing. Other transfers must
// start during that time and after it.
func TestSilentOpensKeepNobodyOut(t *testing.T) {
	const slots, floods = 200, 25
	bubble(t, setup{slots: slots, pool: 64 << 20, memory: true}, func(w *world) {
		flood := func() {
			for k := range slots {
				id := transfer.NewID(time.Now())
				mallory := transfer.AgentName(fmt.Sprint("MALLORY", k%3))
				w.say(mallory, dstName, &wire.Message{Kind: wire.KindOpen, Transfer: id, Open: &wire.Open{Nonce: 1, Source: "00000000000000aa", MaxChunk: 1 << 20,
					Request: transfer.Request{Version: transfer.RequestVersion, ID: id, Source: mallory, Destination: dstName, Dest: transfer.File("out/"), Recovery: -1}}})
			}
		}
		for range floods {
			flood()
			pass(15 * time.Second)
		}
		flood()
		files := map[string][]byte{"in/a": content(1, 5000)}
		must(t, w.src.host().put("in/a", files["in/a"]))
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in/a"), Dest: transfer.File("out/")})
		w.until(30*time.Second, "the transfer does not get through", func() bool {
			s := w.source(id)
			return s != nil && s.State == transfer.Successful
		})
		if n := w.dst.living().recv.Open(); n > slots {
			t.Errorf("%d transfers that nothing comes of are dealt with", n)
		}
	})
}

// TestAnEpochOfSomebodyElse answers an OPEN in the destination's name, before the destination, with an epoch far ahead.
// The transfer is delayed only until the source notices that the destination is silent.
func TestAnEpochOfSomebodyElse(t *testing.T) {
	for _, epoch := range []uint32{3, 200, 1 << 17, wire.MaxEpoch} {
		bubble(t, setup{}, func(w *world) {
			files := map[string][]byte{"in/a": content(1, 20<<10)}
			w.write(files)
			forged := false
			w.fates = func(p *faulty.Parcel) (h faulty.Handling) {
				if p.Kind != wire.KindAccept || forged {
					return h
				}
				forged = true
				m, err := wire.Decode(p.Data)
				must(t, err)
				m.Accept.Epoch = epoch
				data, err := m.Encode()
				must(t, err)
				h.Delay = 5 * time.Millisecond
				h.Also = []faulty.Parcel{{From: p.From, To: p.To, Kind: p.Kind, Transfer: p.Transfer, Data: data}}
				return h
			}
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
			w.want(id, transfer.Successful, "out", files)
			if took := w.finish(5 * time.Minute); took > 20*time.Second {
				w.t.Errorf("epoch %d: it takes %s", epoch, took)
			}
			if !forged {
				w.t.Error("nothing was forged")
			}
		})
	}
}
