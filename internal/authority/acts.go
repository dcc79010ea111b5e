package authority

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"ferry/internal/identity"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// What the authority did: the words of a journal's records.
const (
	actToken    = "token"    // made a token for a name
	actDropped  = "dropped"  // took a token back
	actEnrolled = "enrolled" // issued an identity for a token, or for who may enrol
	actRenewed  = "renewed"
	actRevoked  = "revoked" // all keys that a name has
	actRefused  = "refused" // somebody who had a token, or an identity, and may not
	actSigned   = "signed"  // a trust document, Number
)

// An Act is one line of the journal, in JSON.
type Act struct {
	V     int        `json:"v"`
	Time  time.Time  `json:"time"`
	Act   string     `json:"act"`
	Name  string     `json:"name"` // as a URI; of a trust document, the network
	Role  roles.Role `json:"role,omitempty"`
	Token string     `json:"token,omitempty"` // the hash of its secret
	Until time.Time  `json:"until,omitzero"`
	Keys
	By  string `json:"by,omitempty"` // who wanted it, as a URI; empty: who had the token, or the authority's host
	Why string `json:"why,omitempty"`

	Number uint64 `json:"number,omitempty"`
}

// Keys are what an identity was signed for.
type Keys struct {
	TLS  string `json:"tls,omitempty"`  // SHA-256 of the certificate's public key (SubjectPublicKeyInfo), in hexadecimal
	Nkey string `json:"nkey,omitempty"` // the public nkey
}

// maxAct is how long a line may be, in bytes.
const maxAct = 4096

// A journal is a file to which acts are appended.
type journal struct{ f *os.File }

// openJournal opens a journal, and has each act of it taken. The end of one that a crash has
// cut off is removed: its result was given to nobody. Damage before that is an error of
// KindMalformed.
func openJournal(path string, take func(*Act)) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	whole, err := readActs(f, take)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &journal{f}, nil
}

// readActs reads whole lines, and gives where the last one ends.
func readActs(r io.Reader, take func(*Act)) (whole int64, err error) {
	in := bufio.NewReaderSize(r, maxAct)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return whole, nil
		}
		var a Act
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return whole, err
		}
		if err != nil || json.Unmarshal(line, &a) != nil || a.V != version || a.Act == "" || a.Name == "" || a.Time.IsZero() {
			return whole, transfer.Errorf(transfer.KindMalformed, "line %d of %s is damaged, or of another version", n, fileActs)
		}
		take(&a)
		whole += int64(len(line))
	}
}

// add appends an act. When it returns nil the act is on the disk. After an error the journal
// takes no more: what is at its end is not known.
func (j *journal) add(a *Act) error {
	a.V = version
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if len(line)+1 > maxAct || bytes.ContainsRune(line, '\n') {
		return transfer.Errorf(transfer.KindTooLarge, "an act of %d bytes; the limit is %d", len(line), maxAct)
	}
	if j.f == nil {
		return transfer.Errorf(transfer.KindUnwritable, "the authority's journal could not be written before; start the authority again")
	}
	_, err = j.f.Write(append(line, '\n'))
	if err = errors.Join(err, j.f.Sync()); err != nil {
		j.f.Close()
		j.f = nil
		return transfer.Errorf(transfer.KindUnwritable, "the authority's journal cannot be written: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	return j.f.Close()
}

// A state is what the acts amount to.
type state struct {
	tokens  map[string]*token  // by the hash of the secret
	names   map[string]*issued // by URI
	revoked map[Keys]time.Time // until when what was signed for them would have been good
	signed  signed
}

// signed is the last trust document.
type signed struct {
	number uint64
	at     time.Time
	stale  bool // something has been revoked since, or there is none
}

// A token is good for one name, once, or again with the same keys.
type token struct {
	name  string
	role  roles.Role
	until time.Time
	keys  Keys // that it was used with; none: nobody has used it
}

// issued is what a name has. Its keys are good unless they are revoked.
type issued struct {
	role  roles.Role
	keys  Keys
	at    time.Time
	until time.Time
}

// take takes an act that is in the journal.
func (s *state) take(a *Act) {
	if s.tokens == nil {
		s.signed.stale = true
		s.tokens, s.names, s.revoked = map[string]*token{}, map[string]*issued{}, map[Keys]time.Time{}
	}
	switch a.Act {
	case actToken:
		s.tokens[a.Token] = &token{name: a.Name, role: a.Role, until: a.Until}
	case actDropped:
		delete(s.tokens, a.Token)
	case actEnrolled, actRenewed:
		if t := s.tokens[a.Token]; t != nil {
			t.keys = a.Keys
		}
		if n := s.names[a.Name]; n != nil && n.keys != a.Keys {
			s.revoke(n) // a name has one pair of keys
		}
		s.names[a.Name] = &issued{a.Role, a.Keys, a.Time, a.Until}
	case actRevoked:
		if n := s.names[a.Name]; n != nil {
			s.revoke(n)
		}
	case actSigned:
		s.signed = signed{number: a.Number, at: a.Time}
	}
}

func (s *state) revoke(n *issued) {
	s.revoked[n.keys], s.signed.stale = n.until, true
}

// revocations are what queue managers are told. Keys never come back, so all that was or
// will be signed for them is not good; what has ended by itself needs no mention.
func (s *state) revocations(now time.Time) (all []roles.Revocation) {
	for k, until := range s.revoked {
		if now.Before(until) {
			all = append(all, roles.Revocation{Key: k.Nkey, Until: until})
		}
	}
	return all
}

// An Issued is what is known of a name.
type Issued struct {
	Name    identity.Name
	Role    roles.Role
	At      time.Time // of the newest
	Until   time.Time
	Revoked bool
}
