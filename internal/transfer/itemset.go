package transfer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
)

// MaxUndecided bounds how far begun items may be ahead of the first undecided one. It also bounds every message and
// record that lists them.
const MaxUndecided = 1024

// An ItemSet is a set of item numbers: all below a mark, and some of the MaxUndecided from the mark on. The zero value
// is the empty set.
type ItemSet struct {
	below uint64
	bits  [MaxUndecided / 64]uint64 // bit i: item below+i; bit 0 is never set
}

// Below returns the mark. Every item below it is in the set, and the item at it is not.
func (d *ItemSet) Below() uint64 { return d.below }

// Has reports whether the item is in the set.
func (d *ItemSet) Has(item uint64) bool {
	if item < d.below {
		return true
	}
	i := item - d.below
	return i < MaxUndecided && d.bits[i/64]>>(i%64)&1 == 1
}

// End returns the number after the last item of the set, or 0 if the set is empty.
func (d *ItemSet) End() uint64 {
	for w := len(d.bits) - 1; w >= 0; w-- {
		if d.bits[w] != 0 {
			return d.below + uint64(64*w+bits.Len64(d.bits[w]))
		}
	}
	return d.below
}

// Fits reports whether the item can be added: it is below the mark plus MaxUndecided.
func (d *ItemSet) Fits(item uint64) bool { return item < d.below+MaxUndecided }

// Add adds an item to the set and reports whether it was new. It panics if !Fits(item): callers bound the items that
// they begin.
func (d *ItemSet) Add(item uint64) bool {
	if d.Has(item) {
		return false
	}
	if !d.Fits(item) {
		panic(fmt.Sprintf("internal error: item %d decided with only %d known", item, d.below))
	}
	i := item - d.below
	d.bits[i/64] |= 1 << (i % 64)
	for d.bits[0]&1 == 1 {
		d.shift()
	}
	return true
}

// shift moves the mark up by one item.
func (d *ItemSet) shift() {
	for w := range d.bits {
		d.bits[w] >>= 1
		if w+1 < len(d.bits) {
			d.bits[w] |= d.bits[w+1] << 63
		}
	}
	d.below++
}

// Count returns the number of items in the set.
func (d *ItemSet) Count() uint64 {
	n := d.below
	for item := d.below; item < d.below+MaxUndecided; item++ {
		if d.Has(item) {
			n++
		}
	}
	return n
}

type itemSetJSON struct {
	Below uint64 `json:"below"`
	Bits  string `json:"bits,omitempty"`
}

// MarshalJSON writes {"below":N,"bits":base64}, with the bits as big-endian words, without the zero words at the end.
func (d ItemSet) MarshalJSON() ([]byte, error) {
	last := -1
	for w, v := range d.bits {
		if v != 0 {
			last = w
		}
	}
	var b []byte
	for w := 0; w <= last; w++ {
		b = binary.BigEndian.AppendUint64(b, d.bits[w])
	}
	return json.Marshal(itemSetJSON{d.below, base64.StdEncoding.EncodeToString(b)})
}

// UnmarshalJSON reads the text of MarshalJSON and refuses more bits than fit.
func (d *ItemSet) UnmarshalJSON(data []byte) error {
	var j itemSetJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}

	b, err := base64.StdEncoding.DecodeString(j.Bits)
	if err != nil {
		return fmt.Errorf("item set: %w", err)
	}

	if len(b)%8 != 0 || len(b) > MaxUndecided/8 {
		return fmt.Errorf("item set: %d bytes of bits, at most %d in words of 8", len(b), MaxUndecided/8)
	}

	*d = ItemSet{below: j.Below}
	for w := 0; w < len(b)/8; w++ {
		d.bits[w] = binary.BigEndian.Uint64(b[8*w:])
	}

	for d.bits[0]&1 == 1 {
		d.shift()
	}
	return nil
}
