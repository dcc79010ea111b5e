package trust

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

const testNet = "abcdefgh12"

func key(t testing.TB, network string) (signer, verifier string) {
	t.Helper()
	s, v, err := NewKey(network)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func signed(t testing.TB, signer string, d Document) []byte {
	t.Helper()
	b, err := Sign(signer, d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func doc(number uint64, revoked ...string) Document {
	d := Document{Network: testNet, Number: number, Issued: time.Unix(1_800_000_000, 0).UTC().Add(time.Duration(number) * time.Hour)}
	for _, k := range revoked {
		d.Revoked = append(d.Revoked, Revoked{TLS: k, Until: d.Issued.Add(time.Hour)})
	}
	return d
}

// A signed document is read as it was written; a changed one is refused.
func TestSigned(t *testing.T) {
	signer, verifier := key(t, testNet)
	data := signed(t, signer, doc(7, "bb", "aa"))
	if again := signed(t, signer, doc(7, "aa", "bb")); !bytes.Equal(data, again) {
		t.Error("the same document has other bytes")
	}
	d, err := Open(verifier, testNet, data)
	if err != nil || d.Number != 7 || len(d.Revoked) != 2 || d.Revoked[0].TLS != "aa" {
		t.Fatalf("%+v, %v", d, err)
	}
	for n := range data {
		bad := bytes.Clone(data)
		bad[n] ^= 1
		if _, err := Open(verifier, testNet, bad); transfer.KindOf(err) != transfer.KindMalformed {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
	otherSigner, otherVerifier := key(t, testNet)
	foreign, foreignVerifier := key(t, "otherother")
	elsewhere := doc(8)
	elsewhere.Network = "otherother"
	for what, err := range map[string]error{
		"another key's":          open(verifier, testNet, signed(t, otherSigner, doc(8))),
		"by another key":         open(otherVerifier, testNet, data),
		"another network's":      open(foreignVerifier, testNet, signed(t, foreign, elsewhere)),
		"for another network":    open(verifier, testNet, signed(t, signer, elsewhere)),
		"without a number":       open(verifier, testNet, signed(t, signer, doc(0))),
		"cut":                    open(verifier, testNet, data[:len(data)-5]),
		"nothing":                open(verifier, testNet, nil),
		"too large":              open(verifier, testNet, make([]byte, MaxSize+1)),
		"by a key that is none":  open("x", testNet, data),
		"with no time":           open(verifier, testNet, signed(t, signer, Document{Network: testNet, Number: 8})),
		"under another net's ID": open(verifier, "otherother", data),
	} {
		if transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Sign("PRIVATE+KEY+secret", doc(1)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a damaged key: %v", err)
	}
	var many []string
	for n := range MaxRevoked + 1 {
		many = append(many, fmt.Sprintf("%064x", n))
	}
	if _, err := Sign(signer, doc(1, many...)); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("too many: %v", err)
	}
	if data := signed(t, signer, doc(1, many[1:]...)); open(verifier, testNet, data) != nil {
		t.Errorf("a full one of %d bytes is not read", len(data))
	}
}

func open(verifier, network string, data []byte) error {
	_, err := Open(verifier, network, data)
	return err
}

// A lower number is never taken, nor a second document of a number, in any order of documents and restarts.
func TestNumbersOnlyGrow(t *testing.T) {
	signer, verifier := key(t, testNet)
	h, err := NewState(verifier, testNet, Keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.Age(time.Now()) < StaleAfter {
		t.Error("without a document it is young")
	}
	var full error // of where documents are kept
	keep := func([]byte) error { return full }
	take := func(d Document, fresh bool, kind transfer.Kind) {
		t.Helper()
		got, err := h.Take(signed(t, signer, d), keep)
		if got != fresh || transfer.KindOf(err) != kind {
			t.Errorf("document %d: %v, %v", d.Number, got, err)
		}
	}
	take(doc(5), true, transfer.KindNone)
	take(doc(5), false, transfer.KindNone)
	take(doc(4), false, transfer.KindConflict)
	take(doc(5, "aa"), false, transfer.KindConflict)
	full = transfer.Errorf(transfer.KindNoSpace, "the disk is full")
	take(doc(9, "aa"), false, transfer.KindNoSpace)
	full = nil
	take(doc(9, "aa"), true, transfer.KindNone)
	take(doc(5), false, transfer.KindConflict)
	_, raw := h.Held()
	if h, err = NewState(verifier, testNet, Keys, raw); err != nil {
		t.Fatal(err)
	}
	take(doc(8), false, transfer.KindConflict)
	take(doc(10), true, transfer.KindNone)
	d, _ := h.Held()
	for off, want := range map[time.Duration]time.Duration{-time.Hour: 0, -48 * time.Hour: DegradedAfter, time.Hour: time.Hour, StaleAfter: StaleAfter} {
		if age := h.Age(d.Issued.Add(off)); age != want {
			t.Errorf("%s later it is %s old", off, age)
		}
	}
	if _, err := NewState(verifier, testNet, Keys, raw[:10]); err == nil {
		t.Error("a damaged document that was kept is taken")
	}
}

// FuzzOpen: no document is taken that the authority has not signed.
func FuzzOpen(f *testing.F) {
	signer, verifier := key(f, testNet)
	good := signed(f, signer, doc(3, "aa"))
	for _, s := range [][]byte{nil, good, good[:len(good)/2], bytes.Replace(good, []byte("aa"), []byte("bb"), 1), []byte("{}\n\n— x y\n")} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Open(verifier, testNet, data)
		if err == nil && (d.Number != 3 || len(d.Revoked) != 1 || d.Revoked[0].TLS != "aa") {
			t.Fatalf("%+v is taken", d)
		}
	})
}

// TestAHolderTakesOneForm holds that a document of the other form changes nothing, also with a greater number: rules
// are always of the number that the holder has.
func TestAHolderTakesOneForm(t *testing.T) {
	signer, verifier := key(t, testNet)
	with := func(number uint64) Document {
		d := doc(number)
		d.Policy, d.Users = json.RawMessage(`{"v":1,"rules":[]}`), map[string]string{"ann": "admin"}
		return d
	}
	without := func(number uint64) Document { return doc(number) }
	keep := func([]byte) error { return nil }
	for _, form := range []Form{Keys, Rules} {
		h, err := NewState(verifier, testNet, form, nil)
		if err != nil {
			t.Fatal(err)
		}
		own, other := without, with
		if form == Rules {
			own, other = with, without
		}
		if fresh, err := h.Take(signed(t, signer, own(5)), keep); !fresh || err != nil {
			t.Errorf("a %s document: %v", form, err)
		}
		if fresh, err := h.Take(signed(t, signer, other(6)), keep); fresh || transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("a %s document is given the other form: %v", form, err)
		}
		if d, _ := h.Held(); d.Number != 5 || d.Form() != form {
			t.Errorf("held is document %d, a %s document", d.Number, d.Form())
		}
		if _, err := NewState(verifier, testNet, form, signed(t, signer, other(4))); err == nil {
			t.Errorf("a kept document of the other form than %s is taken", form)
		}
	}
}

// TestADocumentIsHeldWhileANewerOneIsKept holds that Held gives the document before, at once, while Take keeps a newer
// one. keep waits for the transactions of a ledger, and these ask for the age of the document.
func TestADocumentIsHeldWhileANewerOneIsKept(t *testing.T) {
	signer, verifier := key(t, testNet)
	h, err := NewState(verifier, testNet, Keys, signed(t, signer, doc(5)))
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []uint64{6, 7} {
		fresh, err := h.Take(signed(t, signer, doc(number)), func([]byte) error {
			if !h.mu.TryLock() {
				t.Fatal("Held waits until the newer document is kept")
			}
			h.mu.Unlock()
			if d, _ := h.Held(); d.Number != number-1 {
				t.Errorf("document %d is held before document %d is kept", d.Number, number)
			}
			if age := h.Age(doc(number).Issued); age != time.Hour {
				t.Errorf("the document before is %s old", age)
			}
			return nil
		})
		if !fresh || err != nil {
			t.Errorf("document %d: %t, %v", number, fresh, err)
		}
		if d, _ := h.Held(); d.Number != number {
			t.Errorf("document %d is held after document %d was kept", d.Number, number)
		}
	}
}
