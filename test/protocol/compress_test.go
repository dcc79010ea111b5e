package protocol_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// compressing are the values of a request's compression that ask for it.
var compressing = []string{transfer.CompressFast, transfer.CompressHigh, transfer.CompressAuto}

// prose returns n compressible bytes that no other seed has.
func prose(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 5))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%s of %d was sent to %s and has arrived; ", []string{"a file", "a letter", "a record"}[r.IntN(3)], r.IntN(10000),
			[]string{"the north", "the south", "nobody"}[r.IntN(3)])
	}
	return append(make([]byte, 0, n), b.Bytes()[:n]...) // never nil, not even where n is 0
}

// shapes returns a directory with data of all sorts.
func shapes() map[string][]byte {
	holed := prose(9, 40<<10)
	clear(holed[8<<10 : 24<<10])
	return map[string][]byte{"in/empty": {}, "in/byte": {7}, "in/zeros": make([]byte, 30<<10), "in/text": prose(1, 70<<10), "in/noise": content(1, 70<<10),
		"in/half": append(content(2, 30<<10), prose(2, 30<<10)...), "in/other half": append(prose(3, 30<<10), content(3, 30<<10)...),
		"in/holed": holed, "in/sub/small": prose(4, 200), "in/sub/page": prose(5, 4096), "in/z": prose(6, 4097)}
}

// content returns the content of a file. If the work is compressed, some contents are compressible, some are not, and
// some are in part. Otherwise they are those of every other test.
func (k work) content(seed uint64, n int) []byte {
	if k.packed == nil {
		return content(seed, n)
	}
	switch seed % 4 {
	case 0:
		return content(seed, n)
	case 1:
		return append(content(seed, n/2), prose(seed, n-n/2)...)
	}
	return prose(seed, n)
}

// compress returns the compression of the next request.
func (k work) compress() string {
	if k.packed == nil {
		return ""
	}
	return append([]string{transfer.CompressNone}, compressing...)[k.packed.IntN(4)]
}

// packedWork decides with a generator of its own, so that all other decisions of a seed are those without compression.
func packedWork(seed uint64) work { return work{packed: rand.New(rand.NewPCG(seed, 11))} }

// TestCampaignCompressed runs the simulation and damages messages, with compressed transfers among the others.
func TestCampaignCompressed(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "compressed",
		What: "what the simulation does, to transfers with every kind of compression and data that shrinks, does not, or does in part",
		Unit: "seeds", Full: 20_000, Short: 100, Packages: product}, func(t *testing.T, c *campaign.C) {
		each(simulatePacked)(t, c)
		t.Log(&toll)
	})
}

// TestCompressedSeeds runs the beginning of that campaign, with damaged compressed messages, in every test run.
func TestCompressedSeeds(t *testing.T) {
	spread(t, 1, 60, simulatePacked)
	spreadMany(t, 1, 200, func(t *testing.T, seed uint64, r *rand.Rand) int { return corruptWork(t, r, packedWork(seed)) })
}

func simulatePacked(t *testing.T, seed uint64, r *rand.Rand) { simulateWork(t, r, packedWork(seed)) }

// counted counts DATA and CDATA frames as they are sent.
func (w *world) counted(data, cdata *atomic.Int64) {
	w.change(func(w *world) {
		next := w.fates
		w.fates = func(p *faulty.Parcel) (h faulty.Handling) {
			if p.Kind == faulty.Chunk {
				_, frames, _ := wire.ParseChunk(bytes.Clone(p.Data))
				for _, f := range frames {
					switch f.Type {
					case wire.FrameData:
						data.Add(1)
					case wire.FrameCData:
						cdata.Add(1)
					}
				}
			}
			if next != nil {
				h = next(p)
			}
			return h
		}
	})
}

