package record

import (
	"fmt"
	"strconv"

	"ferry/internal/transfer"
)

// A Format is the layout of records in a file, apart from ASA.
type Format uint8

// The formats; the package comment describes their bytes. States contain their numbers.
const (
	F  Format = iota + 1 // fixed length, one record in a block
	FB                   // fixed length, blocked
	V                    // variable length, one record in a block
	VB                   // variable length, blocked
	U                    // undefined: each block is a record
)

var formatNames = [...]string{F: "F", FB: "FB", V: "V", VB: "VB", U: "U"}

func (f Format) String() string {
	if F <= f && f <= U {
		return formatNames[f]
	}
	return fmt.Sprintf("format-%d", uint8(f))
}

func (f Format) fixed() bool    { return f == F || f == FB }
func (f Format) variable() bool { return f == V || f == VB }

// Limits on records and blocks, in bytes.
const (
	MaxLRECL   = 32760
	MaxBLKSIZE = 32760
	// HalfTrack is the length of the largest block that fits twice on a track of a 3390.
	HalfTrack = 27998
	// word is the length of a record or block descriptor word.
	word = 4
)

// Attributes describe the records of a file. The zero value stands for a file without records.
type Attributes struct {
	Format  Format
	ASA     bool // the first byte of each record is a control character
	LRECL   int  // of V and VB, the longest; of U, the longest, or 0 for BLKSIZE
	BLKSIZE int  // 0: Resolve chooses it
}

// IsZero reports whether no attribute is set.
func (a Attributes) IsZero() bool { return a == Attributes{} }

// RECFM returns the format in its usual notation: FB, VBA.
func (a Attributes) RECFM() string {
	if a.ASA {
		return a.Format.String() + "A"
	}
	return a.Format.String()
}

// String returns the attributes as MQ MFT's users write them: RECFM(FB),LRECL(80),BLKSIZE(27920). It omits the LRECL of
// U if that is 0.
func (a Attributes) String() string {
	s := "RECFM(" + a.RECFM() + ")"
	if a.Format != U || a.LRECL != 0 {
		s += ",LRECL(" + strconv.Itoa(a.LRECL) + ")"
	}
	return s + ",BLKSIZE(" + strconv.Itoa(a.BLKSIZE) + ")"
}

// Flags returns the attributes as flags: --recfm FB --lrecl 80 --blksize 27920.
func (a Attributes) Flags() []string {
	flags := []string{"--recfm", a.RECFM()}
	if a.Format != U || a.LRECL != 0 {
		flags = append(flags, "--lrecl", strconv.Itoa(a.LRECL))
	}
	return append(flags, "--blksize", strconv.Itoa(a.BLKSIZE))
}

// Check refuses attributes that are out of range or contradict one another. It accepts a BLKSIZE of 0.
func (a Attributes) Check() error {
	if a.Format < F || a.Format > U {
		return transfer.Errorf(transfer.KindUsage, "a record file has no RECFM").WithHint("give one of F, FB, V, VB, U, with A at its end for ASA control characters")
	}
	if err := a.checkLRECL(); err != nil {
		return err
	}

	if a.BLKSIZE < 0 || a.BLKSIZE > MaxBLKSIZE {
		return transfer.Errorf(transfer.KindUsage, "BLKSIZE %d is out of range; it goes from 1 to 32,760, and 0 has it chosen", a.BLKSIZE)
	}

	if a.BLKSIZE == 0 {
		return nil
	}
	return a.checkBLKSIZE()
}

func (a Attributes) checkLRECL() error {
	if a.Format == U && a.LRECL == 0 {
		return nil
	}

	if a.LRECL < 1 || a.LRECL > MaxLRECL {
		return transfer.Errorf(transfer.KindUsage, "LRECL %d is out of range; it goes from 1 to 32,760", a.LRECL)
	}

	least, why := 1, ""
	if a.Format.variable() {
		least, why = least+word, "a record descriptor word"
	}

	if a.ASA {
		least++
		if why != "" {
			why += " and "
		}
		why += "a control character"
	}

	if a.LRECL < least {
		return transfer.Errorf(transfer.KindUsage, "LRECL %d leaves no room for data beside %s; the least for RECFM %s is %d", a.LRECL, why, a.RECFM(), least)
	}

	if most := MaxBLKSIZE - word; a.Format.variable() && a.LRECL > most {
		return transfer.Errorf(transfer.KindUsage, "LRECL %d is too large for RECFM %s: with a block descriptor word its block would be longer than 32,760 bytes; the most is 32,756", a.LRECL, a.RECFM())
	}
	return nil
}

func (a Attributes) checkBLKSIZE() error {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindUsage, format, args...).WithHint("give BLKSIZE 0 to have it chosen")
	}
	switch {
	case a.Format == F && a.BLKSIZE != a.LRECL:
		return bad("RECFM %s has one record in a block, so that BLKSIZE %d must be the LRECL, %d", a.RECFM(), a.BLKSIZE, a.LRECL)
	case a.Format == FB && a.BLKSIZE%a.LRECL != 0:
		return bad("BLKSIZE %d is no multiple of LRECL %d, which RECFM %s needs", a.BLKSIZE, a.LRECL, a.RECFM())
	case a.Format.variable() && a.BLKSIZE < a.LRECL+word:
		return bad("BLKSIZE %d is too small for LRECL %d: RECFM %s needs 4 bytes more than LRECL, for the block descriptor word", a.BLKSIZE, a.LRECL, a.RECFM())
	case a.Format == U && a.BLKSIZE < a.LRECL:
		return bad("BLKSIZE %d is smaller than LRECL %d", a.BLKSIZE, a.LRECL)
	case a.Format == U && a.ASA && a.BLKSIZE < 2:
		return bad("BLKSIZE %d leaves no room for data beside a control character", a.BLKSIZE)
	}
	return nil
}

// Resolve checks the attributes and chooses the BLKSIZE where it is 0:
//
//	F    LRECL, since a block holds one record
//	V    LRECL+4, likewise
//	FB   the greatest multiple of LRECL that fits twice on a track of a 3390,
//	     27,920 for an LRECL of 80
//	VB   27,998: two blocks fill a track
//	U    27,998
//
// An LRECL too long for half a track has one block on a track. That block then has the greatest length, 32,760 bytes or
// the multiple of LRECL below it.
func (a Attributes) Resolve() (Attributes, error) {
	if err := a.Check(); err != nil {
		return Attributes{}, err
	}

	if a.BLKSIZE != 0 {
		return a, nil
	}

	switch longest := a.LRECL; a.Format {
	case F:
		a.BLKSIZE = longest
	case V:
		a.BLKSIZE = longest + word
	case FB:
		if a.BLKSIZE = HalfTrack / longest * longest; a.BLKSIZE == 0 {
			a.BLKSIZE = MaxBLKSIZE / longest * longest
		}
	default:
		if a.Format == VB {
			longest += word
		}
		if a.BLKSIZE = HalfTrack; longest > HalfTrack {
			a.BLKSIZE = MaxBLKSIZE
		}
	}
	return a, nil
}

// MaxData returns the most bytes that the data of a record can have, an ASA control character included. The attributes
// must be resolved.
func (a Attributes) MaxData() int {
	switch {
	case a.Format.variable():
		return a.LRECL - word
	case a.Format == U && a.LRECL == 0:
		return a.BLKSIZE
	}
	return a.LRECL
}
