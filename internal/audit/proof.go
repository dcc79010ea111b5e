package audit

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// Bounds of a proof.
const (
	MaxProof     = 4 << 20 // bytes of its JSON
	maxRoots     = 64 << 10
	maxWitnesses = witness.MaxCosigned + 1
	maxPath      = 64 // hashes from a record to a root
	proofVersion = 1
)

// A Proof has a record and all data to check it without a network or a log. It shows that the record's agent has signed
// it, and that it is in a log that witnesses have seen. It is one line of JSON.
type Proof struct {
	V     int    `json:"v"`
	Roots string `json:"roots"` // PEM: the network's root and issuers
	// Record is the record's JSON, byte for byte. Index is its place in the log.
	Record string `json:"record"`
	Index  int64  `json:"index"`
	// Seal is the agent's signature over the batch of the record. It is nil for coordination's own records:
	// coordination signs the checkpoint.
	Seal *ProofSeal `json:"seal,omitempty"`
	// Checkpoint is coordination's note, with cosignatures. Inclusion leads from the record to the checkpoint's root.
	Checkpoint string             `json:"checkpoint"`
	Signer     *witness.Binding   `json:"signer"` // coordination's
	Inclusion  tlog.RecordProof   `json:"inclusion"`
	Witnesses  []*witness.Binding `json:"witnesses,omitempty"`
}

// A ProofSeal is the seal of a batch, and the path from one record to the signed root.
type ProofSeal struct {
	witness.Batch
	At        int              `json:"at"` // place of the record in the batch, from 0
	Path      tlog.RecordProof `json:"path"`
	Signature []byte           `json:"signature"`
	Signer    *witness.Binding `json:"signer"`
}

// Proved has the facts that a proof has shown.
type Proved struct {
	Record    Record
	Raw       []byte
	Network   string
	Signed    bool // by its agent; else it is coordination's own, or its agent did not sign at that time
	Size      int64
	Root      tlog.Hash
	Witnesses []Seen // witnesses that have seen the log at that size
}

// A Seen is a witness's cosignature of a checkpoint, with its time by the witness's clock.
type Seen struct {
	Agent string    `json:"agent"`
	Time  time.Time `json:"time"`
}

// Prove makes the proof of the record at an index, with its JSON. It leaves out the parts that the log does not have:
// the checkpoint of c and the bindings of the keys that signed it.
func (l Prover) Prove(i int64, raw []byte, rec *Record, c witness.Checkpoint) (*Proof, error) {
	p := &Proof{V: proofVersion, Record: string(raw), Index: i}
	var err error
	if p.Inclusion, err = l.Proof(i, c.Size); err != nil || rec.Agent == Coordination {
		return p, err
	}
	seal, leaves, at, err := l.SealOf(i, raw)
	if transfer.KindOf(err) == transfer.KindNotFound {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	_, bound, err := l.Read(seal.Bound)
	if err != nil {
		return nil, err
	}
	p.Seal = &ProofSeal{Batch: seal.Batch, At: at, Path: witness.PathOf(leaves, at), Signature: seal.Signature, Signer: bound.Binding}
	return p, nil
}

// EncodeProof writes a proof as one line of JSON.
func EncodeProof(p *Proof) ([]byte, error) {
	p.V = proofVersion
	return marshal(p)
}

// DecodeProof reads a proof. It checks only the ranges. The error is of KindMalformed.
func DecodeProof(data []byte) (*Proof, error) {
	p := new(Proof)
	if len(data) > MaxProof {
		return nil, transfer.Errorf(transfer.KindMalformed, "the proof has %d bytes; the limit is %d", len(data), MaxProof)
	}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the proof cannot be read: %w", err)
	}
	bad := p.V != proofVersion || len(p.Roots) > maxRoots || len(p.Record) > MaxRecord || p.Signer == nil || len(p.Witnesses) > maxWitnesses || len(p.Inclusion) > maxPath ||
		p.Seal != nil && (p.Seal.Signer == nil || len(p.Seal.Path) > maxPath || p.Seal.Count < 1 || p.Seal.Count > maxBatchRecords)
	for _, w := range p.Witnesses {
		bad = bad || w == nil
	}
	if bad {
		return nil, transfer.Errorf(transfer.KindMalformed, "the proof is of another version, or out of its ranges")
	}
	return p, nil
}

