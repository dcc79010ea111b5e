package coordination

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"ferry/internal/security/access"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A keptTrust document is the trust document that coordination has taken last, in a file of its
// directory: an older one is not taken after a restart either.
type keptTrust struct {
	V       int    `json:"v"`
	Network string `json:"network"`
	Doc     []byte `json:"doc"`
}

// A trustFile is where it is.
type trustFile string

func trustIn(dir string) trustFile { return trustFile(filepath.Join(dir, "trust.json")) }

// kept returns the document that keep has stored for a network; nil: none.
func (f trustFile) kept(network string) ([]byte, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var k keptTrust
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	switch {
	case err != nil:
		return nil, transfer.Errorf(transfer.KindMalformed, "%s cannot be read: %w", string(f), err).
			WithHint("remove it; coordination asks the authority for a new one")
	case k.V != 1 || k.Network != network:
		return nil, nil
	}
	return k.Doc, nil
}

// keep replaces the document that is kept.
func (f trustFile) keep(network string, doc []byte) error {
	data, err := json.Marshal(keptTrust{V: 1, Network: network, Doc: doc})
	if err != nil {
		return err
	}
	return keyfile.Replace(string(f), data)
}

// rights answers what principals may do at coordination.
type rights struct{ *access.Judge }

// may is whether a principal has an authority at an agent, or in the network.
func (r rights) may(principal string, right transfer.Authority, at transfer.AgentName) error {
	_, err := r.Judge.Ask(access.Question{Principal: principal, Right: right, Agent: at})
	return err
}

// seesAll is whether a principal may see the transfers of others: nil, or why not.
func (r rights) seesAll(principal string) error {
	err := r.may(principal, transfer.AuthAudit, "")
	if transfer.KindOf(err) == transfer.KindDenied && r.may(principal, transfer.AuthOperate, "") == nil {
		return nil
	}
	return err
}

// whose returns "" for a principal that sees all transfers, and the principal's own token for any other.
func (r rights) whose(principal string) (string, error) {
	switch err := r.seesAll(principal); {
	case err == nil:
		return "", nil
	case transfer.KindOf(err) == transfer.KindDenied:
		return principal, nil
	default:
		return "", err
	}
}

// seesRoots reports whether a principal has a right at an agent for which it must know the agent's directories.
func (r rights) seesRoots(principal string, at transfer.AgentName) bool {
	for _, right := range []transfer.Authority{transfer.AuthSource, transfer.AuthDest, transfer.AuthOperate, transfer.AuthAdmin, transfer.AuthAudit} {
		if r.may(principal, right, at) == nil {
			return true
		}
	}
	return false
}

// seesDefinition reports whether a principal may see a definition of an agent.
func (r rights) seesDefinition(principal string, at transfer.AgentName, d *wire.Definition) (bool, error) {
	if d.Owner != "" && d.Owner == principal {
		return true, nil
	}
	for _, right := range d.Readers {
		err := r.may(principal, right, at)
		if transfer.KindOf(err) != transfer.KindDenied {
			return err == nil, err
		}
	}
	return false, nil
}