// TestEveryShapeCompressed sends files of all sorts with every compression. Compressible data need fewer bytes, other
// data hardly more. Both sides' records have the requested compression and its result.
func TestEveryShapeCompressed(t *testing.T) {
	plainWire := int64(0)
	for _, word := range append([]string{transfer.CompressNone}, compressing...) {
		for _, settings := range []transfer.Settings{small, transfer.DefaultSettings()} {
			bubble(t, setup{settings: settings, pool: 30 << 20}, func(w *world) {
				var data, cdata atomic.Int64
				w.counted(&data, &cdata)
				files := shapes()
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Compress: word, Options: transfer.Options{Recursive: true}})
				w.want(id, transfer.Successful, "out", files)
				if took := w.finish(time.Minute); took > 5*time.Second {
					t.Errorf("%s: without a fault it took %v", word, took)
				}
				p := w.source(id).Progress
				if word == transfer.CompressNone {
					if cdata.Load() > 0 || data.Load() == 0 {
						t.Errorf("without compression there are %d DATA frames and %d CDATA", data.Load(), cdata.Load())
					}
					plainWire = p.BytesWire
					if plainWire < 292<<10 || plainWire > 330<<10 { // 292 KiB are not zeros
						t.Errorf("without compression %d bytes are on the wire", plainWire)
					}
				} else if cdata.Load() < 4 || data.Load() < 1 || p.BytesWire > plainWire*7/10 {
					t.Errorf("%s: %d DATA frames, %d CDATA, %d bytes on the wire; %d without compression", word, data.Load(), cdata.Load(), p.BytesWire, plainWire)
				}
				if p.Compress != word || p.Summary().BytesWire != p.BytesWire || p.Summary().Compress != word {
					t.Errorf("%s: shown as %+v", word, p)
				}
				w.audited(id, word, p.BytesWire)
			})
		}
	}
}

// audited looks for a transfer's compression in both sides' audit records.
func (w *world) audited(id transfer.ID, word string, onWire int64) {
	w.t.Helper()
	for _, n := range []*node{w.src, w.dst} {
		asked, said := "", int64(0)
		for _, rec := range records(w, n) {
			if rec.Request != nil {
				asked = rec.Request.Compress
			}
			said = max(said, rec.BytesWire)
		}
		if asked != word || n == w.src && said != onWire {
			w.t.Errorf("%s has on record that %s was asked for compression %q and sent %d bytes; it was %q and %d", n.name, id, asked, said, word, onWire)
		}
	}
}

// TestCompressedLineEnds checks that changed line ends are found in the decompressed data, not in the message. A
// compressed message may look free of them, and a plain one may have them in its header alone.
func TestCompressedLineEnds(t *testing.T) {
	chunk := small.ChunkSize
	all := passedFiles{}
	for n := range 30 { // the line ends are in a last message of a few hundred bytes, so that often no CR is among them
		r := campaign.Rand(uint64(n))
		some := func(what ...string) (b []byte) {
			for len(b) < 150 {
				b = append(b, what[r.IntN(len(what))]...)
			}
			return b
		}
		sent := append(bytes.Repeat(some("a", "b", "c", "d"), 16*chunk/150), bytes.Repeat(some("a", "b", "c", "d", "\r\n"), 20)...)
		all[fmt.Sprint(n)] = passed{sent: sent, come: bytes.ReplaceAll(sent, []byte("\r\n"), []byte("\n"))}
	}
	for _, word := range append([]string{transfer.CompressNone}, compressing...) {
		bubble(t, setup{settings: small, pool: 30 << 20}, func(w *world) {
			p := between("UTF-8", "UTF-8", transfer.Records{}, transfer.Records{})
			p.q.EOL, p.q.Compress = "lf", word
			w.sendPassed(p, all)
			w.finish(time.Minute)
		})
	}
}

// TestNeverMoreMessages checks that compressed data travel in as many messages as plain data. Then the receiver has
// work before the whole run-ahead is sent, and a message is small. The count varies by a few, because the first
// messages are small until the first acknowledgement has told the rate.
func TestNeverMoreMessages(t *testing.T) {
	count := map[string]int{}
	for _, word := range []string{transfer.CompressNone, transfer.CompressHigh} {
		bubble(t, setup{settings: transfer.DefaultSettings(), pool: 30 << 20}, func(w *world) {
			files := map[string][]byte{"big": prose(1, 4<<20)}
			w.write(files)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Compress: word})
			w.want(id, transfer.Successful, "out", files)
			w.finish(time.Minute)
			count[word] = w.net.Count(faulty.Chunk)
		})
	}
	if none, high := count[transfer.CompressNone], count[transfer.CompressHigh]; none < 16 || high > none+none/4 {
		t.Errorf("%d messages plain, %d compressed", none, high)
	}
}

