// Package word has messages that are signed by their author: requests, commands, questions. A
// queue manager carries them and is not believed for any author.
//
// A signed message is a head, a line feed, and a body. The head is a Word, one line of JSON. The body is the
// message, byte for byte as it was signed. The signature is made with the key of the author's
// certificate, ECDSA P-256 over the SHA-256 of eight lines:
//
//	ferry word v1
//	KIND
//	AUTHOR               ferry://NETWORK/ROLE/NAME
//	PRINCIPAL            that the author speaks for; "-": itself
//	ADDRESSEE            ferry://NETWORK/ROLE/NAME
//	ID                   of the transfer, or of the command or question
//	MADE UNTIL           milliseconds since 1970
//	LENGTH SHA-256       of the body, in decimal and in hexadecimal
//
// The head carries the author's certificate alone, because each reader has the network's issuers. While the
// network changes its root the head carries the issuers, too.
//
// A word has no counter: messages may be lost, repeated and reordered. A reader refuses a repeat by its ID,
// which it keeps for longer than a word is good.
package word

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

const version = 1

// Bounds of a head.
const (
	MaxHead      = 8 << 10 // bytes
	maxChain     = 4       // certificates
	maxSignature = 80      // bytes
)

// A Kind is a kind of message that is signed.
type Kind string

// The kinds.
const (
	Submit    Kind = "submit"    // a request or a part of one, with the ID of the transfer
	Control   Kind = "control"   // a command to an agent
	Ask       Kind = "ask"       // a question to an agent or to coordination
	Authority Kind = "authority" // a question to the network's authority
)

// life is how long a word of a kind may be good; 0: there is no such kind. A queue manager keeps requests and
// commands for 14 days, and an agent keeps their IDs for 30.
func (k Kind) life() time.Duration {
	switch k {
	case Submit, Control:
		return 15 * 24 * time.Hour
	case Ask, Authority:
		return 2 * time.Hour
	}
	return 0
}

// noun is the kind in sentences.
func (k Kind) noun() string {
	switch k {
	case Submit:
		return "request"
	case Control:
		return "command"
	}
	return "question"
}

// Ahead is how far the author's clock may be ahead of the reader's.
const Ahead = time.Hour

// A Statement is the signed part of a head.
type Statement struct {
	Kind  Kind          `json:"kind"`
	By    identity.Name `json:"by"`
	For   identity.Name `json:"for,omitzero"` // the principal that the author speaks for; zero: for itself
	To    identity.Name `json:"to"`
	ID    transfer.ID   `json:"id"`
	Made  int64         `json:"made"` // milliseconds since 1970
	Until int64         `json:"until"`
}

// text gives the lines that are signed.
func (s *Statement) text(size int, sum string) []byte {
	principal := "-"
	if s.For != (identity.Name{}) {
		principal = s.For.String()
	}
	return fmt.Appendf(nil, "ferry word v1\n%s\n%s\n%s\n%s\n%s\n%d %d\n%d %s\n", s.Kind, s.By, principal, s.To, s.ID, s.Made, s.Until, size, sum)
}

// A Word is the head of a signed message. Nothing in it is true before a Checker has checked it.
type Word struct {
	V int `json:"word"` // the first field: a message that begins with it is signed
	Statement
	Chain     [][]byte `json:"chain"` // certificates in DER, the author's first
	Signature []byte   `json:"signature"`
}

// An Author is the record of a word that was checked. With the author's certificate it proves the
// signature of a body.
type Author struct {
	Statement
	Size      int    `json:"size"`
	Sum       string `json:"sum"` // SHA-256 of the body, in hexadecimal
	Key       string `json:"key"` // identity.KeyHash of the author's certificate
	Signature []byte `json:"signature"`
}

// Delegated reports whether the author speaks for another user.
func (a *Author) Delegated() bool { return a.For != (identity.Name{}) }

// Principal is the token of the member that the author speaks for, which may be the author itself.
func (a *Author) Principal() string {
	if a.Delegated() {
		return a.For.Token()
	}
	return a.By.Token()
}

