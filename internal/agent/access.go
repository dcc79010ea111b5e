package agent

import (
	"runtime"
	"strings"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/security/access"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A gatekeeper decides which requests, commands and questions of a principal this agent takes.
type gatekeeper struct {
	*core
	*enrol.TrustCache
	words *word.Checker // nil: the network has no identities
}

// newGatekeeper reads the trust document that the ledger has.
func newGatekeeper(c *core, revoked func()) (*gatekeeper, error) {
	k, err := enrol.NewTrustCache(enrol.TrustCacheConfig{Conn: c.conn, Clock: c.cfg.Clock, Quiet: c.quiet, Who: string(c.cfg.Name),
		Sandbox: c.cfg.Sandbox, WithoutRules: c.cfg.Streams != nil, Fold: runtime.GOOS == "windows" || runtime.GOOS == "darwin", Revoked: revoked,
		Kept: func(network string) (doc []byte, err error) {
			err = c.ledger.View(func(tx *ledger.Tx) error { doc = tx.Trust(network).Get(); return nil })
			return doc, err
		},
		Keep: func(network string, doc []byte) error {
			return c.ledger.Update(func(tx *ledger.Tx) error { return tx.Trust(network).Put(doc) })
		}})
	g := &gatekeeper{core: c, TrustCache: k}
	if self := c.conn.Identity(); self != nil {
		g.words = word.NewChecker(self, identity.Agent, string(c.cfg.Name))
		g.words.Delegate(func(by, principal identity.Name) error {
			return g.Judge().Delegates(by.Token(), principal.Token(), c.cfg.Name)
		})
	}
	return g, err
}

// author returns the proved author of a message of a speaker. The message must be of the kind, and have the ID, that
// its author has signed. In a network without identities no message is signed, and the author is nil.
func (g *gatekeeper) author(signed *word.Word, body []byte, kind word.Kind, id transfer.ID, speaker string) (*word.Author, error) {
	if g.words == nil {
		return nil, nil
	}
	return g.words.Check(signed, body, kind, id, speaker, g.cfg.Clock.Now())
}

// origin is the origin of a message of a speaker. by has signed it; nil: it was not signed.
func (g *gatekeeper) origin(speaker string, by *word.Author) word.Origin {
	o := word.Origin{Principal: speaker, Author: by}
	if by != nil {
		o.Principal = by.Principal()
	}
	if by == nil || by.Delegated() {
		o.Holder = g.Judge().Key(o.Principal)
	}
	return o
}

// holds returns nil while the members behind a command have the keys that they had then. A name that was enrolled again
// may belong to another person.
func (g *gatekeeper) holds(o word.Origin) error {
	held := func(member, key string) error {
		if now := g.Judge().Key(member); strings.HasPrefix(key, now) {
			return nil
		}
		return transfer.Errorf(transfer.KindDenied, "%s was enrolled again with other keys after the command of %s", member, member).
			WithHint("its present holder can give the command again")
	}
	by := o.Author
	if by == nil {
		return held(o.Principal, o.Holder)
	}
	err := held(by.By.Token(), by.Key)
	if err == nil && by.Delegated() {
		if err = held(o.Principal, o.Holder); err == nil {
			err = g.Judge().Delegates(by.By.Token(), o.Principal, g.cfg.Name)
		}
	}
	return err
}

// waits returns the reason why no new request is accepted, as an error that waits; nil where requests are accepted.
func (g *gatekeeper) waits() error {
	if err := g.Stale(); err != nil {
		return err
	}
	return g.Judge().Ready()
}

// may checks whether a principal has an authority here. An authority for paths counts for any path.
func (g *gatekeeper) may(principal string, right transfer.Authority) (rule string, err error) {
	return g.Judge().Ask(access.Question{Principal: principal, Right: right, Agent: g.cfg.Name})
}

// permit is the rights of a principal to files here. The standard input and output of a command belong to its
// user.
func (g *gatekeeper) permit(principal string) place.Permit {
	if g.cfg.Streams != nil {
		return nil
	}
	return g.Judge().For(principal, g.cfg.Name)
}

// submits checks whether a principal may have this agent send files, and returns the rule that allows it. Standard
// input of a command may be sent by that command alone.
func (g *gatekeeper) submits(principal string, q *transfer.Request) (rule string, err error) {
	if g.cfg.Streams != nil {
		return "", g.ownPipe(principal, g.cfg.Name, q.ID)
	}
	rule, err = g.may(principal, transfer.AuthSource)
	archives := q.Archive != ""
	deletes := q.Rest != nil && q.Rest.Deletes || q.Removes()
	for n := range q.Items {
		o := q.Of(&q.Items[n])
		deletes, archives = deletes || o.Removes(), archives || o.Archive != ""
	}
	if err == nil && deletes {
		_, err = g.may(principal, transfer.AuthDeleteSource)
	}
	if err == nil && archives {
		_, err = g.may(principal, transfer.AuthDest)
	}
	return rule, err
}

// admits checks whether a transfer of a principal may come from an agent, and returns the rules that allow it. The
// agent must be a peer, and the principal must have the right to write files here. The agent of a command's own
// standard input or output is the user itself.
func (g *gatekeeper) admits(principal string, from transfer.AgentName, id transfer.ID) (rules string, err error) {
	if g.cfg.Streams != nil {
		return "", g.ownPipe(principal, g.cfg.Name, id)
	}
	peer := ""
	switch {
	case from == g.cfg.Name:
	case from.Stream():
		err = g.ownPipe(principal, from, id)
	default:
		peer, err = g.may(from.Token(), transfer.AuthPeer)
	}
	if err != nil {
		return "", err
	}
	rule, err := g.may(principal, transfer.AuthDest)
	if peer != "" && peer != rule {
		rule += "; peer: " + peer
	}
	return rule, err
}

// ownPipe returns nil where an agent is the pipe of a principal for a transfer.
func (g *gatekeeper) ownPipe(principal string, from transfer.AgentName, id transfer.ID) error {
	self := g.conn.Identity()
	if self == nil {
		return nil
	}
	name, err := identity.OfToken(self.Name().Network, principal)
	if err != nil || from != transfer.StreamAgentOf(name.String(), id) {
		return transfer.Errorf(transfer.KindDenied, "%s is not the pipe of a command of %s for the transfer %s", from, principal, id)
	}
	return nil
}

// answers checks whether a principal has the authority that a question needs.
func (g *gatekeeper) answers(principal string, needs transfer.Authority) error {
	if needs == transfer.AuthNone {
		return nil
	}
	if s := g.cfg.Streams; s != nil {
		return g.ownPipe(principal, g.cfg.Name, s.Transfer)
	}
	_, err := g.may(principal, needs)
	return err
}

// sees checks whether a principal may see a transfer. The principal owns the transfer, is the agent at one of its ends,
// or has the authority operate or audit.
func (g *gatekeeper) sees(principal string, p *transfer.Progress) error {
	if principal == p.Principal || principal == p.Destination.Token() || principal == p.Source.Token() {
		return nil
	}
	if p.Destination == "" && p.State.Final() {
		return nil // it ended before its request was known: there is nothing more to see
	}
	_, err := g.may(principal, transfer.AuthAudit)
	if transfer.KindOf(err) == transfer.KindDenied {
		_, err = g.may(principal, transfer.AuthOperate)
	}
	return err
}

// visible returns a heartbeat as a principal may see it: without the roots where the principal has no rights on them.
func (g *gatekeeper) visible(principal string, b *wire.Beat) *wire.Beat {
	for _, right := range []transfer.Authority{transfer.AuthSource, transfer.AuthDest, transfer.AuthOperate, transfer.AuthAdmin, transfer.AuthAudit} {
		if _, err := g.may(principal, right); err == nil {
			return b
		}
	}
	hidden := *b
	hidden.Roots, hidden.Rates, hidden.Exits = nil, nil, nil
	return &hidden
}

// controls checks whether a principal may end or resume a transfer. The transfer must be the principal's own, or the
// principal has the authority operate. The result is the principal of the transfers that may be ended; empty: those of
// all. An unknown transfer has no known owner yet. A command for it applies to the principal's own requests alone, and
// takes the authority to submit any.
func (g *gatekeeper) controls(principal string, id transfer.ID) (whose string, err error) {
	if s := g.cfg.Streams; s != nil {
		return "", g.ownPipe(principal, g.cfg.Name, s.Transfer)
	}
	rec, err := ledger.SourceOf(g.ledger, id)
	if err != nil {
		return "", err
	}
	_, err = g.may(principal, transfer.AuthOperate)
	switch {
	case transfer.KindOf(err) != transfer.KindDenied:
		return "", err
	case rec != nil && rec.Principal == principal:
		return principal, nil
	case rec == nil:
		_, err = g.may(principal, transfer.AuthSource)
	}
	return principal, err
}

// alone reports whether a principal may keep others from repeating a transfer: one that may end it. A transfer that this
// agent does not know may be another principal's. The error says that this is not known now.
func (g *gatekeeper) alone(principal string, id transfer.ID) (bool, error) {
	whose, err := g.controls(principal, id)
	if transfer.KindOf(err) == transfer.KindDenied {
		return false, nil
	}
	if err != nil || whose == "" {
		return err == nil, err
	}
	rec, err := ledger.SourceOf(g.ledger, id)
	return rec != nil && rec.Principal == principal, err
}

// refusal is the audit record of something that a principal was refused.
func refusal(principal string, id transfer.ID, err error) audit.Record {
	e := transfer.AsError(err)
	return audit.Record{Event: audit.Refused, Role: audit.RoleSource, Transfer: id, Principal: principal, Code: e.Kind.Code(), Error: e}
}
