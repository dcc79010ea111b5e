package authority

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"ferry/internal/qmgr/roles"
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

// do records an act, and then applies it. The caller holds a.mu.
func (a *Authority) do(act *Act) error {
	act.Time = act.Time.UTC()
	if err := a.acts.add(act); err != nil {
		return err
	}
	a.state.take(act)
	return nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
