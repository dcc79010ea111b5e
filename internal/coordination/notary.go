package coordination

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// When checkpoints are made.
const (
	noteRecords = 100                    // appended since the last one
	noteEvery   = time.Minute            // where anything was appended
	noteAsked   = 250 * time.Millisecond // since the last one, where an agent waits for its records
)

// Bounds of the checkpoints and bindings that are kept.
const (
	maxNotes    = 64 // the newest, with their cosignatures
	maxBindings = 64 // of an agent
	saveNotes   = 30 * time.Second
)

// A notary signs checkpoints of the log, has the public keys that verify the seals of batches, and collects the
// cosignatures of witnesses. A network without identities has none.
type notary struct {
	self *identity.Identity
	key  *witness.Key
	log  audit.Prover
	path string
	now  func() time.Time

	mu      sync.Mutex
	bound   map[string]checkedBinding // by the ID of the binding
	notes   []*signedCheckpoint       // ascending
	made    time.Time                 // the last of them
	changed bool                      // since they were written
	written time.Time
}

// A checkedBinding is a binding that was checked, and where the log has it.
type checkedBinding struct {
	binding *witness.Binding
	audit.Sealer
}

// A signedCheckpoint is a checkpoint with its signed note and its cosignatures.
type signedCheckpoint struct {
	At        witness.Checkpoint `json:"-"`
	Note      []byte             `json:"note"`
	Binding   *witness.Binding   `json:"binding"`
	Witnesses []string           `json:"witnesses,omitempty"` // IDs of their bindings
}

// newNotary is nil where the connection has no identity.
func newNotary(self *identity.Identity, dir string, log *audit.Log, now func() time.Time) (*notary, error) {
	if self == nil {
		return nil, nil
	}
	key, err := witness.OpenKey(self, now())
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the key that signs the audit log cannot be used: %w", err)
	}
	n := &notary{self: self, key: key, log: audit.Prover{Log: log}, path: filepath.Join(dir, "checkpoints.json"), now: now, bound: map[string]checkedBinding{}}
	n.load()
	_, err = n.newest(true)
	return n, err
}

// A notesFile is the file of the notes.
type notesFile struct {
	V     int                 `json:"v"`
	Notes []*signedCheckpoint `json:"notes"`
}

// load reads the kept notes that the log still confirms. They only serve proofs of the past, so a note that cannot be
// read is left out.
func (n *notary) load() {
	data, err := os.ReadFile(n.path)
	var f notesFile
	if err != nil || json.Unmarshal(data, &f) != nil {
		return
	}
	for _, k := range f.Notes[max(0, len(f.Notes)-maxNotes):] {
		if k == nil || k.Binding == nil {
			continue
		}
		p, err := k.Binding.As(identity.Coordination, n.self.Roots())
		if err != nil {
			continue
		}
		if k.At, err = witness.OpenNote(k.Note, p); err != nil || !n.log.Has(k.At) {
			continue
		}
		n.notes = append(n.notes, k)
	}
	slices.SortFunc(n.notes, func(a, b *signedCheckpoint) int { return int(a.At.Size - b.At.Size) })
}

// save writes the notes, at times or at once.
func (n *notary) save(now bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.changed || !now && n.now().Sub(n.written) < saveNotes {
		return nil
	}
	data, err := json.Marshal(notesFile{1, n.notes})
	if err != nil {
		return err
	}
	n.changed, n.written = false, n.now()
	tmp := n.path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, n.path)
}

// newest returns the newest checkpoint, and makes one where one is due. asked: a caller waits for records behind the
// last checkpoint.
func (n *notary) newest(asked bool) (*signedCheckpoint, error) {
	at := n.log.At(n.self.Name().Network)
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	if len(n.notes) > 0 {
		last, since := n.notes[len(n.notes)-1], now.Sub(n.made)
		grown := at.Size - last.At.Size
		if due := grown >= noteRecords || grown > 0 && (since >= noteEvery || since < 0 || asked && since >= noteAsked); !due {
			return last, nil
		}
	}
	signed, err := n.key.Sign(at)
	if err != nil {
		return nil, err
	}
	fresh := &signedCheckpoint{At: at, Note: signed, Binding: n.key.Binding()}
	n.notes, n.made, n.changed = append(n.notes, fresh), now, true
	n.drop()
	return fresh, nil
}

