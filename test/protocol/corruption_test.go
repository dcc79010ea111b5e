package protocol_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// TestCampaignCorruption damages chunk messages above the network's own checksums: flipped, cut, mixed up, replayed, or
// with a wrong header or frame under a right hash. The destination accepts none. It drops each or answers with RESYNC,
// and the files arrive. A message hash cannot show bytes that were changed under a corrected hash. The file's digest
// shows that, and the item fails.
func TestCampaignCorruption(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "corruption",
		What: "chunk messages are flipped, cut, spliced, replayed, or given another epoch, sequence, offset or content under a hash made right again",
		Unit: "damaged messages", Full: 10_000, Short: 1000, Packages: product}, func(t *testing.T, c *campaign.C) {
		c.Add(spreadMany(t, c.Seed, c.Count, corrupt))
		t.Log(&toll)
	})
}

// maxBad is the number of bad hashes or offsets that fails an item.
const maxBad = 5

// A messageDamager damages messages to the destination.
type messageDamager struct {
	s *script
	*witness

	begun  map[transfer.ID][]header
	bad    int // damages that count against an item
	done   int
	what   map[header]string // damage of each message
	target transfer.ID       // transfer with the hunted item
	forged bool              // bytes were changed under a right hash
}

// corrupt runs one world. Its damaged messages are the cases.
func corrupt(t *testing.T, seed uint64, r *rand.Rand) (cases int) { return corruptWork(t, r, work{}) }

// corruptWork is corrupt with given work.
func corruptWork(t *testing.T, r *rand.Rand, work work) (cases int) {
	s := &script{r: r}
	set := setup{memory: true, wake: s.one(2)}
	if s.one(3) {
		set.objects = sidesWithObjects[s.n(len(sidesWithObjects))]
	}
	bubble(t, set, func(w *world) {
		v := &messageDamager{s: s, witness: newWitness(), what: map[header]string{}, begun: map[transfer.ID][]header{}}
		w.slow(time.Millisecond)
		w.net.Set(keeping)
		w.fates, w.before = v.handle, v.arrives
		all := map[transfer.ID]map[string][]byte{}
		hunt := s.one(6)
		for k := range 2 {
			dir := fmt.Sprintf("in%d", k)
			files := map[string][]byte{dir + "/a": work.content(uint64(s.n(1000)), 20+s.n(3000)), dir + "/b": work.content(uint64(s.n(1000)), 30<<10+s.n(40<<10)),
				dir + "/c": {}, dir + "/d": work.content(uint64(s.n(1000)), 9<<10)}
			w.write(files)
			w.expect("out", files)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(dir)), Dest: transfer.File("out/"), Compress: work.compress(), Options: transfer.Options{Recursive: true, Checksum: []string{"", "md5", "sha256"}[s.n(3)]}})
			all[id] = files
			if hunt && k == 0 {
				v.mu.Lock()
				v.target = id
				v.mu.Unlock()
			}
		}
		w.until(10*time.Minute, "not every transfer has ended", func() bool {
			for id := range all {
				if !w.over(id) {
					return false
				}
			}
			return true
		})
		v.judge(w, all)
		cases = v.done
	})
	return cases
}

// handle decides the fate of a message of the source.
func (v *messageDamager) handle(p *faulty.Parcel) faulty.Handling {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, ok := v.sent(p)
	if !ok {
		return faulty.Handling{}
	}
	v.begun[h.Transfer] = append(v.begun[h.Transfer], h)
	if v.hunts(p, h) {
		v.done++
		v.what[h] = "hunted"
		toll.add("of the one item that is hunted", 1)
		return faulty.Handling{Damage: faulty.Flip}
	}
	if !v.s.one(5) || v.done >= 30 {
		return faulty.Handling{}
	}
	return v.harm(p, h)
}

// hunts reports whether a message has the tail of the hunted item, which has all its messages damaged. Five bad
// messages without a safe point between them fail this item, and no other (R12).
func (v *messageDamager) hunts(p *faulty.Parcel, h header) bool {
	if v.target.IsZero() || h.Transfer != v.target {
		return false
	}
	_, frames, err := wire.ParseChunk(bytes.Clone(p.Data))
	for _, f := range frames {
		if err == nil && ofData(&f) && f.Item == targetItem && f.Offset+f.Cost(0) > 20<<10 {
			return true
		}
	}
	return false
}

