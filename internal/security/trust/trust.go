// Package trust has the document by which a network's authority publishes rights and revocations. The document is
// numbered, signed and published. A holder takes no lower number than its own, so an old document cannot be slipped in
// after a revocation. The authority signs it anew each day, so its age shows how long the authority has been silent.
//
// There are two forms of each number. The trust document names revoked keys and roots, and is for every member. The
// rules document has the rules and the roles of users besides, and is for agents, coordination and queue managers. A
// holder takes one of the forms, so rules are always of the number that it holds.
//
// The format is a signed note (golang.org/x/mod/sumdb/note, C2SP signed-note) with one line of JSON as its text. The
// name of its key is that of the network.
package trust

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"ferry/internal/transfer"
)

// Ages of the newest document.
const (
	SignEvery     = 24 * time.Hour
	DegradedAfter = 7 * 24 * time.Hour  // an agent says so
	StaleAfter    = 30 * 24 * time.Hour // an agent accepts nothing new
)

// MaxSize is how large a document may be, in bytes; MaxRevoked how many keys it may name.
const (
	MaxSize    = 1 << 20
	MaxRevoked = 4000
)

// A Document is the content of a trust or rules document.
type Document struct {
	V       int       `json:"v"`
	Network string    `json:"network"`
	Number  uint64    `json:"number"` // from 1 on
	Issued  time.Time `json:"issued"`
	Revoked []Revoked `json:"revoked,omitempty"` // in the order of their keys
	Roots   []string  `json:"roots,omitempty"`   // SHA-256 of the network's roots, in hexadecimal; the one that signs first
	// Policy are the rules of the network, as package policy reads them; nil in a trust document.
	Policy json.RawMessage `json:"policy,omitempty"`
	// Users are the roles of all users, by name. A user that is not listed has no right.
	Users map[string]string `json:"users,omitempty"`
	// Keys are the first 128 bits of the SHA-256 of the present public keys, in hexadecimal, of users with names that had other keys before.
	Keys map[string]string `json:"keys,omitempty"`
}

// Form is whether a document has the rules.
func (d *Document) Form() Form { return d.Policy != nil }

// Revoked names a revoked key.
type Revoked struct {
	TLS   string    `json:"tls"`   // SHA-256 of the certificate's public key, in hexadecimal
	Until time.Time `json:"until"` // when its certificates have ended, and it need not be named any longer
}

const version = 1

// NewKey makes the key of a network's documents: the signer is the authority's secret, the verifier is public.
func NewKey(network string) (signer, verifier string, err error) {
	return note.GenerateKey(rand.Reader, name(network))
}

func name(network string) string { return "ferry/" + network }

// Sign signs a document. The same document has the same bytes.
func Sign(signer string, d Document) ([]byte, error) {
	s, err := note.NewSigner(signer)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the key of the trust document is damaged") // the cause may repeat it
	}
	if len(d.Revoked) > MaxRevoked {
		return nil, transfer.Errorf(transfer.KindTooLarge, "%d keys are revoked; a trust document names %d", len(d.Revoked), MaxRevoked)
	}
	d.V = version
	slices.SortFunc(d.Revoked, func(a, b Revoked) int { return cmp.Or(cmp.Compare(a.TLS, b.TLS), a.Until.Compare(b.Until)) })
	line, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	doc, err := note.Sign(&note.Note{Text: string(line) + "\n"}, s)
	if err == nil && len(doc) > MaxSize {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the trust document has %d bytes; the limit is %d", len(doc), MaxSize)
	}
	return doc, err
}

// Open checks a document of a network and reads it. Its errors are of KindMalformed.
func Open(verifier, network string, data []byte) (*Document, error) {
	v, err := note.NewVerifier(verifier)
	if err != nil || v.Name() != name(network) {
		return nil, transfer.Errorf(transfer.KindMalformed, "the key for trust documents of the network %s is damaged, or another network's", network)
	}
	if len(data) > MaxSize {
		return nil, transfer.Errorf(transfer.KindMalformed, "a trust document of %d bytes; the limit is %d", len(data), MaxSize)
	}
	n, err := note.Open(data, note.VerifierList(v))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trust document is not signed by the network's authority: %w", err)
	}
	// The last bits of a signature in base64 stand for nothing. Two documents of one number
	// are the same only if all their bytes are.
	for _, s := range n.Sigs {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "the signature of the trust document is not written as the authority writes it: %w", err)
		}
	}
	if len(n.UnverifiedSigs) > 0 {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trust document has a signature that is not the authority's")
	}
	var d Document
	if err := json.Unmarshal([]byte(n.Text), &d); err != nil || d.V != version || d.Network != network || d.Number == 0 || d.Issued.IsZero() || len(d.Revoked) > MaxRevoked {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trust document is of another version or network, or out of its ranges")
	}
	return &d, nil
}

// A Form is whether a document has the rules.
type Form bool

// The forms.
const (
	Keys  Form = false // revoked keys and roots alone
	Rules Form = true  // also the rules and the roles of users
)

// String is "rules" or "trust".
func (f Form) String() string {
	if f == Rules {
		return "rules"
	}
	return "trust"
}

// A State has the newest document of one form that it was given. It is safe for concurrent use.
type State struct {
	verifier, network string
	form              Form

	taking sync.Mutex // held by Take, also while it keeps a document

	mu  sync.Mutex // held for a moment to read or set the rest; Held must not wait until a document is kept
	doc *Document
	raw []byte
}

// NewState begins with the kept document; nil: none. The document was checked before, and is checked again.
func NewState(verifier, network string, form Form, kept []byte) (*State, error) {
	h := &State{verifier: verifier, network: network, form: form}
	if kept == nil {
		return h, nil
	}
	_, err := h.Take(kept, func([]byte) error { return nil })
	return h, err
}

// Take takes a document that is newer than the one that is held, and reports whether it was newer. First keep must have
// stored it durably. An older document is an error of KindConflict, and so is a different one of the same number: the
// key has signed twice. While keep runs, Held returns the document before, at once.
func (h *State) Take(data []byte, keep func([]byte) error) (fresh bool, err error) {
	d, err := Open(h.verifier, h.network, data)
	if err != nil {
		return false, err
	}
	if d.Form() != h.form {
		return false, transfer.Errorf(transfer.KindMalformed, "document %d of the network %s is a %s document, and a %s document is kept here", d.Number, h.network, d.Form(), h.form)
	}
	h.taking.Lock()
	defer h.taking.Unlock()
	switch held, raw := h.Held(); {
	case held == nil || d.Number > held.Number:
		if err := keep(data); err != nil {
			return false, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.doc, h.raw = d, slices.Clone(data)
		return true, nil
	case d.Number < held.Number:
		return false, transfer.Errorf(transfer.KindConflict, "trust document %d of the network %s came after %d: it is old", d.Number, h.network, held.Number)
	case string(data) != string(raw):
		return false, transfer.Errorf(transfer.KindConflict, "there are two trust documents %d of the network %s: another authority has its key", d.Number, h.network)
	}
	return false, nil
}

// Held is the document that is held, and as it was signed; nil: none is.
func (h *State) Held() (*Document, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doc, h.raw
}

// Age returns the age of the held document; without one, that of a stale one. The age of a document from more than a
// day ahead is not known, because a clock is wrong: Age returns DegradedAfter.
func (h *State) Age(now time.Time) time.Duration {
	d, _ := h.Held()
	if d == nil {
		return StaleAfter
	}
	age := now.Sub(d.Issued)
	if age < -SignEvery {
		return DegradedAfter
	}
	return max(age, 0)
}
