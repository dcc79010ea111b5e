package duty

import (
	"encoding/json"
	"iter"
	"strings"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Definition is an object that a duty keeps in the ledger for a principal: a job, a call, a schedule, a template or a
// monitor.
type Definition interface {
	// Owner returns the principal of the definition.
	Owner() string
	// Key returns its ID or its name.
	Key() string
}

// A Store has the definitions of one kind in a duty's namespace of the ledger, in JSON and in the order of their keys. The
// keys begin with Prefix. The rest of the namespace is the duty's own.
type Store[D Definition] struct {
	ledger.Namespace
	Prefix string
	Decode func(key string, data []byte) (D, error)
}

// Load returns the definition of a key; nil where there is none.
func (s Store[D]) Load(key string) (found D, err error) {
	key = s.Prefix + key
	data := s.Get(key)
	if data == nil {
		return found, nil
	}
	return s.Decode(key, data)
}

// Save writes a definition.
func (s Store[D]) Save(d D) error { return s.Put(s.Prefix+d.Key(), wire.Marshal(d)) }

// CheckVacant returns an error of KindConflict if there is a definition of a key. The error names the kind.
func (s Store[D]) CheckVacant(d *Services, kind, key string) error {
	if s.Get(s.Prefix+key) == nil {
		return nil
	}
	if _, err := s.Load(key); err != nil {
		return err
	}
	return transfer.Errorf(transfer.KindConflict, "%s has a %s %s already", d.Agent, kind, key)
}

// Kept returns a definition as coordination keeps it. Principals with one of the authorities readers see it, beside its
// owner.
func Kept(noun string, d Definition, readers []transfer.Authority, shown any) wire.Definition {
	return wire.Definition{DefinitionName: wire.DefinitionName{Noun: noun, Key: d.Key()}, Owner: d.Owner(), Readers: readers, Shown: wire.Marshal(shown)}
}

// A ByName is the body of a command or of a question about a definition with a name.
type ByName struct {
	Name string `json:"name"`
}

// Named returns the definition that a ByName names. The errors name the kind.
func (s Store[D]) Named(d *Services, kind string, body json.RawMessage) (found D, err error) {
	b, err := Body[ByName](body, "the name of a "+kind)
	if err == nil {
		err = CheckName(kind, b.Name)
	}
	if err == nil && s.Get(s.Prefix+b.Name) == nil {
		err = d.NotFound(kind, b.Name)
	}
	if err != nil {
		return found, err
	}
	return s.Load(b.Name)
}

// CheckName refuses an invalid name of a definition.
func CheckName(kind, name string) error {
	if transfer.IsName(name, 64, "_.-") {
		return nil
	}
	return transfer.Errorf(transfer.KindUsage, "%s name %.80q is not valid: 1 to 64 letters, digits or _ . -, beginning with a letter or digit", kind, name)
}

// From returns the definitions with keys after one; "": all.
func (s Store[D]) From(after string) iter.Seq2[D, error] {
	return Decoded(s.All(s.Prefix, s.Prefix+after), s.Decode)
}

// Unfinished returns the IDs of the definitions that have not ended. A duty keeps a key "a/ID" for each.
func (s Store[D]) Unfinished() (all []transfer.ID, err error) {
	for key := range s.All("a/", "") {
		id, err := transfer.ParseID(strings.TrimPrefix(key, "a/"))
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, nil
}

// Decoder returns a function that decodes the values of a kind, and refuses another version.
func Decoder[T any](kind string, version int, of func(*T) int) func(key string, data []byte) (*T, error) {
	return func(_ string, data []byte) (*T, error) {
		v := new(T)
		if err := json.Unmarshal(data, v); err != nil {
			return nil, Unreadable(kind, err)
		}
		if got := of(v); got != version {
			return nil, transfer.Errorf(transfer.KindVersion, "the ledger has a %s of version %d; this is version %d", kind, got, version)
		}
		return v, nil
	}
}

// Unreadable returns the error for a value of a kind that cannot be decoded.
func Unreadable(kind string, err error) error {
	return transfer.Errorf(transfer.KindInternal, "the ledger has a %s that cannot be read: %w", kind, err)
}

// Decoded returns decoded values of a namespace. It ends with the first that cannot be decoded.
func Decoded[T any](values iter.Seq2[string, []byte], decode func(key string, data []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for key, data := range values {
			v, err := decode(key, data)
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Body decodes the body of a command or of a question. The error names its content.
func Body[T any](body json.RawMessage, content string) (v T, err error) {
	if err := json.Unmarshal(body, &v); err != nil {
		return v, transfer.Errorf(transfer.KindMalformed, "%s cannot be read: %w", content, err)
	}
	return v, nil
}

// CheckRoom returns an error of KindTooLarge where one more definition of a kind exceeds a principal's share of limit, as
// CheckShare says. The errors name the kind.
func CheckRoom[D Definition](d *Services, kind, principal string, limit int, all iter.Seq2[D, error]) error {
	own, others := 0, 0
	for v, err := range all {
		switch {
		case err != nil:
			return err
		case v.Owner() == principal:
			own++
		default:
			others++
		}
	}
	return CheckShare(d, kind, principal, own+1, others, limit)
}

// Share is the share of a principal in a limit of an agent: half of the room that the other principals leave, rounded up.
func Share(others, limit int) int { return (limit - others + 1) / 2 }

// CheckShare returns an error of KindTooLarge where a principal would have own definitions of a kind, and that exceeds
// its Share of the agent's limit. No principal alone can take the whole limit, and all together have no more than the
// limit.
func CheckShare(d *Services, kind, principal string, own, others, limit int) error {
	share := Share(others, limit)
	if own <= share {
		return nil
	}
	return transfer.Errorf(transfer.KindTooLarge, "%s would have %d %ss at agent %s; its share is %d, half of those that other users leave of %d",
		principal, own, kind, d.Agent, share, limit).WithHint("remove one, or wait until one ends")
}

// SeenBy are the authorities of MaySee, for Kept.
var SeenBy = []transfer.Authority{transfer.AuthOperate}

// Visible returns the definitions that a caller may see.
func Visible[D Definition](d *Services, who Caller, all iter.Seq2[D, error]) iter.Seq2[D, error] {
	return func(yield func(D, error) bool) {
		for v, err := range all {
			ok := false
			if err == nil {
				ok, err = d.MaySee(who, v.Owner())
			}
			if (ok || err != nil) && !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Page passes the first definitions to add, limit at most, and reports whether there are more.
func Page[D Definition](all iter.Seq2[D, error], limit int, add func(D)) (more bool, err error) {
	n := 0
	for v, err := range all {
		if n++; err != nil || n > limit {
			return err == nil, err
		}
		add(v)
	}
	return false, nil
}

// Find returns the definition whose ID ends in a suffix, of those that a caller may see. The errors and their hints name
// the kind.
func Find[D Definition](d *Services, who Caller, kind, suffix string, all iter.Seq2[D, error]) (found D, err error) {
	if err := transfer.CheckIDSuffix(suffix); err != nil {
		return found, err
	}
	n, end := 0, strings.ToLower(suffix)
	for v, err := range all {
		if err != nil {
			return found, err
		}
		if !strings.HasSuffix(v.Key(), end) {
			continue
		}
		if ok, err := d.MaySee(who, v.Owner()); err != nil {
			return found, err
		} else if !ok {
			continue
		}
		if n++; n > 1 {
			return found, transfer.Errorf(transfer.KindUsage, "the %ss %s and %s both end in %s", kind, found.Key(), v.Key(), suffix).WithHint("give more of the ID")
		}
		found = v
	}
	if n == 0 {
		return found, d.NotFound(kind, suffix)
	}
	return found, nil
}

// NotFound returns the error for a definition of a kind that the agent does not have.
func (s *Services) NotFound(kind, key string) error {
	return transfer.Errorf(transfer.KindNotFound, "%s has no %s %s", s.Agent, kind, key).WithHint("`ferry " + kind + " ls` lists them")
}

// MaySee reports whether a caller may see a definition: the caller is its owner, or has AuthOperate here.
func (s *Services) MaySee(who Caller, owner string) (bool, error) {
	err := s.MayChange(who, owner, transfer.AuthNone)
	if transfer.KindOf(err) == transfer.KindDenied {
		return false, nil
	}
	return err == nil, err
}

// MayChange checks that a caller may change a definition: as its owner with an authority (AuthNone: none), or with
// AuthOperate.
func (s *Services) MayChange(who Caller, owner string, own transfer.Authority) error {
	switch {
	case owner != who.Principal:
		return s.May(who.Principal, transfer.AuthOperate)
	case own != transfer.AuthNone:
		return s.May(who.Principal, own)
	}
	return nil
}

// Changed returns the audit record of a caller's change of a definition.
func (c Caller) Changed(text string) audit.Record {
	return audit.Record{Event: audit.Changed, Principal: c.Principal, Originator: &c.Originator, Text: text, Vouched: audit.Vouched{Author: c.Author}}
}
