// Package digest digests chunks and whole files. A file's digest is taken while
// its bytes go by: at once, or where that would hold them up in a goroutine of its own.
// Where a transfer is resumed and the bytes before the resume point have gone by in
// another process, they are read back and compared with what they were.
//
// xxh3 is XXH3 of Yann Collet's xxHash 0.8 (64 bits over a chunk message, 128
// over a file, big-endian as in its canonical representation). It finds
// accidents, not forgeries; for those there is SHA-256.
package digest

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
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
		return md5.New()
	case SHA256:
		return sha256.New()
	case None:
		return nil
	}
	return library{xxh3.New128()}
}

// Slow reports whether a digest takes longer than it takes to send or to write the
// bytes.
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
func (h library) BlockSize() int { return 64 }
func (h library) Reset()         { h.Hasher128.Reset() }
func (h library) Sum(b []byte) []byte {
	s := h.Sum128().Bytes()
	return append(b, s[:]...)
}

// A Running digest takes a file's bytes in order. It keeps the method's digest of
// the whole file, and the xxh3 of the current segment, from which checkpoints are
// made. A slow digest, and one that has to read back what went by in another process,
// runs in a goroutine of its own: End and Done wait for it, Stop gives it up.
type Running struct {
	method Method
	whole  hash.Hash   // nil for None, and where beside has it
	seg    hash.Hash   // the same as whole where that is xxh3 over the same bytes
	bg     *background // nil where the digest is taken at once
	log    *Backlog
	done   []transfer.Segment
	at     int64
	text   string // Whole, once it was asked for
	textAt int64  // how many bytes it is of
}

// NewRunning begins a digest at the start of a file. The Backlog, which may be nil,
// counts what it is behind.
func NewRunning(m Method, log *Backlog) *Running {
	r := &Running{method: m, log: log}
	if m.Slow() {
		r.bg, r.seg = startBackground(log, m.New(), nil, nil), XXH3.New()
		return r
	}
	r.whole = m.New()
	r.seg = r.whole
	if m != XXH3 {
		r.seg = XXH3.New()
	}
	return r
}

// Resume goes on behind the given segments, which another process has made. It reads
// the file back beside what comes, and finds out with ErrPrefix whether it begins so.
// Without a file the digest is of nothing but the Tail.
func Resume(m Method, log *Backlog, before []transfer.Segment, file io.ReaderAt) *Running {
	r := &Running{method: m, log: log, done: before, seg: XXH3.New()}
	if n := len(before); n > 0 {
		r.at = before[n-1].End
	}
	if file != nil {
		sum := m.New()
		if sum == nil {
			sum = XXH3.New()
		}
		r.bg = startBackground(log, sum, before, file)
	}
	return r
}

// Rebase begins a new segment here, as if what has come so far had come in
// another process, and could not be read back.
func (r *Running) Rebase() *Running {
	r.Stop()
	return Resume(r.method, r.log, r.Prefix(), nil)
}

// Tail is the xxh3-128, in hex, of what came since the last of the segments that
// the digest began with.
func (r *Running) Tail() string { return hex.EncodeToString(r.seg.Sum(nil)) }

// Rebased reports whether the digest lacks what came before the segments with which
// it began.
func (r *Running) Rebased() bool { return len(r.done) > 0 && r.bg == nil }

// Clone is a second digest of what has come so far. It waits until the first one has
// caught up.
func (r *Running) Clone() *Running {
	c := *r
	c.done = append([]transfer.Segment(nil), r.done...)
	c.seg = clone(r.seg)
	switch {
	case r.bg != nil:
		c.bg = startBackground(r.log, r.bg.clone(), nil, nil)
	case r.whole == r.seg:
		c.whole = c.seg
	case r.whole != nil:
		c.whole = clone(r.whole)
	}
	return &c
}

func clone(h hash.Hash) hash.Hash {
	if x, ok := h.(library); ok {
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
	r.take(b)
	if r.bg != nil {
		r.bg.write(b, int64(len(b)))
	}
	return len(b), nil
}

// take digests what is digested at once.
func (r *Running) take(b []byte) {
	r.at += int64(len(b))
	r.seg.Write(b)
	if r.whole != nil && r.whole != r.seg {
		r.whole.Write(b)
	}
}

var zeros [64 << 10]byte

// Zeros takes n zero bytes.
func (r *Running) Zeros(n int64) {
	if r.bg != nil {
		r.bg.write(nil, n)
	}
	for n > 0 {
		k := min(n, int64(len(zeros)))
		r.take(zeros[:k])
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

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// End says that no more bytes come. Done is closed once the result is there.
func (r *Running) End() {
	if r.bg != nil {
		r.bg.end()
	}
}

// Done is closed after End once the whole file is digested, or cannot be.
func (r *Running) Done() <-chan struct{} {
	if r.bg != nil {
		return r.bg.done
	}
	return closed
}

// Ready reports whether Done is closed.
func (r *Running) Ready() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// Err is why there is no digest, once Done is closed: ErrPrefix, or the file cannot
// be read back.
func (r *Running) Err() error {
	if r.bg != nil {
		return r.bg.failure()
	}
	return nil
}

// Stop gives the digest up and waits until the file is no longer read. It may be
// called again, and after Done.
func (r *Running) Stop() {
	if r.bg != nil {
		r.bg.stop()
	}
}

// Whole is METHOD:HEX over all bytes, once Done is closed without an error; empty for
// None, and where the digest is Rebased.
func (r *Running) Whole() string {
	switch {
	case r.bg != nil && r.method == None:
		return ""
	case r.bg != nil:
		return r.method.Sum(r.bg.sum)
	case r.text == "" || r.textAt != r.at:
		r.text, r.textAt = r.method.Sum(r.whole), r.at
	}
	return r.text
}

// Content is a sum that is there whatever the method: Whole, or the xxh3 where
// the method is None.
func (r *Running) Content() string {
	switch {
	case r.method != None:
		return r.Whole()
	case r.bg != nil:
		return XXH3.Sum(r.bg.sum)
	}
	return XXH3.Sum(r.seg)
}