// Check verifies the proof for a network that has a root certificate with one of the hashes. It ignores all other roots
// in the proof. The error names the first step that is not proved, and is of KindDigest.
func (p *Proof) Check(rootHashes ...string) (*Proved, error) {
	roots, err := identity.ReadRoots([]byte(p.Roots))
	if err != nil {
		return nil, unproved("its network's certificates cannot be read: %w", err)
	}
	if !slices.Contains(rootHashes, roots.Hash()) {
		return nil, unproved("it is of another network: its root certificate has the hash %s, and not %s", roots.Hash(), strings.Join(rootHashes, " or "))
	}
	roots = roots.Only(rootHashes)
	by, err := p.Signer.As(identity.Coordination, roots)
	if err != nil {
		return nil, unproved("%w", err)
	}
	c, err := witness.OpenNote([]byte(p.Checkpoint), by)
	if err != nil {
		return nil, unproved("%w", err)
	}

	done := &Proved{Raw: []byte(p.Record), Network: c.Network, Size: c.Size, Root: c.Root}
	leaf := tlog.RecordHash(done.Raw)
	if p.Index < 0 || p.Index >= c.Size || tlog.CheckRecord(p.Inclusion, c.Size, c.Root, p.Index, leaf) != nil {
		return nil, unproved("the record is not in the log of %d records that coordination has signed", c.Size)
	}
	if done.Record, err = Decode(done.Raw); err != nil {
		return nil, unproved("%w", err)
	}
	if p.Seal != nil {
		if err := p.Seal.check(&done.Record, leaf, roots); err != nil {
			return nil, err
		}
		done.Signed = true
	}
	for _, b := range p.Witnesses {
		w, err := b.As(identity.Agent, roots)
		if err != nil {
			return nil, unproved("%w", err)
		}
		at, ok := witness.Cosigned([]byte(p.Checkpoint), w)
		if !ok {
			return nil, unproved("%s has not cosigned the checkpoint", w.Name)
		}
		done.Witnesses = append(done.Witnesses, Seen{w.Name.Name, at.UTC()})
	}
	return done, nil
}

// check verifies that the record's agent has signed the record.
func (s *ProofSeal) check(rec *Record, leaf tlog.Hash, roots *identity.Roots) error {
	p, err := s.Signer.AsSealer(roots)
	if err != nil {
		return unproved("%w", err)
	}
	root, ok := rootOfPath(s.Path, int64(s.Count), int64(s.At), leaf)
	switch {
	case !ok || !p.Seals(rec.Agent) || s.Incarnation != rec.Incarnation || s.At < 0 || s.At >= s.Count || rec.N != s.First+uint64(s.At):
		return unproved("the signature is not for this record of %s", rec.Agent)
	case p.CheckSeal(s.Signature, rec.Agent, s.Batch, root) != nil:
		return unproved("%s has not signed the record", rec.Agent)
	}
	return nil
}

// rootOfPath returns the root at the end of a path from leaf i of n. ok is false if the path does not fit.
func rootOfPath(path tlog.RecordProof, n, i int64, leaf tlog.Hash) (root tlog.Hash, ok bool) {
	if n == 1 {
		return leaf, len(path) == 0 && i == 0
	}
	if len(path) == 0 || i < 0 || i >= n {
		return root, false
	}
	k := int64(1)
	for k<<1 < n {
		k <<= 1
	}
	last := path[len(path)-1]
	if i < k {
		h, ok := rootOfPath(path[:len(path)-1], k, i, leaf)
		return tlog.NodeHash(h, last), ok
	}
	h, ok := rootOfPath(path[:len(path)-1], n-k, i-k, leaf)
	return tlog.NodeHash(last, h), ok
}

func unproved(format string, args ...any) error {
	return transfer.Errorf(transfer.KindDigest, "nothing is proved: "+format, args...)
}