// targetItem is the number of in0/b.
const targetItem = 1

// harm damages one message. Damages that count against an item are too rare to fail it.
func (v *messageDamager) harm(p *faulty.Parcel, h header) (f faulty.Handling) {
	kinds := messageDamages
	if v.bad >= maxBad-1 {
		kinds = mild
	}
	k := kinds[v.s.n(len(kinds))]
	f, ok := k.do(v, p, h)
	if !ok {
		return faulty.Handling{}
	}
	if k.bad {
		v.bad++
	}
	v.done++
	v.what[h] = k.name
	toll.add(k.name, 1)
	return f
}

// judge compares the results with the damages.
func (v *messageDamager) judge(w *world, all map[transfer.ID]map[string][]byte) {
	v.mu.Lock()
	forged := v.forged
	v.mu.Unlock()
	if !forged {
		v.report(w)
	}
	for id, files := range all {
		s := w.source(id)
		for _, f := range s.Progress.Failures {
			if !forged && (id != v.target || f.Item != targetItem) || f.Err.Kind != transfer.KindDigest {
				w.t.Errorf("%s failed: %v", f.Path, f.Err)
			}
		}
		if id == v.target && s.State != transfer.Partial || id != v.target && s.State != transfer.Successful && !forged {
			w.t.Errorf("it ended %s: %v", s.State, s.Progress.Reason)
		}
		for name, data := range files {
			got, err := w.dst.host().get("out/" + name)
			if err == nil && !bytes.Equal(got, data) {
				w.t.Errorf("%s was committed damaged: %s", name, firstDifference(got, data))
			}
			if err != nil && !forged && id != v.target {
				w.t.Error(err)
			}
		}
	}
	var asks []asked
	for id, files := range all {
		a := asked{id: id, files: files}
		if forged || id == v.target {
			a.want = []string{string(transfer.Successful), string(transfer.Partial), string(transfer.Failed)}
		}
		asks = append(asks, a)
	}
	w.judged(asks)
}

// rehash corrects a message's hash.
func rehash(m []byte) []byte {
	clear(m[32:40])
	binary.BigEndian.PutUint64(m[32:], digest.Message(m))
	return m
}

// ofData reports whether a frame has bytes of a file, compressed or not.
func ofData(f *wire.Frame) bool { return f.Type == wire.FrameData || f.Type == wire.FrameCData }

// A stretch is the position of a DATA or CDATA frame's bytes in its message.
type stretch struct{ frame, at, n int }

// dataAt finds the DATA and CDATA frames of a message.
func dataAt(m []byte) (all []stretch) {
	_, frames, err := wire.ParseChunk(m)
	if err != nil {
		return nil
	}
	for n, f := range frames {
		if ofData(&f) && len(f.Data) > 0 {
			all = append(all, stretch{n, cap(m) - cap(f.Data), len(f.Data)})
		}
	}
	return all
}

// shifted returns the message with another offset in one frame.
func shifted(m []byte, frame int, by int64) []byte {
	h, frames, err := wire.ParseChunk(m)
	if err != nil {
		return m
	}
	b := wire.NewBuilder(2*len(m), nil)
	for n, f := range frames {
		if n == frame {
			f.Offset += by
		}
		switch f.Type {
		case wire.FrameBegin:
			b.Begin(f.Item, f.Begin)
		case wire.FrameData:
			copy(b.Data(f.Item, f.Offset, len(f.Data)), f.Data)
		case wire.FrameCData:
			b.CData(f.Item, f.Offset, int(f.Length), f.Format, f.Data)
		case wire.FrameHole:
			b.Hole(f.Item, f.Offset, f.Length)
		case wire.FrameEnd:
			b.End(f.Item, f.Length)
		case wire.FrameSum:
			b.Sum(f.Item, f.Digest, f.Tail)
		case wire.FrameFail:
			b.Fail(f.Item, f.Fail, f.Source)
		case wire.FrameSkip:
			b.Skip(f.Item)
		case wire.FrameLast:
			b.Last(f.Item)
		}
	}
	return b.Seal(h)
}
