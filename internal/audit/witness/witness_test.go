package witness_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, k transfer.Kind) {
	t.Helper()
	if transfer.KindOf(err) != k {
		t.Fatalf("%v is of kind %v, want %v", err, transfer.KindOf(err), k)
	}
}

// A cast is a network with coordination and two agents.
type cast struct {
	net                 *authority.Authority
	roots               *identity.Roots
	service, alpha, eve *witness.Key
	self                *identity.Identity // ALPHA's
}

func newCast(t testing.TB) *cast {
	t.Helper()
	c := &cast{net: authoritytest.New(t)}
	open := func(role identity.Role, name string, as roles.Role) (*identity.Identity, *witness.Key) {
		i := authoritytest.Identity(t, c.net, role, name, as)
		k, err := witness.OpenKey(i, time.Now())
		must(t, err)
		return i, k
	}
	var i *identity.Identity
	i, c.service = open(identity.Coordination, "", roles.Coordination)
	c.roots = i.Roots()
	c.self, c.alpha = open(identity.Agent, "ALPHA", roles.Agent)
	_, c.eve = open(identity.Agent, "EVE", roles.Agent)
	return c
}

// A forest is a log of leaves in memory.
type forest struct {
	log    string
	stored []tlog.Hash
	leaves []tlog.Hash
}

func (f *forest) ReadHashes(at []int64) (list []tlog.Hash, _ error) {
	for _, i := range at {
		list = append(list, f.stored[i])
	}
	return list, nil
}

func grow(t testing.TB, log string, n int, leaf func(i int) string) *forest {
	t.Helper()
	f := &forest{log: log}
	for i := range n {
		h := tlog.RecordHash([]byte(leaf(i)))
		more, err := tlog.StoredHashesForRecordHash(int64(i), h, f)
		must(t, err)
		f.stored, f.leaves = append(f.stored, more...), append(f.leaves, h)
	}
	return f
}

func plain(i int) string { return fmt.Sprint("record ", i) }

func (f *forest) at(t testing.TB, network string, size int64) witness.Checkpoint {
	t.Helper()
	root, err := tlog.TreeHash(size, f)
	must(t, err)
	return witness.Checkpoint{Network: network, Size: size, Root: root, Log: f.log}
}

// show returns coordination's answer for the forest at a size.
func (c *cast) show(t testing.TB, f *forest, from, size int64) *witness.Shown {
	t.Helper()
	n, err := c.service.Sign(f.at(t, c.net.Network(), size))
	must(t, err)
	s := &witness.Shown{V: 1, Signed: witness.Signed{Note: n, Binding: c.service.Binding()}}
	if from > 0 && from <= size {
		s.Proof, err = tlog.ProveTree(size, from, f)
		must(t, err)
	}
	return s
}

const logA, logB = "000000000000000a", "000000000000000b"

func TestKeyIsKept(t *testing.T) {
	c := newCast(t)
	again, err := witness.OpenKey(c.self, time.Now().Add(time.Hour))
	must(t, err)
	if again.Party().ID != c.alpha.Party().ID {
		t.Error("the binding is another one after a restart")
	}
	for _, far := range []time.Duration{-1000 * time.Hour, 10_000 * time.Hour} { // a wrong clock
		i := authoritytest.Identity(t, c.net, identity.Agent, "GAMMA", roles.Agent)
		_, err := witness.OpenKey(i, time.Now().Add(far))
		must(t, err)
	}
}

