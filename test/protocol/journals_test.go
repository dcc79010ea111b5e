package protocol_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// splitJournal returns the header and the records of an item journal.
func splitJournal(b []byte) (parts [][]byte) {
	const header = 12
	parts = append(parts, b[:header])
	for b = b[header:]; len(b) > 0; {
		n := 8 + binary.BigEndian.Uint32(b)
		parts, b = append(parts, b[:n]), b[n:]
	}
	return parts
}

// journalDamages change an item journal; nil removes it. The last record is END.
var journalDamages = map[string]func(parts [][]byte) [][]byte{
	"gone":                 func([][]byte) [][]byte { return nil },
	"empty":                func([][]byte) [][]byte { return [][]byte{{}} },
	"cut in its header":    func(p [][]byte) [][]byte { return [][]byte{p[0][:7]} },
	"another header":       func(p [][]byte) [][]byte { p[0][2] ^= 1; return p },
	"without items":        func(p [][]byte) [][]byte { return p[:1] },
	"with one item":        func(p [][]byte) [][]byte { return p[:2] },
	"with two items":       func(p [][]byte) [][]byte { return p[:3] },
	"without its end":      func(p [][]byte) [][]byte { return p[:len(p)-1] },
	"cut in its last item": func(p [][]byte) [][]byte { return append(p[:len(p)-2], p[len(p)-2][:9]) },
	"its first item":       func(p [][]byte) [][]byte { p[1][20] ^= 1; return p },
	"its third item":       func(p [][]byte) [][]byte { p[3][20] ^= 1; return p },
	"two items swapped":    func(p [][]byte) [][]byte { p[2], p[3] = p[3], p[2]; return p },
	"an item left out":     func(p [][]byte) [][]byte { return append(p[:2], p[3:]...) },
	"an item twice":        func(p [][]byte) [][]byte { return append(p[:3:3], p[2:]...) },
}

// journalMoments are the moments of the source's death. Then its journal is damaged.
var journalMoments = map[string]struct {
	unheard bool   // no outcome has reached the source
	late    bool   // no outcome comes before the epoch after the damage, and there is a new file by then
	decided uint64 // items at the destination
	cancel  bool   // the source was cancelling
}{
	"nothing decided":          {},
	"some on record":           {decided: 2},
	"some decided, unheard":    {decided: 3, unheard: true},
	"some decided, heard late": {decided: 3, unheard: true, late: true},
	"all decided, unheard":     {decided: 7, unheard: true},
	"cancelling":               {decided: 2, cancel: true},
	"cancelling, unheard":      {decided: 3, unheard: true, cancel: true},
	"cancelling, all decided":  {decided: 7, unheard: true, cancel: true},
}

// TestDamagedItemJournal damages the item journal of a transfer while the source is down. The transfer ends, or it
// names the journal as the reason of its wait. Its files arrive once, and no source is deleted for an outcome that the
// journal does not confirm.
func TestDamagedItemJournal(t *testing.T) {
	for moment, m := range journalMoments {
		for name, damage := range journalDamages {
			t.Run(moment+"/"+name, func(t *testing.T) {
				bubble(t, setup{}, func(w *world) {
					w.slow(10 * time.Millisecond)
					files := map[string][]byte{"in/a": content(1, 300), "in/b": content(2, 5000), "in/big": content(3, 60<<10),
						"in/c/d": content(4, 700), "in/last": content(5, 30<<10)}
					w.write(files)
					w.expect("out", files)
					lost := func(p *faulty.Parcel) faulty.Handling {
						return faulty.Handling{Drop: m.unheard && p.Kind == wire.KindOutcomes || m.cancel && p.Kind == wire.KindCancelled}
					}
					w.change(func(w *world) { w.fates = lost })
					id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(24 * time.Hour),
						Options: transfer.Options{Recursive: true, Disposition: transfer.DispositionDelete, IfExists: transfer.IfExistsOverwrite}})
					w.until(time.Minute, "the items do not arrive", func() bool {
						in, s := w.incoming(id), w.source(id)
						return w.net.Count(wire.KindAck) > 0 && in.Decided.Count() >= m.decided && (m.unheard || s.Decided.Count() >= m.decided)
					})
					if m.cancel {
						must(t, w.cancel(id))
						w.until(time.Minute, "it is not cancelled", func() bool { return w.source(id).State == transfer.Cancelling })
					}
					left := w.src.killed()
					path := filepath.Join(left, "items", id.String())
					whole, err := os.ReadFile(path)
					must(t, err)
					if hurt := damage(splitJournal(whole)); hurt == nil {
						must(t, os.Remove(path))
					} else {
						must(t, os.WriteFile(path, bytes.Join(hurt, nil), 0o600))
					}
					if m.late {
						more := map[string][]byte{"in/aa": content(6, 900)}
						w.write(more)
						w.expect("out", more)
					} else {
						w.change(func(w *world) { w.fates = nil })
					}
					w.src.start(left)
					if m.late {
						w.until(time.Minute, "no epoch begins, and it does not end", func() bool {
							s := w.source(id).State
							return s == transfer.Running || s == transfer.Waiting || s.Final()
						})
						pass(20 * time.Second) // a file with another number than before would be sent again
						w.change(func(w *world) { w.fates = nil })
					}
					w.endsOrSays(id, m.cancel)
					w.truthful(id, files)
				})
			})
		}
	}
}

// endsOrSays waits until a transfer with a damaged item journal has ended at both sides, or names the journal as the
// reason of its wait.
func (w *world) endsOrSays(id transfer.ID, cancelled bool) {
	w.t.Helper()
	says := func() bool {
		why := w.source(id).Progress.Reason
		return w.source(id).State == transfer.Waiting && why != nil && strings.Contains(why.Text, "item journal")
	}
	w.until(2*time.Minute, "it does not end, and gives no reason", func() bool {
		return says() || w.source(id).State.Final() && w.incoming(id).State.Final()
	})
	s := w.source(id)
	switch why := s.Progress.Reason; {
	case s.State == transfer.Successful, s.State == transfer.Cancelled && cancelled, s.State == transfer.Waiting:
	case s.State != transfer.Failed || why == nil || why.Kind != transfer.KindLost || why.Hint == "" || s.Progress.Code != transfer.CodeNothing:
		w.t.Errorf("it ended %s with %d: %v", s.State, s.Progress.Code, why)
	}
	if temps := w.temporaries(); s.State.Final() && len(temps) > 0 {
		w.t.Errorf("left behind: %v", temps)
	}
	w.t.Log(s.State, s.Progress.Reason)
}