// TestCompressedResume interrupts the transfer of a compressed file by a crash of either side, a cut of the link, or
// lost messages. It resumes from plain offsets, and sends no more data again than permitted.
func TestCompressedResume(t *testing.T) {
	for _, word := range compressing {
		for name, disturb := range map[string]func(w *world){
			"the source dies":      func(w *world) { w.src.kill() },
			"the destination dies": func(w *world) { w.dst.kill() },
			"both die":             func(w *world) { w.src.kill(); w.dst.kill() },
			"it is cut":            func(w *world) { w.cut(true); pass(20 * time.Second); w.cut(false) },
			"messages are lost": func(w *world) {
				s := &script{r: campaign.Rand(1)}
				w.change(func(w *world) {
					w.fates = func(p *faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: s.one(10)} }
				})
				pass(10 * time.Second)
				w.dst.kill()
				pass(30 * time.Second)
				w.change(func(w *world) { w.fates = nil })
			},
		} {
			t.Run(word+", "+name, func(t *testing.T) {
				bubble(t, setup{}, func(w *world) {
					safe := watchSafety(w)
					w.slow(10 * time.Millisecond)
					files := map[string][]byte{"big": append(prose(1, 150<<10), append(content(1, 50<<10), prose(2, 100<<10)...)...)}
					w.write(files)
					id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Compress: word})
					w.want(id, transfer.Successful, "out", files)
					w.point(id, 40<<10)
					disturb(w)
					w.finish(5 * time.Minute)
					safe.report(t)
					p := w.source(id).Progress
					if p.Resumes == 0 {
						t.Error("nothing was resumed")
					}
					if most := (p.Resumes + 1) * 2 * (16 << 10); p.BytesResent > most {
						t.Errorf("%d bytes were sent again in %d resumes; a run-ahead and a checkpoint each are %d", p.BytesResent, p.Resumes, most)
					}
				})
			})
		}
	}
}

// tail calls do with every message that has a compressed chunk of the second item beyond 30 KiB.
func (w *world) tail(times int, do func(m []byte, at stretch) []byte) *atomic.Int64 {
	var met atomic.Int64
	w.fates = func(p *faulty.Parcel) faulty.Handling {
		if p.Kind != faulty.Chunk {
			return faulty.Handling{}
		}
		m := bytes.Clone(p.Data)
		_, frames, err := wire.ParseChunk(m)
		if err != nil {
			return faulty.Handling{}
		}
		for _, f := range frames {
			if f.Type == wire.FrameCData && f.Item == 1 && f.Offset > 30<<10 && met.Load() < int64(times) {
				met.Add(1)
				at := cap(m) - cap(f.Data)
				return faulty.Handling{Damage: func(m []byte) []byte { return do(m, stretch{at: at, n: len(f.Data)}) }}
			}
		}
		return faulty.Handling{}
	}
	return &met
}