// drop removes notes beyond maxNotes: those without cosignatures first.
func (n *notary) drop() {
	for len(n.notes) > maxNotes {
		i := slices.IndexFunc(n.notes[:len(n.notes)-1], func(k *signedCheckpoint) bool { return len(k.Witnesses) == 0 })
		n.notes = slices.Delete(n.notes, max(i, 0), max(i, 0)+1)
	}
}

// cosigned takes a witness's line for the note of a size.
func (n *notary) cosigned(by checkedBinding, size int64, line []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.notes, func(k *signedCheckpoint) bool { return k.At.Size == size })
	if i < 0 {
		return transfer.Errorf(transfer.KindNotFound, "there is no checkpoint of %d records", size)
	}
	k := n.notes[i]
	with, err := witness.AddCosignature(k.Note, line, by.Party)
	if err != nil || len(with) == len(k.Note) {
		return err
	}
	n.notes[i] = &signedCheckpoint{k.At, with, k.Binding, append(slices.Clip(k.Witnesses), by.Party.ID)}
	n.changed = true
	return nil
}

// sealer finds the key with an ID, which seals batches of an agent.
func (n *notary) sealer(id string, agent transfer.AgentName) (checkedBinding, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b, ok := n.bound[id]
	return b, ok && b.Party.Seals(agent)
}

// know adds a binding that is in the log.
func (n *notary) know(index int64, b *witness.Binding) {
	if p, err := b.AsSealer(n.self.Roots()); err == nil {
		n.mu.Lock()
		n.bound[p.ID] = checkedBinding{b, audit.Sealer{Party: p, Index: index}}
		n.mu.Unlock()
	}
}

// bind takes a binding of whoever has a token.
func (n *notary) bind(data []byte, token string) error {
	b, err := witness.DecodeBinding(data)
	if err != nil {
		return err
	}
	p, err := b.AsSealer(n.self.Roots())
	if err != nil {
		return err
	}
	if name, err := wire.AgentOf(token); err != nil || name.Token() != token || !p.Seals(name) {
		return transfer.Errorf(transfer.KindDenied, "%s shows the audit key of %s", token, p.Name)
	}
	n.mu.Lock()
	_, known := n.bound[p.ID]
	count := 0
	for _, other := range n.bound {
		if other.Party.Name == p.Name && other.Party.Issued == p.Issued {
			count++
		}
	}
	n.mu.Unlock()
	if known {
		return nil
	}
	if count >= maxBindings {
		return transfer.Errorf(transfer.KindBusy, "%s has %d audit keys on record for one certificate's key, the limit", p.Name, maxBindings)
	}
	index, err := audit.Bind(n.log.Log, b)
	if err != nil {
		return err
	}
	n.know(index, b)
	return nil
}

// best is the checkpoint that proves the record at an index to most witnesses; the newest of
// such.
func (n *notary) best(index int64) (*signedCheckpoint, error) {
	newest, err := n.newest(true)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := len(n.notes) - 1; i >= 0; i-- {
		if k := n.notes[i]; k.At.Size > index && (len(k.Witnesses) > len(newest.Witnesses) || newest.At.Size <= index) {
			newest = k
		}
	}
	return newest, nil
}

// append appends a batch. Where there is a notary, the batch must be signed. refused is the answer to the agent when
// its batch is not taken.
func (n *notary) append(log *audit.Log, b audit.Batch) (r audit.Receipt, refused string, err error) {
	if n == nil {
		r, err = log.Append(b)
		return r, "", err
	}
	by, ok := n.sealer(b.Key, b.Agent)
	switch {
	case len(b.Seal) == 0:
		return r, "it is not signed", transfer.Errorf(transfer.KindDenied, "an audit batch of %s is not signed", b.Agent)
	case !ok:
		return r, wire.RefusedKey, nil
	}
	if r, err = by.Append(log, b); transfer.KindOf(err) == transfer.KindDenied {
		return r, "its signature is not good", err
	}
	return r, "", err
}

// stopNotary writes the notes that the notary holds.
func (s *Service) stopNotary() {
	if s.notary == nil {
		return
	}
	if err := s.notary.save(true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log.Warn("the checkpoints of the audit log could not be written", "error", err)
	}
}

// keepNotes makes the checkpoint that is due, and writes the notes.
func (s *Service) keepNotes() {
	if s.notary == nil {
		return
	}
	if _, err := s.notary.newest(false); err != nil {
		s.quiet.Error("no checkpoint of the audit log could be made", "error", err)
	}
	if err := s.notary.save(false); err != nil {
		s.quiet.Warn("the checkpoints of the audit log could not be written", "error", err)
	}
}
