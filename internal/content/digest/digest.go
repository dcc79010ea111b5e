// Package digest digests chunks and whole files. A file's digest is computed while its bytes are transferred: at once,
// or in a goroutine of its own if that would delay them. After a resume in another process, the bytes before the resume
// point are read back and compared with their earlier digests.
//
// xxh3 is XXH3 of Yann Collet's xxHash 0.8 (64 bits over a chunk message, 128 over a file, big-endian as in its
// canonical representation). It detects accidental changes, not forgeries; SHA-256 detects both.
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

// A Method is the name of a digest of whole files, as users write it.
type Method string

// The methods.
const (
	XXH3   Method = "xxh3"
	MD5    Method = "md5"
	SHA256 Method = "sha256"
	None   Method = "none"
)

// ParseMethod parses a method's name; the empty name is the default, XXH3.
func ParseMethod(s string) (Method, error) {
	switch m := Method(strings.ToLower(s)); m {
	case "":
		return XXH3, nil
	case XXH3, MD5, SHA256, None:
		return m, nil
	}
	return "", transfer.Errorf(transfer.KindUsage, "checksum %q is unknown; it is one of xxh3, md5, sha256, none", s)
}

// New returns a new hash of the method, or nil for None.
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

// Slow reports whether a digest takes longer than sending or writing the bytes.
func (m Method) Slow() bool { return m == MD5 || m == SHA256 }

// ByName returns a new hash for the part of a sum before ':'.
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

// Sum returns a digest as METHOD:HEX, or the empty text for a nil hash.
func (m Method) Sum(h hash.Hash) string {
	if h == nil {
		return ""
	}
	return string(m) + ":" + hex.EncodeToString(h.Sum(nil))
}

// Message returns the 64-bit hash that every chunk message contains.
func Message(b []byte) uint64 { return xxh3.Hash(b) }

// library implements hash.Hash with the library's 128-bit variant.
type library struct{ *xxh3.Hasher128 }

func (h library) Size() int      { return 16 }
func (h library) BlockSize() int { return 64 }
func (h library) Reset()         { h.Hasher128.Reset() }
func (h library) Sum(b []byte) []byte {
	s := h.Sum128().Bytes()
	return append(b, s[:]...)
}

// A Running digest takes a file's bytes in order. It computes the method's digest of the whole file, and the xxh3 of
// the current segment, which checkpoints need. A slow digest runs in a goroutine of its own, and so does one that has
// to read back the bytes of another process: End and Done wait for it, Stop ends it.
type Running struct {
	method Method
	whole  hash.Hash   // nil for None, and if bg has it
	seg    hash.Hash   // the same as whole if that is xxh3 over the same bytes
	bg     *background // nil if the digest is computed at once
	log    *Backlog
	done   []transfer.Segment
	at     int64
	text   string // result of Whole, once it was called
	textAt int64  // number of file bytes that text covers
}

// NewRunning begins a digest at the start of a file. The Backlog, which may be nil, counts the bytes that it is behind.
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

// Resume continues after the given segments of another process. It reads the file back at the same time as it takes new
// bytes, and fails with ErrPrefix if the file does not begin with the segments. Without a file the digest covers only
// the Tail.
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

// Rebase begins a new segment here, as if another process had written the bytes so far and they could not be read back.
func (r *Running) Rebase() *Running {
	r.Stop()
	return Resume(r.method, r.log, r.Prefix(), nil)
}

// Tail returns the xxh3-128, in hex, of the bytes after the last segment of the ones that the digest began with.
func (r *Running) Tail() string { return hex.EncodeToString(r.seg.Sum(nil)) }

// Rebased reports whether the digest lacks the bytes of the segments that it began with.
func (r *Running) Rebased() bool { return len(r.done) > 0 && r.bg == nil }

// Clone returns a second digest of the bytes so far. It waits until the first one has caught up.
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

// take adds bytes to the digests that are computed at once.
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

// At returns the number of bytes taken, including those of the earlier segments.
func (r *Running) At() int64 { return r.at }

// Prefix returns the segments up to here.
func (r *Running) Prefix() []transfer.Segment {
	segs := append([]transfer.Segment(nil), r.done...)
	if n := len(segs); n > 0 && segs[n-1].End == r.at || r.at == 0 {
		return segs
	}
	return append(segs, transfer.Segment{End: r.at, Sum: hex.EncodeToString(r.seg.Sum(nil))})
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// End announces that no more bytes follow. Done is closed once there is a result.
func (r *Running) End() {
	if r.bg != nil {
		r.bg.end()
	}
}

// Done returns a channel that closes after End, once the whole file is digested or cannot be.
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

// Err returns the reason why there is no digest, once Done is closed: ErrPrefix, or the error of reading the file back.
func (r *Running) Err() error {
	if r.bg != nil {
		return r.bg.failure()
	}
	return nil
}

// Stop ends the digest and waits until the file is no longer read. It may be called again, and after Done.
func (r *Running) Stop() {
	if r.bg != nil {
		r.bg.stop()
	}
}

// Whole returns METHOD:HEX over all bytes, once Done is closed without an error. It returns the empty text for None,
// and if the digest is Rebased.
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

// Content returns a sum for every method: Whole, or the xxh3 if the method is None.
func (r *Running) Content() string {
	switch {
	case r.method != None:
		return r.Whole()
	case r.bg != nil:
		return XXH3.Sum(r.bg.sum)
	}
	return XXH3.Sum(r.seg)
}
