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
	"ferry/internal/keyfile"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/word"
)

// What the authority did: the words of a journal's records.
const (
	actToken    = "token"    // made a token for a name
	actDropped  = "dropped"  // took a token back
	actEnrolled = "enrolled" // issued an identity for a token, or for who may enrol
	actRenewed  = "renewed"
	actRevoked  = "revoked"  // all keys that a name has
	actRefused  = "refused"  // somebody who had a token, or an identity, and may not
	actSigned   = "signed"   // a trust document, Number
	actRotated  = "rotated"  // began to sign with the keys of a generation, Number
	actRemoved  = "removed"  // had a queue manager taken out of its cluster, or tried to
	actAsked    = "asked"    // took a signed question, Author, that it obeyed or refused then
	actFinished = "finished" // gave up the generation Number, of which nothing is in use
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

	Author *word.Author `json:"author,omitempty"` // of the question; of actAsked
}

// Keys are what an identity was signed for.
type Keys struct {
	TLS  string `json:"tls,omitempty"`  // SHA-256 of the certificate's public key (SubjectPublicKeyInfo), in hexadecimal
	Nkey string `json:"nkey,omitempty"` // the public nkey
}

// maxAct is how long a line may be, in bytes.
const maxAct = 4096

// A journal is the file of the acts, oldest first. A start drops the renewals that later ones replace, once they are
// most of the file. Otherwise the renewals of all members would fill the disk in the course of years.
type journal struct {
	f    *os.File
	size int64 // of the acts that are on the disk
}

// openJournal opens a journal, and has each act of it taken. The end of one that a crash has
// cut off is removed: its result was given to nobody. Damage before that is an error of
// KindMalformed.
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

// compactFrom is how many bytes of replaced renewals are worth a new journal.
const compactFrom = 64 << 10

// compactActs writes the journal anew without the renewals that a later renewal of the same keys replaces, where those
// are most of it. After a crash there is the old journal or the new one. On a full disk the old one stays.
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

// readActs reads whole lines, and gives where the last one ends. take gets each line with its number.
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

// add appends an act. When it returns nil the act is on the disk. After an error it is not,
// or the journal takes no more: what is at its end is not known.
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

// back removes what a write that failed has left: a full disk must not end revoking.
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

// A state is what the acts amount to.
type state struct {
	tokens  map[string]*token  // by the hash of the secret
	names   map[string]*issued // by URI
	revoked map[Keys]time.Time // until when what was signed for them would have been good
	owner   map[string]string  // the name that a key was signed for, by either public key
	asked   map[transfer.ID]time.Time
	signed  signed
	policy  string // the hash of the rules

	rotation rotation
	claims   uint64 // a number of what queue managers are told, which grows with each change
}

// ofUser reports whether a role is one of those that users have.
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
	stale  bool // what it says has changed since, or there is none
}

// A token is good for one name, once, or again with the same keys.
type token struct {
	name  string
	role  roles.Role
	until time.Time
	by    string    // the member that has made it, as a URI; empty: the authority's host
	maker Keys      // of by, when it made the token
	keys  Keys      // that it was used with; none: nobody has used it
	told  time.Time // when a refusal of it was last put on record
}

// issued is what a name has. Its keys are good unless they are revoked.
type issued struct {
	role  roles.Role
	keys  Keys
	at    time.Time
	until time.Time // the latest that was ever signed for these keys
	token string    // that it was enrolled with last
	// replaced says that the name had other keys before.
	replaced bool
	by       string    // the member that has enrolled these keys, as a URI; empty: the authority's host
	told     time.Time // when a refusal to renew it was last put on record
}

// take takes an act that is in the journal.
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
			s.signed.stale = true // the document says what role a user has
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
		if a.Until.After(n.until) { // clocks go back, and what was signed does not
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

// change has everybody told anew. The number goes by the clock, so that it grows also after an
// older journal was put back.
func (s *state) change(a *Act) {
	s.signed.stale = true
	s.claims = max(s.claims+1, uint64(max(a.Time.Unix(), 0)))
}

// grace is how long keys are named beyond the end of what was signed for them: clocks of
// those who read it may be behind.
const grace = 48 * time.Hour

// named is how long revoked keys are: requests and commands that they have signed may be good for 15 days (package word).
const named = grace + 15*24*time.Hour

// revocations are what queue managers are told. Keys never come back, so all that was or
// will be signed for them is not good; what has ended by itself needs no mention.
func (s *state) revocations(now time.Time) (all []roles.Revocation) {
	for k, until := range s.revoked {
		if now.Before(until.Add(named)) {
			all = append(all, roles.Revocation{Key: k.Nkey, Until: until})
		}
	}
	return all
}

// An Issued is what is known of a name.
type Issued struct {
	Name    identity.Name `json:"name"`
	Role    roles.Role    `json:"role"`
	At      time.Time     `json:"at"` // of the newest
	Until   time.Time     `json:"until"`
	Revoked bool          `json:"revoked,omitempty"`
}
