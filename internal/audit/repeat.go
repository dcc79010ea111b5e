package audit

import "hash/maphash"

// A repeat is compared with what the log has under its number: the numbers say
// that it is one, its content may not.

const (
	toldApart   = 4096 // of a numbering's newest records: what an agent sends ahead of its receipts
	toldStreams = 512  // numberings of which that many are known
)

// repeats knows the newest records of the numberings that were appended to
// lately, by a hash that nobody outside this process can aim at. Of one that it
// does not know it says that it is the same.
type repeats struct {
	seed maphash.Seed
	of   map[stream]*[toldApart]uint64 // low half of the number and half a hash
}

func newRepeats() *repeats {
	return &repeats{seed: maphash.MakeSeed(), of: map[stream]*[toldApart]uint64{}}
}

func (r *repeats) mark(n uint64, body []byte) uint64 {
	return n<<32 | maphash.Bytes(r.seed, body)>>32
}

// add notes what the log has under a number.
func (r *repeats) add(key stream, n uint64, body []byte) {
	t := r.of[key]
	if t == nil {
		if len(r.of) >= toldStreams {
			for other := range r.of {
				delete(r.of, other)
				break
			}
		}
		t = new([toldApart]uint64)
		r.of[key] = t
	}
	t[n%toldApart] = r.mark(n, body)
}

// differs reports that the log has something else under a number.
func (r *repeats) differs(key stream, n uint64, body []byte) bool {
	t := r.of[key]
	if t == nil {
		return false
	}
	was := t[n%toldApart]
	return was>>32 == n&(1<<32-1) && was != r.mark(n, body)
}
