package protocol_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
)

func pageNamed(name string) *codePage {
	return &codePages[slices.IndexFunc(codePages, func(p codePage) bool { return p.name == name })]
}

// between returns a text conversion of text from one page to another, perhaps of records.
func between(from, to string, in, out transfer.Records) *textConversion {
	p := &textConversion{from: pageNamed(from), to: pageNamed(to), fromRec: in, toRec: out, alphabet: []rune(commonText)}
	if p.from.latin && p.to.latin {
		p.alphabet = append(p.alphabet, []rune(latinText)...)
	}
	if p.from.kana && p.to.kana {
		p.alphabet = slices.Concat(p.alphabet, slices.Repeat([]rune(kanaText), 5))
	}
	p.q.Mode = transfer.ModeText
	p.q.FromEncoding, p.q.ToEncoding, p.q.FromRecords, p.q.ToRecords = from, to, in, out
	return p
}

// textConversions have resume points that can be inside a unit: a character, a shift, a record, a line end, or a block that is
// held back. One more text conversion changes nothing.
func textConversions() map[string]*textConversion {
	none, vb := transfer.Records{}, transfer.Records{RECFM: "VB", LRECL: 200}
	all := map[string]*textConversion{
		"characters":      between("UTF-8", "UTF-16LE", none, none),
		"shifts":          between("IBM-939", "UTF-8", none, none),
		"shifts, written": between("EUC-JP", "IBM-939", none, none),
		"fixed records":   between("UTF-8", "IBM-1047", none, transfer.Records{RECFM: "FB", LRECL: 80}),
		"blocks":          between("GB18030", "IBM-939", none, vb),
		"records to text": between("IBM-037", "UTF-16BE", vb, none),
		"other records":   between("IBM-1140", "UTF-8", vb, transfer.Records{RECFM: "U", LRECL: 100}),
		"line ends":       between("UTF-8", "UTF-8", none, none),
		"nothing":         between("UTF-8", "UTF-8", none, none),
	}
	all["line ends"].q.EOL = "crlf"
	return all
}

// sendPassed submits files of a text conversion, and registers the required end.
func (w *world) sendPassed(p *textConversion, all passedFiles) transfer.ID {
	w.t.Helper()
	files, q := map[string][]byte{}, transfer.Request{Dest: transfer.File("out/"), Compress: p.q.Compress, Options: transfer.Options{Mode: p.q.Mode, Content: p.q.Content}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File(transfer.Path(name))})
		if files[name] = all[name].sent; all[name].side != nil {
			files[sideOf(name)] = all[name].side
		}
	}
	w.write(files)
	w.expect("out", all.come(files))
	id := w.submit(q)
	w.wantConverted(id, "out", files, p, all)
	return id
}

// TestTextResume crashes both sides in the middle of a file of each kind, one after the other, the destination twice.
// It also loses messages in between, so that the item continues in one process after it was resumed in another.
func TestTextResume(t *testing.T) {
	lose := func(w *world) {
		s := &script{r: rand.New(rand.NewPCG(1, 1))}
		w.change(func(w *world) {
			w.fates = func(*faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: s.one(10)} }
		})
		pass(5 * time.Second)
		w.change(func(w *world) { w.fates = nil })
	}
	for name, p := range textConversions() {
		for how, disturb := range map[string]func(w *world){
			"the source dies":                          func(w *world) { w.src.kill() },
			"the destination dies":                     func(w *world) { w.dst.kill() },
			"it dies twice":                            func(w *world) { w.dst.kill(); pass(6 * time.Second); w.dst.kill() },
			"it dies, and messages are lost":           func(w *world) { w.dst.kill(); pass(6 * time.Second); lose(w) },
			"both die, and messages are lost, and die": func(w *world) { w.src.kill(); w.dst.kill(); pass(6 * time.Second); lose(w); w.dst.kill() },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				bubble(t, setup{memory: true}, func(w *world) {
					w.slow(400 * time.Millisecond)
					r := rand.New(rand.NewPCG(3, 3))
					id := w.sendPassed(p, passedFiles{"big": p.file(r, 300<<10, false), "small": p.file(r, 200, false)})
					w.point(id, 1)
					pass(time.Second)
					disturb(w)
					w.finish(5 * time.Minute)
					if w.source(id).Progress.Resumes == 0 {
						w.t.Error("nothing was resumed")
					}
				})
			})
		}
	}
}

// TestTextDamagedAtRest damages the temporary before the resume point. The bytes are read again, and the item starts
// again if they have changed.
func TestTextDamagedAtRest(t *testing.T) {
	for name, p := range textConversions() {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(400 * time.Millisecond)
				r := rand.New(rand.NewPCG(4, 4))
				id := w.sendPassed(p, passedFiles{"big": p.file(r, 300<<10, false), "small": p.file(r, 200, false)})
				w.point(id, 1)
				left := w.dst.killed()
				temps := w.temporaries()
				if len(temps) == 0 {
					t.Fatal("there is no temporary")
				}
				for _, at := range temps {
					b, err := os.ReadFile(at)
					must(t, err)
					if len(b) > 100 {
						b[100] ^= 1
						must(t, os.WriteFile(at, b, 0o600))
					}
				}
				w.dst.start(left)
				w.finish(5 * time.Minute)
			})
		})
	}
}

