// Package digest digests chunks and whole files. A file's digest is taken while
// its bytes go by. Where they would have to wait for it a Follower reads the file
// beside that, of several files at once; and where a transfer is resumed and the
// bytes before the resume point have gone by in another process, a Follower reads
// them back, checks that they are still what they were, and goes on to the end.
//
// xxh3 is XXH3 of Yann Collet's xxHash 0.8 (64 bits over a chunk message, 128
// over a file, big-endian as in its canonical representation). It finds
// accidents, not forgeries; for those there is SHA-256.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/zeebo/xxh3"

	"ferry/internal/transfer"
)

// A Method names a digest of whole files, as users write it.
type Method string

// The methods.
const (
	XXH3   Method = "xxh3"
	MD5    Method = "md5"
	SHA256 Method = "sha256"
	None   Method = "none"
)

// ParseMethod reads a method's name; the empty name is the default, XXH3.
func ParseMethod(s string) (Method, error) {
	switch m := Method(strings.ToLower(s)); m {
	case "":
		return XXH3, nil
	case XXH3, MD5, SHA256, None:
		return m, nil
	}
	return "", transfer.Errorf(transfer.KindUsage, "checksum %q is unknown; it is one of xxh3, md5, sha256, none", s)
}

// New starts a digest of the method; for None it is nil.
func (m Method) New() hash.Hash {
	switch m {
	case MD5:
		return newMD5()
	case SHA256:
		return sha256.New()
	case None:
		return nil
	}
	if taking != nil {
		return newXXH128(taking)
	}
	return library{xxh3.New128()}
}

// taking is this processor's best way to take blocks in assembly; nil: the library
// has one, or is as good as our own.
var taking = func() accumulator {
	if all := accumulators(); len(all) > 0 {
		return all[0]
	}
	return nil
}()

// Slow reports whether a digest takes longer than it takes to send or to write the
// bytes. Such a one is better taken by a Follower, of several files at once.
func (m Method) Slow() bool { return m == MD5 || m == SHA256 }

// ByName starts the digest that the part of a sum before ':' names.
func ByName(method string) (hash.Hash, error) {
	m, err := ParseMethod(method)
	if err != nil {
		return nil, err
	}
	if m == None {
		return nil, transfer.Errorf(transfer.KindUsage, "no digest is called none")
	}
	return m.New(), nil
}

// Sum writes a digest as METHOD:HEX; a nil one is the empty text.
func (m Method) Sum(h hash.Hash) string {
	if h == nil {
		return ""
	}
	return string(m) + ":" + hex.EncodeToString(h.Sum(nil))
}

// Message is the 64-bit hash that every chunk message carries.
func Message(b []byte) uint64 { return xxh3.Hash(b) }

// library makes a hash.Hash of the library's 128-bit variant.
type library struct{ *xxh3.Hasher128 }

func (h library) Size() int      { return 16 }
func (h library) BlockSize() int { return stripe }
func (h library) Reset()         { h.Hasher128.Reset() }
func (h library) Sum(b []byte) []byte {
	s := h.Sum128().Bytes()
	return append(b, s[:]...)
}

// A Running digest takes a file's bytes in order. It keeps the method's digest
// of everything since it began and the xxh3 of the current segment, from which
// checkpoints are made.
type Running struct {
	method Method
	whole  hash.Hash // nil for None
	seg    hash.Hash // the same as whole where that is xxh3 over the same bytes
	done   []transfer.Segment
	at     int64
	text   string // Whole, once it was asked for
	textAt int64  // how many bytes it is of
}

// NewRunning begins at the end of the given segments; the whole digest then
// covers only what comes after them and a Follower has to supply the rest.
func NewRunning(m Method, before []transfer.Segment) *Running {
	r := &Running{method: m, done: before}
	if n := len(before); n > 0 {
		r.at = before[n-1].End
		r.seg = XXH3.New()
		return r
	}
	r.whole = m.New()
	r.seg = r.whole
	if m != XXH3 {
		r.seg = XXH3.New()
	}
	return r
}

// Rebase begins a new segment here, as if what has come so far had come in
// another process: Whole and Content are then those of nothing.
func (r *Running) Rebase() *Running { return NewRunning(r.method, r.Prefix()) }

// Tail is the xxh3-128, in hex, of what came since the last of the segments that
// the digest began with.
func (r *Running) Tail() string { return hex.EncodeToString(r.seg.Sum(nil)) }

// Rebased reports whether the digest began after others' segments.
func (r *Running) Rebased() bool { return len(r.done) > 0 }

// Clone is a second digest of what has come so far.
func (r *Running) Clone() *Running {
	c := *r
	c.done = append([]transfer.Segment(nil), r.done...)
	c.seg = clone(r.seg)
	switch {
	case r.whole == r.seg:
		c.whole = c.seg
	case r.whole != nil:
		c.whole = clone(r.whole)
	}
	return &c
}

func clone(h hash.Hash) hash.Hash {
	switch x := h.(type) {
	case *xxh128:
		state := *x
		return &state
	case *stream:
		return x.clone()
	case library:
		state := *x.Hasher128
		return library{&state}
	}
	c, err := h.(hash.Cloner).Clone()
	if err != nil {
		panic("internal error: a digest cannot be cloned: " + err.Error()) // none of those here can fail
	}
	return c
}

// Write takes the next bytes.
func (r *Running) Write(b []byte) (int, error) {
	r.at += int64(len(b))
	r.seg.Write(b)
	if r.whole != nil && r.whole != r.seg {
		r.whole.Write(b)
	}
	return len(b), nil
}

var zeros [64 << 10]byte

// Zeros takes n zero bytes.
func (r *Running) Zeros(n int64) {
	for n > 0 {
		k := min(n, int64(len(zeros)))
		r.Write(zeros[:k])
		n -= k
	}
}

// At is the number of bytes taken, those of the segments before included.
func (r *Running) At() int64 { return r.at }

// Prefix gives the segments up to here.
func (r *Running) Prefix() []transfer.Segment {
	segs := append([]transfer.Segment(nil), r.done...)
	if n := len(segs); n > 0 && segs[n-1].End == r.at || r.at == 0 {
		return segs
	}
	return append(segs, transfer.Segment{End: r.at, Sum: hex.EncodeToString(r.seg.Sum(nil))})
}

// Whole is METHOD:HEX over all bytes, for a digest that began at 0; empty for None.
func (r *Running) Whole() string {
	if r.text == "" || r.textAt != r.at {
		r.text, r.textAt = r.method.Sum(r.whole), r.at
	}
	return r.text
}

// Content is a sum that is there whatever the method: Whole, or the xxh3 where
// the method is None. Only for a digest that began at 0.
func (r *Running) Content() string {
	if r.whole != nil {
		return r.Whole()
	}
	return XXH3.Sum(r.seg)
}