func TestBindings(t *testing.T) {
	c := newCast(t)
	good := c.alpha.Binding()
	if p, err := good.Check(c.roots); err != nil || p.Name.Name != "ALPHA" {
		t.Fatal(p, err)
	}
	again, err := witness.DecodeBinding(good.Encode())
	must(t, err)
	if again.ID() != good.ID() {
		t.Error("it is read as another")
	}
	for name, change := range map[string]func(*witness.Binding){
		"another key":         func(b *witness.Binding) { b.Key = c.eve.Binding().Key },
		"another time":        func(b *witness.Binding) { b.Time++ },
		"a time long ago":     func(b *witness.Binding) { b.Time = 1 },
		"another's name":      func(b *witness.Binding) { b.Identity.Name = "EVE" },
		"another certificate": func(b *witness.Binding) { b.Chain = c.eve.Binding().Chain },
		"no signature":        func(b *witness.Binding) { b.Signature = nil },
		"no certificate":      func(b *witness.Binding) { b.Chain = nil },
		"a short key":         func(b *witness.Binding) { b.Key = b.Key[:31] },
		"another version":     func(b *witness.Binding) { b.V = 2 },
	} {
		b := *good
		b.Key = slices.Clone(b.Key)
		change(&b)
		if _, err := b.Check(c.roots); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := newCast(t)
	_, err = good.Check(other.roots)
	wantKind(t, err, transfer.KindMalformed)
	_, err = good.As(identity.Coordination, c.roots)
	wantKind(t, err, transfer.KindMalformed)
}

// A cosignature and a checkpoint have the bytes that C2SP specifies.
func TestNotesAsWritten(t *testing.T) {
	c := newCast(t)
	f := grow(t, logA, 5, plain)
	n := c.show(t, f, 0, 5).Note
	cp := f.at(t, c.net.Network(), 5)
	want := fmt.Sprintf("ferry/%s/audit\n5\n%s\nlog %s\n\n— ferry/%[1]s/audit ", c.net.Network(), base64.StdEncoding.EncodeToString(cp.Root[:]), logA)
	if !strings.HasPrefix(string(n), want) {
		t.Errorf("%q\n%q", n, want)
	}
	// The library's own verifier accepts it.
	v, err := note.NewEd25519VerifierKey("ferry/"+c.net.Network()+"/audit", c.service.Binding().Key)
	must(t, err)
	own, err := note.NewVerifier(v)
	must(t, err)
	_, err = note.Open(n, note.VerifierList(own))
	must(t, err)

	at := time.Unix(1679315147, 0)
	line, err := c.alpha.Cosign(n, at)
	must(t, err)
	if want := "— ferry/" + c.net.Network() + "/agent/ALPHA "; !strings.HasPrefix(string(line), want) {
		t.Errorf("%q", line)
	}
	with, err := witness.AddCosignature(n, line, c.alpha.Party())
	must(t, err)
	if got, ok := witness.Cosigned(with, c.alpha.Party()); !ok || !got.Equal(at) {
		t.Errorf("cosigned at %v, %v", got, ok)
	}
	if got, err := witness.OpenNote(with, c.service.Party()); err != nil || got != cp {
		t.Errorf("%v, %v", got, err)
	}
	if _, ok := witness.Cosigned(with, c.eve.Party()); ok {
		t.Error("EVE has cosigned it")
	}
	for name, bad := range map[string][]byte{
		"another's":       []byte(strings.Replace(string(line), "ALPHA", "EVE", 1)),
		"of another note": must1(c.alpha.Cosign(c.show(t, f, 0, 4).Note, at))(t),
		"two lines":       append(slices.Clone(line), line...),
		"none":            nil,
	} {
		if _, err := witness.AddCosignature(n, bad, c.alpha.Party()); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = witness.OpenNote(n, c.alpha.Party())
	wantKind(t, err, transfer.KindMalformed)
	_, err = witness.OpenNote(append(n, 'x'), c.service.Party())
	wantKind(t, err, transfer.KindMalformed)
}

func must1(b []byte, err error) func(testing.TB) []byte {
	return func(t testing.TB) []byte { must(t, err); return b }
}

func TestRuns(t *testing.T) {
	c := newCast(t)
	f := grow(t, logA, 70, plain)
	for size := int64(1); size <= 70; size += 3 {
		cp := f.at(t, c.net.Network(), size)
		if got := witness.RootOf(f.leaves[:size]); got != cp.Root {
			t.Fatalf("size %d: another root", size)
		}
		for lo := int64(0); lo < size; lo++ {
			for hi := lo + 1; hi <= size; hi += 4 {
				p, err := witness.ProveRun(size, lo, hi, f)
				must(t, err)
				leaves := f.leaves[lo:hi]
				if err := witness.CheckRun(p, cp, lo, leaves); err != nil {
					t.Fatalf("%d..%d of %d: %v", lo, hi, size, err)
				}
				wrong := slices.Clone(leaves)
				wrong[len(wrong)/2][3] ^= 1
				for _, err := range []error{witness.CheckRun(p, cp, lo, wrong), witness.CheckRun(p, cp, lo+1, leaves),
					witness.CheckRun(append(slices.Clone(p), tlog.Hash{}), cp, lo, leaves), witness.CheckRun(p, cp, lo, nil), witness.CheckRun(p, cp, -1, leaves)} {
					wantKind(t, err, transfer.KindDigest)
				}
			}
		}
	}
	for n := 1; n < 20; n++ {
		for i := range n {
			must(t, tlog.CheckRecord(witness.PathOf(f.leaves[:n], i), int64(n), witness.RootOf(f.leaves[:n]), int64(i), f.leaves[i]))
		}
	}
}

func TestSeals(t *testing.T) {
	c := newCast(t)
	leaves := grow(t, logA, 3, plain).leaves
	root := witness.RootOf(leaves)
	b := witness.Batch{Incarnation: logA, Floor: 5, First: 7, Count: 3}
	s := c.alpha.Seal("ALPHA", b, root)
	alpha := c.alpha.Party()
	must(t, alpha.CheckSeal(s, "ALPHA", b, root))
	for _, err := range []error{
		c.eve.Party().CheckSeal(s, "ALPHA", b, root),
		alpha.CheckSeal(s, "ALPHA", witness.Batch{Incarnation: logB, Floor: 5, First: 7, Count: 3}, root),
		alpha.CheckSeal(s, "ALPHA", witness.Batch{Incarnation: logA, Floor: 6, First: 7, Count: 3}, root),
		alpha.CheckSeal(s, "ALPHA", witness.Batch{Incarnation: logA, Floor: 5, First: 8, Count: 3}, root),
		alpha.CheckSeal(s, "ALPHA", witness.Batch{Incarnation: logA, Floor: 5, First: 7, Count: 2}, root),
		alpha.CheckSeal(s, "ALPHA", b, leaves[0]), alpha.CheckSeal(s[1:], "ALPHA", b, root),
		c.service.Party().CheckSeal(c.service.Seal("ALPHA", b, root), "ALPHA", b, root),
	} {
		wantKind(t, err, transfer.KindDenied)
	}
}

// TestSealsOfPipes: the key of a user seals the batches of that user's pipes, and no others.
func TestSealsOfPipes(t *testing.T) {
	c := newCast(t)
	user := func(name string) *witness.Key {
		k, err := witness.OpenKey(authoritytest.Identity(t, c.net, identity.User, name, roles.User), time.Now())
		must(t, err)
		return k
	}
	bob, eve := user("bob"), user("eve")
	root := witness.RootOf(grow(t, logA, 3, plain).leaves)
	b := witness.Batch{Incarnation: logA, Floor: 5, First: 7, Count: 3}
	pipe := transfer.StreamAgentOf(bob.Party().Name.String(), transfer.ID{15: 1})
	s := bob.Seal(pipe, b, root)
	must(t, bob.Party().CheckSeal(s, pipe, b, root))
	p, err := bob.Binding().AsSealer(c.roots)
	must(t, err)
	must(t, p.CheckSeal(s, pipe, b, root))
	for _, err := range []error{
		bob.Party().CheckSeal(s, transfer.StreamAgentOf(bob.Party().Name.String(), transfer.ID{15: 2}), b, root),
		bob.Party().CheckSeal(bob.Seal("ALPHA", b, root), "ALPHA", b, root),
		bob.Party().CheckSeal(bob.Seal("BOB", b, root), "BOB", b, root),
		eve.Party().CheckSeal(eve.Seal(pipe, b, root), pipe, b, root),
		c.alpha.Party().CheckSeal(c.alpha.Seal(pipe, b, root), pipe, b, root),
	} {
		wantKind(t, err, transfer.KindDenied)
	}
	_, err = c.service.Binding().AsSealer(c.roots)
	wantKind(t, err, transfer.KindMalformed)
	_, err = bob.Binding().As(identity.Agent, c.roots)
	wantKind(t, err, transfer.KindMalformed)
}

// Shown notes that a witness accepts or refuses, and its memory afterwards.
func TestMemory(t *testing.T) {
	c := newCast(t)
	a := grow(t, logA, 60, plain)
	b := grow(t, logA, 60, func(i int) string { return strings.Replace(plain(i), "17", "seventeen", 1) })
	anew := grow(t, logB, 60, plain)
	now := time.Unix(1_800_000_000, 0)
	start, err := witness.NewMemory(c.roots, nil)
	must(t, err)
	m, err := start.Take(c.show(t, a, 0, 0), now) // a log without records
	must(t, err)
	m, err = m.Take(c.show(t, a, 0, 20), now)
	must(t, err)
	m, err = m.Take(c.show(t, a, 20, 40), now)
	must(t, err)
	if h, ok := m.Held(); !ok || h.Size != 40 {
		t.Fatalf("%v, %v", h, ok)
	}
	if same, err := m.Take(c.show(t, a, 40, 40), now); err != nil || same != m {
		t.Errorf("the same note: %v", err)
	}

	forged := c.show(t, b, 40, 50)
	forged.Binding = c.eve.Binding()
	unproved := c.show(t, a, 40, 50)
	unproved.Proof = nil
	for name, try := range map[string]struct {
		shown *witness.Shown
		kind  transfer.Kind
		words string
	}{
		"smaller":         {c.show(t, a, 0, 30), transfer.KindConflict, "put back or cut"},
		"another root":    {c.show(t, b, 0, 40), transfer.KindConflict, "forked"},
		"forked before":   {c.show(t, b, 40, 50), transfer.KindConflict, "forked"},
		"without a proof": {unproved, transfer.KindConflict, "cannot prove"},
		"another log":     {c.show(t, anew, 40, 50), transfer.KindConflict, "another audit log"},
		"somebody else":   {forged, transfer.KindMalformed, "signs as agent"},
	} {
		next, err := m.Take(try.shown, now)
		if transfer.KindOf(err) != try.kind || !strings.Contains(err.Error(), try.words) && try.kind == transfer.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
		if try.kind == transfer.KindMalformed {
			if next != m {
				t.Errorf("%s: it is kept", name)
			}
			continue
		}
		if h, _ := next.Held(); h.Size != 40 || len(next.Forks) != 1 || next.Trouble() == "" || next.Forks[0].Anew != (name == "another log") {
			t.Errorf("%s: %+v", name, next)
		}
		kept, err := witness.NewMemory(c.roots, next.Encode())
		must(t, err)
		if again, err := kept.Take(try.shown, now); again != kept || transfer.KindOf(err) != transfer.KindConflict {
			t.Errorf("%s: shown again it is %v", name, err)
		}
		// The good log continues, and the trouble is still recorded.
		on, err := kept.Take(c.show(t, a, 40, 45), now)
		if h, _ := on.Held(); err != nil || h.Size != 45 || on.Trouble() == "" {
			t.Errorf("%s: afterwards %v", name, err)
		}
		settled, _, err := on.Accept(&try.shown.Signed)
		if err != nil || settled.Trouble() != "" {
			t.Errorf("%s: accepted: %v", name, err)
		}
	}

	many := m
	for size := int64(41); size < 60; size++ {
		many, _ = many.Take(c.show(t, b, 40, size), now)
	}
	if len(many.Forks) != 4 || many.More != 1 || len(many.Encode()) > witness.MaxMemory {
		t.Errorf("%d forks are kept, and %d more", len(many.Forks), many.More)
	}
}

func TestStatements(t *testing.T) {
	c := newCast(t)
	a := grow(t, logA, 40, plain)
	now := time.Unix(1_800_000_000, 0)
	m, err := witness.NewMemory(c.roots, nil)
	must(t, err)
	s, err := c.alpha.State(m, now)
	must(t, err)
	if _, _, ok, err := s.Check(c.roots); ok || err != nil {
		t.Errorf("a witness that has seen nothing: %v, %v", ok, err)
	}
	m, err = m.Take(c.show(t, a, 0, 20), now)
	must(t, err)
	s, err = c.alpha.State(m, now)
	must(t, err)
	data, err := json.Marshal(s)
	must(t, err)
	s, err = witness.DecodeStatement(data)
	must(t, err)
	p, cp, ok, err := s.Check(c.roots)
	if err != nil || !ok || cp.Size != 20 || p.Name.Name != "ALPHA" {
		t.Fatalf("%v %v %v %v", p, cp, ok, err)
	}
	must(t, s.Shows(c.roots, c.show(t, a, 20, 40), now))
	wantKind(t, s.Shows(c.roots, c.show(t, a, 0, 10), now), transfer.KindConflict)
	s.Cosigned, err = c.eve.Cosign(s.Last.Note, now)
	must(t, err)
	_, _, _, err = s.Check(c.roots)
	wantKind(t, err, transfer.KindMalformed)
}