// TestTextSourceChangesAtRest replaces the source file while its agent is down.
func TestTextSourceChangesAtRest(t *testing.T) {
	for name, p := range textConversions() {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(400 * time.Millisecond)
				r := rand.New(rand.NewPCG(5, 5))
				before, after := p.file(r, 150<<10, false), p.file(r, 120<<10, false)
				id := w.sendPassed(p, passedFiles{"big": before})
				w.wants, w.content = nil, map[string][]byte{}
				w.point(id, 1)
				left := w.src.killed()
				w.write(map[string][]byte{"big": after.sent})
				w.src.start(left)
				w.wantConverted(id, "out", nil, p, passedFiles{"big": after})
				w.finish(5 * time.Minute)
			})
		})
	}
}

// TestTextNoSpace fails a write for lack of space for a while, when half of a message's converted data is written. The
// written half belongs to no recorded state. The item resumes from its last safe point, or begins again.
func TestTextNoSpace(t *testing.T) {
	for name, p := range textConversions() {
		for _, at := range []int64{2, 9} {
			t.Run(name, func(t *testing.T) {
				bubble(t, setup{memory: true}, func(w *world) {
					var met atomic.Int64
					w.inject = func(n *node, op, name string) error {
						if n == w.dst && op == "write" && strings.HasSuffix(name, ".part") {
							if k := met.Add(1); k >= at && k < at+3 {
								return syscall.ENOSPC
							}
						}
						return nil
					}
					r := rand.New(rand.NewPCG(6, 6))
					w.sendPassed(p, passedFiles{"big": p.file(r, 300<<10, false), "small": p.file(r, 200, false)})
					w.finish(10 * time.Minute)
					if met.Load() < at {
						t.Errorf("%d writes were made", met.Load())
					}
				})
			})
		}
	}
}

// TestTextUnmappable sends a large file with a character in its middle that the destination's page lacks. No part of
// this file arrives; the others arrive.
func TestTextUnmappable(t *testing.T) {
	for _, to := range []string{"IBM-1047", "Shift_JIS"} {
		for _, out := range []transfer.Records{{}, {RECFM: "VB", LRECL: 100}} {
			t.Run(to+out.RECFM, func(t *testing.T) {
				bubble(t, setup{memory: true}, func(w *world) {
					p := between("UTF-8", to, transfer.Records{}, out)
					r := rand.New(rand.NewPCG(7, 7))
					id := w.sendPassed(p, passedFiles{"a": p.file(r, 3000, false), "b": p.file(r, 150<<10, true), "c": p.file(r, 100<<10, false)})
					w.finish(time.Minute)
					f := w.source(id).Progress.Failures
					if len(f) != 1 || !strings.Contains(f[0].Err.Error(), "U+2603") || !strings.Contains(f[0].Err.Error(), "line ") || w.source(id).Progress.Summary().ResultCode != 20 {
						t.Errorf("result code %d, failures: %+v", w.source(id).Progress.Summary().ResultCode, f)
					}
				})
			})
		}
	}
}

// TestPlanChanges rewrites the source's sidecar while the transfer waits, so that the same bytes are another text in
// the next epoch. The arrived file follows the old attributes or the new ones, never a mixture.
func TestPlanChanges(t *testing.T) {
	for _, who := range []string{"source", "destination", "both"} {
		t.Run(who, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(400 * time.Millisecond)
				a := transfer.Records{RECFM: "FB", LRECL: 80}
				b := transfer.Records{RECFM: "FB", LRECL: 40}
				p := between("IBM-1047", "UTF-8", a, transfer.Records{})
				p.sides, p.q.FromEncoding, p.q.FromRecords = true, "", transfer.Records{}
				f := p.file(rand.New(rand.NewPCG(8, 8)), 100<<10, false)
				other := *p
				other.fromRec = b
				var lines []string
				for half := range slices.Chunk(f.sent, 40) { // the same bytes by the other attributes
					s, err := decode1047.String(string(half))
					must(t, err)
					lines = append(lines, strings.TrimSuffix(strings.TrimRight(s, " "), "\r")) // with the line end after it, it is one
				}
				var second passed
				other.arrive(&second, lines, true)
				id := w.sendPassed(p, passedFiles{"big": f})
				w.wants, w.content = nil, map[string][]byte{}
				w.point(id, 1)
				if who != "destination" {
					left := w.src.killed()
					w.write(map[string][]byte{sideOf("big"): sidecar(b, "IBM-1047")})
					w.src.start(left)
				}
				if who != "source" {
					w.dst.kill()
					w.write(map[string][]byte{sideOf("big"): sidecar(b, "IBM-1047")})
				}
				w.until(5*time.Minute, "it does not end", func() bool { return w.over(id) })
				got, err := os.ReadFile(w.dst.files(filepath.Join("out", "big")))
				if err != nil || !bytes.Equal(got, f.come) && !bytes.Equal(got, second.come) {
					t.Errorf("%d bytes arrived, %v: neither the %d by the one nor the %d by the other; %s", len(got), err, len(f.come), len(second.come), w.picture())
				}
				w.checkIdle()
			})
		})
	}
}
