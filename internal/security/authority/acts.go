package authority

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// The acts of the authority, as words in the records of the journal.
const (
	actToken    = "token"    // made a token for a name
	actDropped  = "dropped"  // took a token back
	actEnrolled = "enrolled" // issued an identity for a token, or to a member with the authority enrol
	actRenewed  = "renewed"
	actRevoked  = "revoked"  // revoked all keys of a name
	actRefused  = "refused"  // refused a token or an identity
	actSigned   = "signed"   // a trust document, Number
	actRotated  = "rotated"  // began to sign with the keys of a generation, Number
	actRemoved  = "removed"  // had a queue manager taken out of its cluster, or tried to
	actAsked    = "asked"    // accepted a signed question, Author, which it then obeyed or refused
	actFinished = "finished" // gave up the generation Number, which is no longer in use
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
	By  string `json:"by,omitempty"` // the requester, as a URI; empty: the token's holder, or the authority's host
	Why string `json:"why,omitempty"`

	Number uint64 `json:"number,omitempty"`

	Author *word.Author `json:"author,omitempty"` // of the question; of actAsked
}

// Keys are the public keys of an identity.
type Keys struct {
	TLS  string `json:"tls,omitempty"`  // SHA-256 of the certificate's public key (SubjectPublicKeyInfo), in hexadecimal
	Nkey string `json:"nkey,omitempty"` // the public nkey
}

// maxAct is the maximum length of a line in bytes.
const maxAct = 4096

// A journal is the file of the acts, oldest first. A start drops renewals replaced by later ones, if they are most of
// the file. Otherwise the renewals of all members would fill the disk over the years.
type journal struct {
	f    *os.File
	size int64 // bytes of the acts on the disk
}

// openJournal opens a journal, and calls take for each act in it. It removes an incomplete last line after a crash: the
// authority gave its result to no member. Damage before that is an error of KindMalformed.
func openJournal(dir *keyfile.Dir, take func(*Act)) (*journal, error) {
	if err := compactActs(dir); err != nil {
		return nil, err
	}
	f, err := dir.Append(fileActs)
	if err != nil {
		return nil, err
	}
	whole, err := readActs(f, func(_ int, _ []byte, a *Act) { take(a) })
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
	return &journal{f, whole}, nil
}

// compactFrom is the size of the replaced renewals, in bytes, that justifies a new journal.
const compactFrom = 64 << 10

// compactActs writes the journal anew without the renewals that a later renewal of the same keys replaces, if those are
// most of it. After a crash there is the old journal or the new one. On a full disk the old one stays.
func compactActs(dir *keyfile.Dir) error {
	f, err := dir.Append(fileActs)
	if err != nil {
		return err
	}
	defer f.Close()
	type renewal struct {
		line, size int
		keys       Keys
		until      time.Time
	}
	last, replaced, idle := map[string]renewal{}, map[int]bool{}, 0
	whole, err := readActs(f, func(n int, line []byte, a *Act) {
		if a.Act != actRenewed {
			return
		}
		before, ok := last[a.Name]
		if ok && before.keys == a.Keys && !a.Until.Before(before.until) {
			replaced[before.line] = true
			idle += before.size
		}
		last[a.Name] = renewal{n, len(line), a.Keys, a.Until}
	})
	if err != nil || idle < compactFrom || int64(idle) < whole/2 {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	err = dir.Rewrite(fileActs, func(w io.Writer) error {
		out, failed := bufio.NewWriter(w), error(nil)
		_, err := readActs(f, func(n int, line []byte, _ *Act) {
			if !replaced[n] && failed == nil {
				_, failed = out.Write(line)
			}
		})
		return errors.Join(err, failed, out.Flush(), f.Close())
	})
	if transfer.Full(err) {
		return nil
	}
	return err
}

// readActs calls take for each whole line, with its number. It returns the end of the last whole line.
func readActs(r io.Reader, take func(n int, line []byte, a *Act)) (whole int64, err error) {
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
		take(n, line, &a)
		whole += int64(len(line))
	}
}

// add appends an act. If it returns nil the act is on the disk. After an error it is not, or the journal accepts no
// further acts, because the state of its end is unknown.
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
	if _, err = j.f.Write(append(line, '\n')); err != nil {
		if j.back() != nil {
			j.close()
			j.f = nil
		}
		return transfer.Errorf(transfer.KindUnwritable, "the authority's journal cannot be written: %w", err)
	}
	if err := j.f.Sync(); err != nil {
		j.close()
		j.f = nil
		return transfer.Errorf(transfer.KindUnwritable, "the authority's journal cannot be made safe: %w", err)
	}
	j.size += int64(len(line)) + 1
	return nil
}

// back removes the rest of a failed write: a full disk must not prevent later revocations.
func (j *journal) back() error {
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.f.Seek(j.size, io.SeekStart)
	return err
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	return j.f.Close()
}

// A state is the result of the acts.
type state struct {
	tokens  map[string]*token  // by the hash of the secret
	names   map[string]*issued // by URI
	revoked map[Keys]time.Time // end of the validity of everything signed for the keys
	owner   map[string]string  // the name of each public key that was signed
	asked   map[transfer.ID]time.Time
	signed  signed
	policy  string // the hash of the rules

	rotation rotation
	claims   uint64 // number of the claims for queue managers; it grows with each change
}

