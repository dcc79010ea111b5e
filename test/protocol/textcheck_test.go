package protocol_test

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ferry/internal/content/digest"
	"ferry/internal/content/record"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// passedFiles are the files of a text conversion, by the names of their sources.
type passedFiles map[string]passed

// convert replaces the files of a transfer by files of about the same length that are converted. Without a text
// conversion they stay as they are.
func (k work) convert(files map[string][]byte) (*textConversion, passedFiles) {
	if k.texts == nil {
		return nil, nil
	}
	p, all := newTextConversion(k.texts), passedFiles{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := p.file(k.texts, len(files[name]), k.texts.IntN(12) == 0)
		all[name], files[name] = f, f.sent
		if f.side != nil {
			files[sideOf(name)] = f.side
		}
	}
	return p, all
}

// come returns the files that must arrive, by the names of the sources.
func (all passedFiles) come(files map[string][]byte) map[string][]byte {
	if all == nil {
		return files
	}
	come := map[string][]byte{}
	for name, f := range all {
		if !f.bad {
			come[name] = f.come
		}
	}
	return come
}

// submitConverted submits a transfer with the conversion of a text conversion.
func (w *world) submitConverted(q transfer.Request, p *textConversion) transfer.ID {
	w.t.Helper()
	if p != nil {
		q.Mode, q.Content = p.q.Mode, p.q.Content
	}
	return w.submitAnyhow(q)
}

// wantConverted registers the required end of such a transfer: without its bad files.
func (w *world) wantConverted(id transfer.ID, under string, files map[string][]byte, p *textConversion, all passedFiles) *wanted {
	x := w.want(id, transfer.Successful, under, all.come(files))
	if p == nil {
		return x
	}
	w.log.say(w.src, "transfer %s is of %s mode, %+v, from records %+v", id, p.q.Mode, p.q.Content, p.fromRec)
	x.passage, x.passed = p, map[string]passed{}
	side := p.sidecar()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, f := range all {
		at := filepath.ToSlash(filepath.Join(under, name))
		x.passed[at] = f
		if w.beside[at] = side; f.bad {
			x.state = transfer.Partial
			x.failed++
		}
	}
	if x.failed == int64(len(all)) {
		x.state = transfer.Failed // even if directories are made
	}
	return x
}

// sent returns the source content of an arrived file.
func (x *wanted) sent(name string, came []byte) []byte {
	if f, ok := x.passed[name]; ok {
		return f.sent
	}
	return came
}

// flanked checks the sidecar of a file when it gets its name, because a consumer that sees the file must be able to
// read it. w.mu is held.
func (w *world) flanked(rel string) {
	want, ok := w.beside[rel]
	if !ok {
		return
	}
	got, err := w.dst.host().get(sideOf(rel))
	if want != nil && !bytes.Equal(got, want) {
		w.torn = append(w.torn, fmt.Sprintf("beside %s lay %q when it got its name, %v; it should have been %q", rel, got, err, want))
	}
}

// checkSidecar checks the sidecars at the destination: each record file has its attributes, and no other file has any.
func (w *world) checkSidecar() {
	w.t.Helper()
	there := map[string][]byte{}
	must(w.t, w.dst.host().each(func(name string, data []byte) { there[name] = data }))
	w.mu.Lock()
	defer w.mu.Unlock()
	owned := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(w.beside)) {
		_, file := there[name]
		got, side := there[sideOf(name)]
		want := w.beside[name]
		owned[sideOf(name)] = true
		switch {
		case !file && side:
			w.t.Errorf("beside %s, which is not there, lies %q", name, got)
		case file && (side != (want != nil) || !bytes.Equal(got, want)):
			w.t.Errorf("beside %s lies %q; it should be %q", name, got, want)
		}
	}
	for name := range there {
		if record.IsSidecar(path.Base(name)) && !owned[name] {
			w.t.Errorf("%s lies beside no record file", name)
		}
	}
	for _, x := range w.wants {
		for at := range x.passed {
			name, _ := strings.CutPrefix(at, "out/")
			_, err := w.src.host().get(name)
			if _, serr := w.src.host().get(sideOf(name)); err != nil && serr == nil {
				w.t.Errorf("the source %s is gone, and what lay beside it is still there", name)
			}
		}
	}
}

// checkConverted compares a transfer's outcomes with the sent files and the arrived ones.
func (w *world) checkConverted(x *wanted, s *ledger.Source, given map[uint64][]transfer.Outcome) {
	w.t.Helper()
	if x.passage == nil {
		return
	}
	m, err := digest.ParseMethod(s.Request.Checksum)
	must(w.t, err)
	sum := func(b []byte) string {
		h := m.New()
		if h != nil {
			h.Write(b)
		}
		return m.Sum(h)
	}
	seen := map[string]bool{}
	for _, all := range given {
		o := all[0]
		if o.Type == transfer.ItemDir {
			continue
		}
		rel, _ := filepath.Rel(w.dst.files("."), string(o.Path))
		f, ok := x.passed[filepath.ToSlash(rel)]
		seen[filepath.ToSlash(rel)] = true
		switch {
		case !ok:
			w.t.Errorf("%s was decided, and nobody sent it", o.Path)
		case f.bad != !o.OK():
			w.t.Errorf("%s: %v; that it cannot be converted is %v", o.Path, o.Err, f.bad)
		case f.bad && o.Err.Kind != transfer.KindUnmappable && o.Err.Kind != transfer.KindMalformed:
			w.t.Errorf("%s has failed as %v: %v", o.Path, o.Err.Kind, o.Err)
		case f.bad:
		case o.Digest != sum(f.sent) || o.SrcSum != sum(f.sent) || o.Size != int64(len(f.sent)):
			w.t.Errorf("%s: digest %s of %d bytes, the source's %s; %s of %d were sent", o.Path, o.Digest, o.Size, o.SrcSum, sum(f.sent), len(f.sent))
		case o.Written == nil && !bytes.Equal(f.sent, f.come):
			w.t.Errorf("%s: it is not on record what was written", o.Path)
		case o.Written == nil:
		case o.Written.Digest != sum(f.come) || o.Written.Size != int64(len(f.come)) || o.Written.Records != f.records || o.Written.Long != f.long:
			w.t.Errorf("%s: %+v is on record as written; it was %s of %d bytes, %d records, %d long", o.Path, *o.Written, sum(f.come), len(f.come), f.records, f.long)
		}
	}
	for name, f := range x.passed {
		if !seen[name] {
			w.t.Errorf("%s was never decided", name)
		}
		if rel, _ := filepath.Rel("out", name); f.bad {
			if got, err := w.src.host().get(filepath.ToSlash(rel)); err != nil || !bytes.Equal(got, f.sent) {
				w.t.Errorf("%s could not be converted, and its source is no longer there: %v", name, err)
			}
		}
	}
}
