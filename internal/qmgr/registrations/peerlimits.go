package registrations

import (
	"strings"
	"time"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// peerLimits bound the messages of each speaker behind a peer, over all connections of the peer. They are apart from the
// paces of clients (limits): a peer that speaks for an agent here does not delay the agent.
type peerLimits struct{ asks, words, pairs *quota.Pace }

// newPeerLimits returns paces of twice the rates of a member. The gate of an honest peer has delayed the messages of
// each member to those rates. But messages that have waited for the link come at once.
func newPeerLimits() *peerLimits {
	twice := func(r quota.Rate) *quota.Pace {
		return quota.NewPace(quota.Rate{Messages: 2 * r.Messages, Bytes: 2 * r.Bytes, Burst: r.Burst})
	}
	return &peerLimits{asks: twice(AskRate), words: twice(WordRate), pairs: twice(PairRate)}
}

// Admits implements gate.PeerFilter. Chunk messages have no pace, as those of clients; the limits of Read are for
// registrations. Coordination and the authority have none, as they answer all members.
func (p *peerFilter) Admits(subject string, size int) bool {
	class, to := wire.ClassOf(subject)
	if class == wire.ClassData || p.Body(subject) {
		return true
	}
	speaker := p.speaker(subject)
	if speaker == wire.Coordination || speaker == wire.Authority {
		return true
	}
	now, ok := time.Now(), false
	switch class {
	case wire.ClassAsk:
		ok = p.paces.asks.Allow(speaker, size, now)
	case wire.ClassReply:
		ok = p.paces.pairs.Allow(speaker+" "+to, size, now) && p.paces.words.Allow(speaker, size, now)
	default:
		ok = p.paces.words.Allow(speaker, size, now)
	}
	if !ok {
		p.at.quiet.Dropped(errands.Shortened(speaker, streams.MaxToken), "too many messages through a channel", "queue_manager", p.peer, "subject", subject)
	}
	return ok
}

// speaker returns the name that a message is charged to: for a pipe its user, and for the queue managers behind the
// peer the kind of the message as well.
func (p *peerFilter) speaker(subject string) string {
	t := strings.Split(subject, ".")
	switch kind := t[1]; {
	case kind == "manager" || kind == "forward":
		return kind + " " + t[len(t)-1]
	case signed(kind):
		return kind
	case kind == "progress" || kind == "beat":
		return p.charged(t[2])
	default:
		return p.charged(t[3])
	}
}

// charged returns the token of the identity that pays for the messages of a token.
func (p *peerFilter) charged(token string) string {
	p.at.Mu.Lock()
	defer p.at.Mu.Unlock()
	return p.at.signer(token)
}

var (
	AskRate  = quota.Rate{Messages: 2_000, Bytes: 128 << 20, Burst: 4 * time.Second} // messages of application queues are put by questions
	WordRate = quota.Rate{Messages: 20_000, Bytes: 64 << 20, Burst: 2 * time.Second}
	PairRate = quota.Rate{Messages: 2_000, Bytes: 32 << 20, Burst: time.Second} // a transfer has some ten replies, and outcomes of 512 files are one
)
