package registrations

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"ferry/internal/qmgr/errands"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// ProofOf returns the newest registration of an identity at this queue manager; nil if there is none.
func (p *Registry) ProofOf(token string) json.RawMessage {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.own[p.signer(token)]
}

// Proves finds a registration that shows that an identity was at the queue manager from, or at another member of its cluster. The registration
// must not be older than most. member is the token of the identity: that of its user for a pipe.
func (p *Registry) Proves(all []json.RawMessage, token, from string, most time.Duration) (member string, err error) {
	for _, said := range all {
		x, made, rerr := ReadRegistration(said)
		if rerr != nil || !speaksAs(x.Who, token) {
			continue
		}
		now := time.Now()
		if made.Sub(now) > errands.MaxClockOff || now.Sub(made) > most+errands.MaxClockOff {
			err = transfer.Errorf(transfer.KindClock, "the registration of %s at queue manager %s is too old, or of a time to come", x.Who, x.At)
			continue
		}
		if _, _, err = p.check(&x); err != nil {
			continue
		}
		at := transfer.Token(x.At)
		p.Mu.Lock()
		ok := at == from || p.sameCluster(at, from)
		p.Mu.Unlock()
		if ok {
			return x.Who.Token(), nil
		}
		err = transfer.Errorf(transfer.KindDenied, "%s was at queue manager %s, and not at %s", x.Who, x.At, from)
	}
	if err == nil {
		err = transfer.Errorf(transfer.KindDenied, "no registration shows that %.200q was at queue manager %s", token, from)
	}
	return "", err
}

// speaksAs reports whether a token is that of an identity, or of a pipe of that user.
func speaksAs(who identity.Name, token string) bool {
	return who.Role != identity.Manager && who.Token() == token || who.Role == identity.User && transfer.AgentName(token).StreamOf(who.String())
}

// keptProofs is the content of the file.
type keptProofs struct {
	V      int               `json:"v"`
	Places []json.RawMessage `json:"places"`
}

// Read reads the proofs in the file. A damaged file costs the proofs of identities that do not connect again.
func (p *Registry) Read() {
	data, err := os.ReadFile(p.path)
	var kept keptProofs
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil || kept.V != 1 {
		if !errors.Is(err, fs.ErrNotExist) {
			p.log.Warn("read registrations of former clients failed", slog.String("path", p.path), slog.Any("error", err))
		}
		return
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, said := range kept.Places {
		if x, made, err := ReadRegistration(said); err == nil && len(p.own) < maxOwnProofs && time.Since(made) < ProofAge {
			p.own[x.Who.Token()], p.kept[x.Who.Token()] = said, x.Made
		}
	}
}

// Keep writes the file if it lacks the proof of an identity, or has an old one.
func (p *Registry) Keep() {
	p.Mu.Lock()
	due := false
	kept := keptProofs{V: 1}
	for token, said := range p.own {
		x, made, err := ReadRegistration(said)
		if err != nil || time.Since(made) > ProofAge {
			delete(p.own, token)
			delete(p.kept, token)
			continue
		}
		due = due || x.Made-p.kept[token] > keepProofs.Milliseconds()
		kept.Places = append(kept.Places, said)
	}
	if due {
		for token, said := range p.own {
			x, _, _ := ReadRegistration(said)
			p.kept[token] = x.Made
		}
	}
	p.Mu.Unlock()
	if !due {
		return
	}
	data, err := json.Marshal(kept)
	if err == nil {
		err = keyfile.Replace(p.path, data)
	}
	if err != nil {
		p.log.Warn("write registrations of clients failed", slog.String("path", p.path), slog.Any("error", err))
		p.Mu.Lock()
		clear(p.kept)
		p.Mu.Unlock()
	}
}
