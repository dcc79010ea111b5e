package witness

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

const cryptoSHA256 = crypto.SHA256

// Types of signatures in notes.
const (
	algorithmNote        = 1
	algorithmCosignature = 4
)

// Bounds of a note.
const (
	MaxNote       = 32 << 10 // bytes
	MaxCosigned   = 64       // stored cosignatures of a note
	maxRecords    = 1 << 48
	cosignedBytes = 8 + ed25519.SignatureSize
)

// A Checkpoint is signed by coordination: the log had this root at this size, and must have it for ever.
type Checkpoint struct {
	Network string
	Size    int64
	Root    tlog.Hash
	Log     string // the log's incarnation
}

func origin(network string) string { return "ferry/" + network + "/audit" }

// Text returns the signed text.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\nlog %s\n", origin(c.Network), c.Size, base64.StdEncoding.EncodeToString(c.Root[:]), c.Log)
}

// String returns the checkpoint for users.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%d records with root %x of log %s", c.Size, c.Root[:], c.Log)
}

// parse reads the text of a checkpoint of a network. It ignores lines after the known ones.
func parse(text, network string) (c Checkpoint, err error) {
	bad := transfer.Errorf(transfer.KindMalformed, "a checkpoint of the audit log is not written as those of the network %s are", network)
	lines := strings.Split(text, "\n")
	if len(lines) < 5 || lines[0] != origin(network) {
		return c, bad
	}
	c.Network = network
	c.Size, err = strconv.ParseInt(lines[1], 10, 64)
	if err != nil || strconv.FormatInt(c.Size, 10) != lines[1] || c.Size < 0 || c.Size > maxRecords {
		return Checkpoint{}, bad
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return Checkpoint{}, bad
	}
	copy(c.Root[:], root)
	var ok bool
	if c.Log, ok = strings.CutPrefix(lines[3], "log "); !ok || len(c.Log) != 16 || strings.Trim(c.Log, "0123456789abcdef") != "" {
		return Checkpoint{}, bad
	}
	return c, nil
}

// A signatory is a party, or its key, as the author of one type of signature.
type signatory struct {
	name      string
	algorithm byte
	key       ed25519.PublicKey
	private   ed25519.PrivateKey
	at        time.Time // time of the new cosignature
}

func (s *signatory) Name() string { return s.name }

func (s *signatory) KeyHash() uint32 {
	h := sha256.New()
	h.Write([]byte(s.name))
	h.Write([]byte{'\n', s.algorithm})
	h.Write(s.key)
	return binary.BigEndian.Uint32(h.Sum(nil))
}

func (s *signatory) Sign(msg []byte) ([]byte, error) {
	if s.algorithm == algorithmNote {
		return ed25519.Sign(s.private, msg), nil
	}
	t := uint64(s.at.Unix())
	return append(binary.BigEndian.AppendUint64(nil, t), ed25519.Sign(s.private, cosigned(t, msg))...), nil
}

func (s *signatory) Verify(msg, sig []byte) bool {
	if s.algorithm == algorithmNote {
		return ed25519.Verify(s.key, msg, sig)
	}
	return len(sig) == cosignedBytes && ed25519.Verify(s.key, cosigned(binary.BigEndian.Uint64(sig), msg), sig[8:])
}

// cosigned returns the message that a cosignature signs.
func cosigned(seconds uint64, text []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", seconds), text...)
}

// noteName returns the name under which a party signs notes.
func noteName(n identity.Name) string {
	if n.Role == identity.Coordination {
		return origin(n.Network)
	}
	return "ferry/" + strings.TrimPrefix(n.String(), "ferry://")
}

func (p *Party) signatory(algorithm byte) *signatory {
	return &signatory{name: noteName(p.Name), algorithm: algorithm, key: p.key}
}

// Sign returns the signed note of a checkpoint.
func (k *Key) Sign(c Checkpoint) ([]byte, error) {
	s := k.party.signatory(algorithmNote)
	s.private = k.private
	return note.Sign(&note.Note{Text: c.Text()}, s)
}

// OpenNote reads the checkpoint of a note that coordination has signed. It ignores other signatures. The error is of
// KindMalformed.
func OpenNote(data []byte, by *Party) (Checkpoint, error) {
	if by.Name.Role != identity.Coordination {
		return Checkpoint{}, transfer.Errorf(transfer.KindMalformed, "%s signs a checkpoint; only coordination does", by.Name)
	}
	n, err := openNote(data, by.signatory(algorithmNote))
	if err != nil {
		return Checkpoint{}, transfer.Errorf(transfer.KindMalformed, "the checkpoint is not signed by coordination of the network %s: %w", by.Name.Network, err)
	}
	return parse(n.Text, by.Name.Network)
}

func openNote(data []byte, who ...note.Verifier) (*note.Note, error) {
	if len(data) > MaxNote {
		return nil, transfer.Errorf(transfer.KindMalformed, "a note of %d bytes; the limit is %d", len(data), MaxNote)
	}
	return note.Open(data, note.VerifierList(who...))
}

// Cosign returns the witness's signature line for a note. The witness must have opened the note and checked that it
// continues the last one that it has seen.
func (k *Key) Cosign(data []byte, now time.Time) ([]byte, error) {
	text, ok := textOf(data)
	if !ok {
		return nil, transfer.Errorf(transfer.KindMalformed, "the data to cosign is no note")
	}
	s := k.party.signatory(algorithmCosignature)
	s.private, s.at = k.private, now
	signed, err := note.Sign(&note.Note{Text: text}, s)
	if err != nil {
		return nil, err
	}
	return signed[len(text)+1:], nil
}

// textOf returns the text of a note, with its last line end.
func textOf(data []byte) (string, bool) {
	at := bytes.LastIndex(data, []byte("\n\n"))
	if at < 0 || len(data) > MaxNote {
		return "", false
	}
	return string(data[:at+1]), true
}

// Plain returns a note with its first signature only, which is coordination's.
func Plain(data []byte) []byte {
	text, ok := textOf(data)
	if !ok {
		return data
	}
	if end := bytes.IndexByte(data[len(text)+1:], '\n'); end >= 0 {
		return bytes.Clone(data[:len(text)+1+end+1])
	}
	return data
}

// Cosigned returns the time when a party cosigned a note, which may have other signatures. ok is false if it has not.
func Cosigned(data []byte, by *Party) (time.Time, bool) {
	n, err := openNote(data, by.signatory(algorithmCosignature))
	if err != nil || len(n.Sigs) != 1 {
		return time.Time{}, false
	}
	raw, err := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
	if err != nil || len(raw) != 4+cosignedBytes {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0), true
}

// AddCosignature checks a witness's line and adds it to a note. If the note has a line by that party already, it is
// unchanged. The error is of KindMalformed.
func AddCosignature(data, line []byte, by *Party) ([]byte, error) {
	if _, ok := Cosigned(data, by); ok {
		return data, nil
	}
	text, ok := textOf(data)
	if !ok || len(line) > 512 || bytes.Count(line, []byte("\n")) != 1 {
		return nil, transfer.Errorf(transfer.KindMalformed, "the cosignature of %s is not one line, or there is no note for it", by.Name)
	}
	if bytes.Count(data[len(text):], []byte("\n")) > MaxCosigned+1 {
		return data, nil // there are enough
	}
	with := append(bytes.Clone(data), line...)
	if _, ok := Cosigned(with, by); !ok {
		return nil, transfer.Errorf(transfer.KindMalformed, "the cosignature of %s is not good for the note of that size", by.Name)
	}
	return with, nil
}