// ofUser reports whether a role is a role of users.
func ofUser(r roles.Role) bool {
	switch r {
	case roles.Admin, roles.Operator, roles.Auditor, roles.User, roles.Member:
		return true
	}
	return false
}

// signed is the last trust document.
type signed struct {
	number uint64
	at     time.Time
	stale  bool // its content has changed since, or there is none
}

// A token is valid for one name, once, or again with the same keys.
type token struct {
	name  string
	role  roles.Role
	until time.Time
	by    string    // the member that made it, as a URI; empty: the authority's host
	maker Keys      // of by, at the time of the token
	keys  Keys      // keys that used it; zero: unused
	told  time.Time // time of the last recorded refusal
}

// An issued has the keys of a name. They are valid unless they are revoked.
type issued struct {
	role  roles.Role
	keys  Keys
	at    time.Time
	until time.Time // the latest end of validity ever signed for these keys
	token string    // of the last enrolment
	// replaced says that the name had other keys before.
	replaced bool
	by       string    // the member that enrolled these keys, as a URI; empty: the authority's host
	told     time.Time // time of the last recorded refusal of a renewal
}

// take applies an act of the journal.
func (s *state) take(a *Act) {
	if s.tokens == nil {
		s.signed.stale = true
		s.tokens, s.names, s.revoked, s.owner = map[string]*token{}, map[string]*issued{}, map[Keys]time.Time{}, map[string]string{}
		s.asked = map[transfer.ID]time.Time{}
	}
	switch a.Act {
	case actRotated:
		s.rotation = rotation{now: int(a.Number), old: s.rotation.number(), at: a.Time}
		s.change(a)
	case actFinished:
		s.rotation.old = 0
		s.change(a)
	case actToken:
		t := &token{name: a.Name, role: a.Role, until: a.Until, by: a.By}
		if maker := s.names[a.By]; maker != nil {
			t.maker = maker.keys
		}
		s.tokens[a.Token] = t
	case actDropped:
		delete(s.tokens, a.Token)
	case actEnrolled, actRenewed:
		by := a.By
		if t := s.tokens[a.Token]; t != nil {
			t.keys, by = a.Keys, t.by
		}
		n := s.names[a.Name]
		if n == nil && ofUser(a.Role) || n != nil && (n.role != a.Role || n.keys != a.Keys) {
			s.signed.stale = true // the document lists the roles of users
		}
		replaced := n != nil && (n.replaced || n.keys != a.Keys)
		if n != nil && n.keys != a.Keys {
			s.revoke(n) // a name has one pair of keys
			s.change(a)
			n = nil
		}
		if n == nil {
			n = &issued{replaced: replaced}
			s.names[a.Name] = n
		}
		n.role, n.keys, n.at = a.Role, a.Keys, a.Time
		if a.Until.After(n.until) { // a clock may go back, but a signed validity stays
			n.until = a.Until
		}
		if a.Act == actEnrolled {
			n.token, n.by = a.Token, by
		}
		s.owner[a.TLS], s.owner[a.Nkey] = a.Name, a.Name
	case actRevoked:
		if n := s.names[a.Name]; n != nil {
			s.revoke(n)
			s.change(a)
		}
	case actRefused:
		if t := s.tokens[a.Token]; t != nil {
			t.told = a.Time
		} else if n := s.names[a.Name]; n != nil {
			n.told = a.Time
		}
	case actAsked:
		if a.Author != nil {
			s.asked[a.Author.ID] = a.Time
		}
	case actPolicy:
		s.policy, s.signed.stale = a.Token, true
	case actSigned:
		s.signed = signed{number: a.Number, at: a.Time}
	}
}

func (s *state) revoke(n *issued) { s.revoked[n.keys] = n.until }

// change causes new trust documents and claims. The number follows the clock, so that it also grows after an older
// journal was restored.
func (s *state) change(a *Act) {
	s.signed.stale = true
	s.claims = max(s.claims+1, uint64(max(a.Time.Unix(), 0)))
}

// grace is how long keys are listed beyond the end of their certificates' validity: the clocks of the readers may be
// behind.
const grace = 48 * time.Hour

// named is how long revoked keys are listed beyond that end. Requests and commands signed by them may be valid for 15
// days (package word).
const named = grace + 15*24*time.Hour

// revocations returns the revoked keys for queue managers. Keys are never valid again, so everything ever signed for
// them is invalid. Expired ones need no entry.
func (s *state) revocations(now time.Time) (all []roles.Revocation) {
	for k, until := range s.revoked {
		if now.Before(until.Add(named)) {
			all = append(all, roles.Revocation{Key: k.Nkey, Until: until})
		}
	}
	return all
}

// An Issued describes the identity of a name.
type Issued struct {
	Name    identity.Name `json:"name"`
	Role    roles.Role    `json:"role"`
	At      time.Time     `json:"at"` // time of the newest grant
	Until   time.Time     `json:"until"`
	Revoked bool          `json:"revoked,omitempty"`
}
