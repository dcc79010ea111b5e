package audit

import "hash/maphash"

// A repeat is compared with the record that the log has under its number. Its number shows that it is a repeat, but its
// content may differ.

const (
	distinguished        = 4096 // newest records of a numbering: those that an agent sends ahead of its receipts
	distinguishedStreams = 512  // most numberings with known records
)

// repeats has the newest records of the recently used numberings, as hashes with a secret seed. An unknown record
// counts as equal.
type repeats struct {
	seed maphash.Seed
	of   map[stream]*[distinguished]uint64 // low half of the number and half a hash
}

func newRepeats() *repeats {
	return &repeats{seed: maphash.MakeSeed(), of: map[stream]*[distinguished]uint64{}}
}

func (r *repeats) mark(n uint64, body []byte) uint64 {
	return n<<32 | maphash.Bytes(r.seed, body)>>32
}

// add notes the content of the record under a number.
func (r *repeats) add(key stream, n uint64, body []byte) {
	t := r.of[key]
	if t == nil {
		if len(r.of) >= distinguishedStreams {
			for other := range r.of {
				delete(r.of, other)
				break
			}
		}
		t = new([distinguished]uint64)
		r.of[key] = t
	}
	t[n%distinguished] = r.mark(n, body)
}

// differs reports whether the log is known to have another content under a number.
func (r *repeats) differs(key stream, n uint64, body []byte) bool {
	t := r.of[key]
	if t == nil {
		return false
	}
	was := t[n%distinguished]
	return was>>32 == n&(1<<32-1) && was != r.mark(n, body)
}
