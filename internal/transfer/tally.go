package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// TallyCount asks for the sum of the files that arrive; see Scope.Tally.
const TallyCount = "count"

// tallySize is the size of a sum in bytes.
const tallySize = 16

func checkTally(s string) error {
	if s == "" || s == TallyCount {
		return nil
	}
	if b, err := hex.DecodeString(s); err != nil || len(b) != tallySize {
		return Errorf(KindMalformed, "the sum %.40q of the files to arrive is malformed; it has %d digits of hex", s, 2*tallySize)
	}
	return nil
}

// Sum adds a file that arrived to the tally: the path that the sender opened, the size and the digest. The order of the
// files makes no difference.
func (c *Counts) Sum(o *Outcome) {
	if !o.OK() || o.Type != ItemFile {
		return
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(o.Size)))
	h.Write([]byte(o.Digest))
	h.Write([]byte{0})
	h.Write([]byte(o.Reads()))
	one := h.Sum(nil)

	var sum [tallySize]byte // of no files so far
	hex.Decode(sum[:], []byte(c.Tally))
	low, carry := bits.Add64(binary.BigEndian.Uint64(sum[8:]), binary.BigEndian.Uint64(one[8:]), 0)
	high, _ := bits.Add64(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(one), carry)
	binary.BigEndian.PutUint64(sum[:], high)
	binary.BigEndian.PutUint64(sum[8:], low)
	c.Tally = hex.EncodeToString(sum[:])
}
