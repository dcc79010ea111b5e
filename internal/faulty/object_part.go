package faulty

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"ferry/internal/content/digest"
	"ferry/internal/transfer"
)

// An objectPart is an upload. It gathers bytes to parts. At a safe point the bytes after the last part are an object of
// their own, the tail: all parts but the last have a least size, and no part can be read back.
type objectPart struct {
	l    *objectLanding
	item uint64
	key  transfer.Path
	id   string

	mu    sync.Mutex
	tags  []string     // of the uploaded parts
	sent  int64        // bytes in them
	buf   []byte       // bytes after them
	point *pendingTail // of the last Point
	tails []string     // keys
}

// A pendingTail has the bytes after the parts at a point.
type pendingTail struct {
	parts int
	data  []byte
}

func (p *objectPart) Offset() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent + int64(len(p.buf))
}

// Write uploads the parts that are already complete, and then takes b. So an error leaves everything unchanged.
func (p *objectPart) Write(b []byte) error {
	if err := p.upload(LeastPart); err != nil {
		return err
	}
	p.mu.Lock()
	p.buf = append(p.buf, b...)
	p.mu.Unlock()
	return nil
}

// upload uploads parts of the gathered bytes as long as there are at least least bytes.
func (p *objectPart) upload(least int) error {
	for len(p.buf) >= least && len(p.buf) > 0 {
		n := min(LeastPart, len(p.buf))
		tag, err := p.l.o.Session.part(p.id, len(p.tags)+1, p.buf[:n])
		switch {
		case errors.Is(err, ErrNoSuchUpload):
			return transfer.Errorf(transfer.KindUnwritable, "%s cannot be written: its upload is gone", p.key)
		case err != nil:
			return unknownEffect("part", p.key, err)
		}
		p.mu.Lock()
		p.tags, p.sent, p.buf = append(p.tags, tag), p.sent+int64(n), slices.Clone(p.buf[n:])
		p.mu.Unlock()
	}
	return nil
}

func (p *objectPart) Skip(n int64) error {
	for n > 0 {
		k := min(n, LeastPart)
		if err := p.Write(make([]byte, k)); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

func (p *objectPart) tailKey(parts int) string {
	return path.Join(p.l.o.Scratch, fmt.Sprintf(".ferry-%s%d", p.l.of(p.item), parts))
}

// Point keeps the bytes after the parts for the next Sync.
func (p *objectPart) Point() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.point = &pendingTail{len(p.tags), slices.Clone(p.buf)}
	b := []byte{pointFormat}
	b = binary.AppendUvarint(b, uint64(p.sent)+uint64(len(p.buf)))
	b = binary.AppendUvarint(b, uint64(len(p.buf)))
	b = binary.AppendUvarint(b, uint64(len(p.tags)))
	for _, s := range []string{p.id, hashOf(p.tags), hashOf([]string{string(p.buf)})} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// Sync stores the tails of the last Point and of the present position.
func (p *objectPart) Sync() error {
	p.mu.Lock()
	all := []pendingTail{{len(p.tags), slices.Clone(p.buf)}}
	if p.point != nil && p.point.parts != all[0].parts {
		all = append(all, *p.point)
	}
	p.mu.Unlock()
	for _, t := range all {
		if len(t.data) == 0 {
			continue
		}
		key := p.tailKey(t.parts)
		p.mu.Lock()
		p.tails = append(p.tails, key)
		p.mu.Unlock()
		if err := p.l.o.Session.put(key, t.data); err != nil {
			return unknownEffect("put", p.key, err)
		}
	}
	return nil
}

// Close keeps everything for Reopen.
func (p *objectPart) Close() error {
	p.l.left.Store(true)
	return nil
}

func (p *objectPart) Discard() error {
	err := p.l.o.Session.abort(p.id)
	if err == nil {
		err = p.dropTails()
	}
	if err != nil {
		p.l.left.Store(true)
		return unknownEffect("abort", p.key, err)
	}
	return nil
}

func (p *objectPart) dropTails() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.tails {
		if err := p.l.o.Session.remove(key, ""); err != nil {
			return err
		}
	}
	p.tails = nil
	return nil
}

// finish uploads the rest, and examines the present object of the key.
func (p *objectPart) finish(name transfer.Path, mtime int64) (objectIntent, error) {
	least := 1
	if err := p.upload(least); err != nil {
		return objectIntent{}, err
	}

	if len(p.tags) == 0 {
		tag, err := p.l.o.Session.part(p.id, 1, nil)
		if err != nil {
			return objectIntent{}, unknownEffect("part", p.key, err)
		}
		p.tags = append(p.tags, tag)
	}

	when, err := p.l.condition(name, mtime)
	return objectIntent{p.id, p.tags, when.match, p.l.cfg.IfExists}, err
}

// pointFormat begins a point. Offset, length of the tail and number of parts follow as varints. Then come the upload
// and the digests of the parts' tags and of the tail, each after its length.
const pointFormat = 1

type objectPoint struct {
	offset, tail  int64
	parts         int
	id, tags, sum string
}

func parseObjectPoint(b []byte) (at objectPoint, err error) {
	f := objectFields{b: b}
	if f.byte() != pointFormat {
		f.bad = true
	}
	at = objectPoint{offset: int64(f.uint()), tail: int64(f.uint()), parts: int(f.uint()), id: f.text(), tags: f.text(), sum: f.text()}
	if f.bad || len(f.b) > 0 || at.tail < 0 || at.tail > at.offset || at.parts < 0 || at.parts > MostParts {
		return objectPoint{}, transfer.Errorf(transfer.KindVersion, "a resume point in an object store is in a format that is not known")
	}
	return at, nil
}

// hashOf returns a digest of strings.
func hashOf(all []string) string {
	h := digest.XXH3.New()
	for _, s := range all {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return string(h.Sum(nil))
}

// objectFields parses points and intents.
type objectFields struct {
	b   []byte
	bad bool
}

func (f *objectFields) byte() byte {
	if len(f.b) == 0 {
		f.bad = true
		return 0
	}
	b := f.b[0]
	f.b = f.b[1:]
	return b
}

func (f *objectFields) uint() uint64 {
	v, n := binary.Uvarint(f.b)
	if f.bad = f.bad || n <= 0; f.bad {
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *objectFields) text() string {
	n := f.uint()
	if f.bad = f.bad || n > uint64(len(f.b)); f.bad {
		return ""
	}
	s := string(f.b[:n])
	f.b = f.b[n:]
	return s
}
