package witness_test

import (
	"encoding/json"
	"testing"
	"time"

	"ferry/internal/audit/witness"
	"ferry/internal/security/identity"
)

// The decoders never panic, and checked data is the data that was signed.

func FuzzBinding(f *testing.F) {
	c := newCast(f)
	f.Add(c.alpha.Binding().Encode())
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := witness.DecodeBinding(data)
		if err != nil {
			return
		}
		if p, err := b.Check(c.roots); err == nil && p.ID != c.alpha.Party().ID {
			t.Errorf("%s is bound to %s", data, p.Name)
		}
	})
}

func FuzzNote(f *testing.F) {
	c := newCast(f)
	tree := grow(f, logA, 9, plain)
	n := c.show(f, tree, 0, 9).Note
	line, err := c.alpha.Cosign(n, time.Unix(1, 0))
	must(f, err)
	f.Add(n, line)
	f.Add([]byte("ferry/x/audit\n1\n\nlog 1\n\n"), []byte("— x AAAA\n"))
	f.Fuzz(func(t *testing.T, data, line []byte) {
		if cp, err := witness.OpenNote(data, c.service.Party()); err == nil && cp != tree.at(t, c.net.Network(), 9) {
			t.Errorf("%q is %v", data, cp)
		}
		if with, err := witness.AddCosignature(data, line, c.alpha.Party()); err == nil && len(with) > len(data)+512 {
			t.Errorf("it has grown by %d bytes", len(with)-len(data))
		}
	})
}

func FuzzShown(f *testing.F) {
	c := newCast(f)
	tree := grow(f, logA, 9, plain)
	s := c.show(f, tree, 4, 9)
	s.Runs = []witness.Run{{First: 1, Count: 2, Index: 3, Proof: s.Proof}}
	data, err := json.Marshal(s)
	must(f, err)
	f.Add(data)
	f.Add([]byte(`{"v":1,"binding":{}}`))
	m, err := witness.NewMemory(c.roots, nil)
	must(f, err)
	m, err = m.Take(c.show(f, tree, 0, 4), time.Unix(1, 0))
	must(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := witness.DecodeShown(data)
		if err != nil {
			return
		}
		next, _ := m.Take(s, time.Unix(2, 0))
		if h, _ := next.Held(); h.Size != 4 && h.Size != 9 {
			t.Errorf("%s is taken", data)
		}
		for _, r := range s.Runs {
			_ = witness.CheckRun(r.Proof, tree.at(t, c.net.Network(), 9), r.Index, tree.leaves[:min(r.Count, 9)])
		}
	})
}

func FuzzMemory(f *testing.F) {
	c := newCast(f)
	tree := grow(f, logA, 9, plain)
	m, err := witness.NewMemory(c.roots, nil)
	must(f, err)
	m, err = m.Take(c.show(f, tree, 0, 9), time.Unix(1, 0))
	must(f, err)
	f.Add(m.Encode())
	m, _ = m.Take(c.show(f, tree, 0, 4), time.Unix(1, 0))
	f.Add(m.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := witness.NewMemory(c.roots, data); err == nil {
			_ = m.Trouble()
		}
	})
}

func FuzzStatement(f *testing.F) {
	c := newCast(f)
	m, err := witness.NewMemory(c.roots, nil)
	must(f, err)
	m, err = m.Take(c.show(f, grow(f, logA, 9, plain), 0, 9), time.Unix(1, 0))
	must(f, err)
	s, err := c.alpha.State(m, time.Unix(2, 0))
	must(f, err)
	data, err := json.Marshal(s)
	must(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := witness.DecodeStatement(data)
		if err != nil {
			return
		}
		if p, _, ok, err := s.Check(c.roots); ok && err == nil && p.Name.Role != identity.Agent {
			t.Errorf("%s is a witness", p.Name)
		}
	})
}