// TestCompressedTailDamaged damages compressed messages. Some get a wrong hash, others a right hash over data that
// cannot be decompressed. Five in one item without a safe point between them fail that item alone. Fewer are sent
// again.
func TestCompressedTailDamaged(t *testing.T) {
	flip := func(m []byte, at stretch) []byte { m[at.at+at.n/2] ^= 1; return m }
	for name, do := range map[string]func(m []byte, at stretch) []byte{
		"a bit flipped":                   flip,
		"its length wrong":                func(m []byte, at stretch) []byte { m[at.at] ^= 1; m[at.at+4] ^= 1; return rehash(m) },
		"its bytes gone":                  func(m []byte, at stretch) []byte { clear(m[at.at : at.at+at.n]); return rehash(m) },
		"another format":                  func(m []byte, at stretch) []byte { m[at.at-5] ^= 3; return rehash(m) },
		"a format to come":                func(m []byte, at stretch) []byte { m[at.at-5] = 9; return rehash(m) },
		"more plain bytes than there are": func(m []byte, at stretch) []byte { m[at.at-6]++; return rehash(m) },
		"4 GiB of plain bytes":            func(m []byte, at stretch) []byte { copy(m[at.at-9:], "\xff\xff\xff\xff"); return rehash(m) },
	} {
		for _, word := range []string{transfer.CompressFast, transfer.CompressHigh} {
			for _, times := range []int{maxBad - 1, 1 << 30} {
				t.Run(fmt.Sprintf("%s, %s, %d times", name, word, min(times, 99)), func(t *testing.T) {
					bubble(t, setup{}, func(w *world) {
						v := newWitness()
						met := w.tail(times, do)
						fates := w.fates
						w.fates = func(p *faulty.Parcel) faulty.Handling {
							v.mu.Lock()
							v.sent(p)
							v.mu.Unlock()
							return fates(p)
						}
						w.before = v.arrives
						files := map[string][]byte{"a": prose(1, 100), "b": prose(2, 60<<10), "c": prose(3, 100)}
						w.write(files)
						w.expect("out", files)
						id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b", "c"), Dest: transfer.File("out/"), Compress: word})
						if times < maxBad {
							w.want(id, transfer.Successful, "out", files)
						} else {
							delete(files, "b")
							w.want(id, transfer.Partial, "out", files).failed = 1
						}
						w.finish(5 * time.Minute)
						v.report(w)
						if n := met.Load(); n < maxBad-1 {
							t.Errorf("%d messages were damaged", n)
						}
						f := w.source(id).Progress.Failures
						if times >= maxBad && (len(f) != 1 || f[0].Err.Kind != transfer.KindDigest || !strings.Contains(f[0].Err.Text, "damaged on the way 5 times")) {
							t.Errorf("failures: %+v", f)
						}
					})
				})
			}
		}
	}
}

// TestCompressedForgery changes a chunk into another one of the same length and corrects the message's hash. The file's
// digest must detect that.
func TestCompressedForgery(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		met := w.tail(1, func(m []byte, at stretch) []byte {
			m[at.at+4] ^= 1 // a literal byte near the beginning of the block
			return rehash(m)
		})
		files := map[string][]byte{"a": prose(1, 100), "b": prose(2, 60<<10)}
		w.write(files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b"), Dest: transfer.File("out/"), Compress: transfer.CompressFast})
		delete(files, "b")
		w.want(id, transfer.Partial, "out", files).failed = 1
		w.finish(time.Minute)
		if f := w.source(id).Progress.Failures; met.Load() != 1 || len(f) != 1 || f[0].Err.Kind != transfer.KindDigest {
			t.Errorf("%d messages were changed; failures: %+v", met.Load(), f)
		}
	})
}

// TestOlderDestination sends to a destination that does not know the requested compression. It refuses the transfer at
// OPEN and never gets a frame that it does not know.
func TestOlderDestination(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind != wire.KindOpen {
				return faulty.Handling{}
			}
			return faulty.Handling{Damage: func(m []byte) []byte { // as if it came from a later version
				return bytes.Replace(m, []byte(`"compress":"auto"`), []byte(`"compress":"best"`), 1)
			}}
		}
		w.write(map[string][]byte{"a": prose(1, 5000)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Compress: transfer.CompressAuto})
		w.until(time.Minute, "it does not end", func() bool { return w.source(id).State.Final() })
		s := w.source(id)
		if r := s.Progress.Reason; s.State != transfer.Failed || r == nil || !strings.Contains(r.Text, `--compress "best" is unknown`) || w.net.Count(faulty.Chunk) > 0 {
			t.Errorf("it ended %s, %v, after %d chunk messages", s.State, r, w.net.Count(faulty.Chunk))
		}
	})
}