// An Origin is the principal of a message, and its author; no author: the message was not signed.
type Origin struct {
	Principal string  `json:"principal,omitempty"`
	Author    *Author `json:"author,omitempty"`
	// Holder is the begin of the fingerprint of the principal's key by the rules of that time, where the principal has not
	// signed the message itself. Rules name the keys of some users; of others it is empty.
	Holder string `json:"holder,omitempty"`
}

// SignedWith reports whether the owner of a key has signed.
func (a *Author) SignedWith(key *ecdsa.PublicKey) bool {
	sum := sha256.Sum256(a.text(a.Size, a.Sum))
	return ecdsa.VerifyASN1(key, sum[:], a.Signature)
}

// start is how a signed message begins.
var start = []byte(`{"word":`)

// Sign signs a body for an addressee, and gives the whole message. s has the kind, the addressee and the ID; the other fields
// are filled in.
func Sign(self *identity.Identity, s Statement, body []byte, now time.Time) []byte {
	cert := self.Certificate()
	// The clock of the author may be wrong: that of the reader decides if the difference matters.
	if now.Before(cert.Leaf.NotBefore) {
		now = cert.Leaf.NotBefore
	}
	if now.After(cert.Leaf.NotAfter) {
		now = cert.Leaf.NotAfter
	}
	s.By, s.Made, s.Until = self.Name(), now.UnixMilli(), now.Add(s.Kind.life()).UnixMilli()
	w := Word{V: version, Statement: s, Chain: cert.Certificate}
	if len(w.Chain) == 2 {
		w.Chain = w.Chain[:1] // the reader has the issuer
	}
	sum := sha256.Sum256(s.text(len(body), sumOf(body)))
	var err error
	if w.Signature, err = ecdsa.SignASN1(rand.Reader, self.Keys().TLS, sum[:]); err != nil {
		panic("internal error: a word that cannot be signed: " + err.Error())
	}
	head, err := json.Marshal(w)
	if err != nil {
		panic("internal error: a word that cannot be written: " + err.Error())
	}
	return append(append(head, '\n'), body...)
}

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Open takes a message apart. The word is nil where the message is not signed; then the body is all of it. The
// error is of KindMalformed or KindVersion.
func Open(data []byte) (w *Word, body []byte, err error) {
	if !bytes.HasPrefix(data, start) {
		return nil, data, nil
	}

	end := bytes.IndexByte(data[:min(len(data), MaxHead)], '\n')
	if end < 0 {
		return nil, nil, transfer.Errorf(transfer.KindMalformed, "the head of a signed message has no end, or more than %d bytes", MaxHead)
	}
	w = new(Word)
	d := json.NewDecoder(bytes.NewReader(data[:end]))
	d.DisallowUnknownFields()
	if err := d.Decode(w); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindMalformed, "the head of a signed message cannot be read: %w", err)
	}
	if w.V != version {
		return nil, nil, transfer.Errorf(transfer.KindVersion, "a message is signed in version %d; version %d is understood", w.V, version)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, transfer.Errorf(transfer.KindMalformed, "the head of a signed message is followed by something else")
	}
	if err := w.fits(); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindMalformed, "the head of a signed message has %w", err)
	}
	return w, data[end+1:], nil
}

// fits holds a head against its ranges.
func (w *Word) fits() error {
	life := w.Kind.life()
	switch {
	case life == 0:
		return fmt.Errorf("the unknown kind %.40q", w.Kind)
	case w.By.Check() != nil || w.To.Check() != nil || w.For != (identity.Name{}) && w.For.Check() != nil:
		return errors.New("no name of an author or an addressee")
	case w.ID.IsZero():
		return errors.New("no ID")
	case w.Made <= 0 || w.Until < w.Made || w.Until-w.Made > life.Milliseconds():
		return fmt.Errorf("the times %d and %d", w.Made, w.Until)
	case len(w.Chain) == 0 || len(w.Chain) > maxChain || len(w.Signature) == 0 || len(w.Signature) > maxSignature:
		return fmt.Errorf("%d certificates, and a signature of %d bytes", len(w.Chain), len(w.Signature))
	}
	return nil
}
