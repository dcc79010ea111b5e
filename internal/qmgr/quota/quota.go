// Package quota decides whether a member of a network may publish one more message. It bounds the room that one member,
// and the messages for one destination, take in each stream, and the rate of one member's messages.
//
// A share is measured against the room that is left. One member may hold an eighth of that room in a stream of
// commands: alone a ninth of the stream. Twenty such members leave a tenth of it. Nothing tells honest members from
// others.
//
// A Stock knows the messages that it has admitted. A look at the stream, which has numbers and no sizes, tells it how
// many of them are left.
package quota

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ferry/internal/transfer"
)

// Limits of a Stock and a Pace. The number of messages in a stream bounds the subjects of its Stock.
const (
	mostMembers = 8192 // with a rate; beyond it a member that has been silent for long is forgotten

	// overhead is the room of a message in a stream beside its body and its subject, in bytes.
	overhead = 64
)

// A Share is the part of the free room of a stream that may be held, in eighths. 0: all of it.
type Share struct {
	Member, Destination, Via uint64
}

// Room is the room of a stream, in bytes and messages. A limit of 0 is none.
type Room struct {
	Bytes, Messages       uint64
	MaxBytes, MaxMessages uint64
	MaxPerSubject         uint64 // messages; the stream refuses more
}

// A Message is a message that is to be stored.
type Message struct {
	Subject     string
	Member      string // the token of its sender
	Destination string // the token of its addressee
	Via         string // token of the queue manager that forwards it; "" if the member itself has published it here
	Size        int    // of its body, in bytes
}

// amount is the size of the held messages.
type amount struct{ bytes, messages uint64 }

// A Stock counts the messages and bytes of one stream by member. Its methods may be called at the same time.
type Stock struct {
	name  string
	share Share

	mu       sync.Mutex
	room     Room
	subjects map[source]*waiting
	members  map[string]*amount
	to, via  map[string]*amount
}

// A source is a subject, and the queue manager that forwards its messages. The messages of a subject from two sources
// are told apart by their number alone, so each source stays charged until few enough are left.
type source struct{ subject, via string }

// waiting are the messages of one source, oldest first.
type waiting struct {
	member, to string
	sizes      []uint32
	fresh      int // newest ones that were admitted after the last look
}

// NewStock returns the Stock of a stream that has so much room until the first look.
func NewStock(name string, share Share, room Room) *Stock {
	return &Stock{name: name, share: share, room: room, subjects: map[source]*waiting{}, members: map[string]*amount{}, to: map[string]*amount{}, via: map[string]*amount{}}
}

// Admit charges a message. Its error is of KindNoSpace if there is no room for it.
func (s *Stock) Admit(m Message) error {
	size := amount{uint64(m.Size + len(m.Subject) + overhead), 1}
	s.mu.Lock()
	defer s.mu.Unlock()
	from := source{m.Subject, m.Via}
	w, by, to, via := s.subjects[from], s.members[m.Member], s.to[m.Destination], s.via[m.Via]
	if by == nil {
		by = &amount{}
	}
	if to == nil {
		to = &amount{}
	}
	if via == nil {
		via = &amount{}
	}
	switch {
	case !s.room.fits(size, amount{}, 0):
		return transfer.Errorf(transfer.KindNoSpace, "%s is full: it has %s of %d messages", s.name, transfer.FormatBytes(int64(s.room.Bytes)), s.room.Messages)
	case !s.room.fits(size, *by, s.share.Member):
		return transfer.Errorf(transfer.KindNoSpace, "%s has %s of %d messages in %s, the most that one may have at present", m.Member, transfer.FormatBytes(int64(by.bytes)), by.messages, s.name)
	case !s.room.fits(size, *to, s.share.Destination):
		return transfer.Errorf(transfer.KindNoSpace, "%s of %d messages wait for %s in %s, the most that may wait for one at present", transfer.FormatBytes(int64(to.bytes)), to.messages, m.Destination, s.name)
	case m.Via != "" && !s.room.fits(size, *via, s.share.Via):
		return transfer.Errorf(transfer.KindNoSpace, "queue manager %s has handed on %s of %d messages to %s, the most that one may have there at present", m.Via, transfer.FormatBytes(int64(via.bytes)), via.messages, s.name)
	}
	if w == nil {
		w = &waiting{member: m.Member, to: m.Destination}
		s.subjects[from], s.members[m.Member], s.to[m.Destination], s.via[m.Via] = w, by, to, via
	}
	if most := s.room.MaxPerSubject; most > 0 && uint64(len(w.sizes)) >= most {
		// The stream refuses the message, or the oldest one is gone. The charge is that of the larger one.
		size = amount{max(size.bytes, uint64(w.sizes[0])) - uint64(w.sizes[0]), 0}
		w.sizes = append(w.sizes[1:], w.sizes[0]+uint32(size.bytes))
		w.fresh = min(w.fresh+1, len(w.sizes))
	} else {
		w.sizes = append(w.sizes, uint32(size.bytes))
		w.fresh++
	}
	by.add(size)
	to.add(size)
	via.add(size)
	s.room.Bytes += size.bytes
	s.room.Messages += size.messages
	return nil
}

// fits reports whether a message has room where so much is held already, of a share of the free room in eighths.
func (r Room) fits(size, held amount, share uint64) bool {
	return fits(r.MaxBytes, r.Bytes, size.bytes, held.bytes, share) && fits(r.MaxMessages, r.Messages, size.messages, held.messages, share)
}

func fits(most, used, size, held, share uint64) bool {
	if most == 0 {
		return true
	}
	if used+size > most {
		return false
	}
	return share == 0 || held+size <= (most-used)*share/8
}

func (a *amount) add(b amount) { a.bytes, a.messages = a.bytes+b.bytes, a.messages+b.messages }
func (a *amount) sub(b amount) { a.bytes, a.messages = a.bytes-b.bytes, a.messages-b.messages }

// Held reports whether any message is charged.
func (s *Stock) Held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subjects) > 0
}

// Look takes the state of the stream: its room, and the number of messages of each of its subjects. The stream has all
// messages that were admitted before the last look. Later ones may be on their way to it: they stay charged, and take
// room, until the next look.
func (s *Stock) Look(room Room, subjects map[string]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
	for from, w := range s.subjects {
		keep := int(min(subjects[from.subject], uint64(len(w.sizes)))) + w.fresh
		w.fresh = 0
		for len(w.sizes) > keep {
			gone := amount{uint64(w.sizes[0]), 1}
			w.sizes = w.sizes[1:]
			s.members[w.member].sub(gone)
			s.to[w.to].sub(gone)
			s.via[from.via].sub(gone)
		}
		if len(w.sizes) == 0 {
			s.drop(from, w)
			continue
		}
		for _, size := range w.sizes[min(subjects[from.subject], uint64(len(w.sizes))):] { // on their way
			s.room.Bytes += uint64(size)
			s.room.Messages++
		}
	}
}

// drop forgets a source without messages. s.mu is held.
func (s *Stock) drop(from source, w *waiting) {
	delete(s.subjects, from)
	if s.members[w.member].messages == 0 {
		delete(s.members, w.member)
	}
	if s.to[w.to].messages == 0 {
		delete(s.to, w.to)
	}
	if s.via[from.via].messages == 0 {
		delete(s.via, from.via)
	}
}

// A Rate is a bound on the messages of one member.
type Rate struct {
	Messages, Bytes float64 // in a second
	Burst           time.Duration
}

// A Pace spreads the messages of members over time. Its methods may be called at the same time.
type Pace struct {
	rate Rate

	mu      sync.Mutex
	members map[string]*rate.Limiter // its tokens are microseconds of messages at the rate
}

// NewPace returns a Pace that limits the rate of each member.
func NewPace(r Rate) *Pace { return &Pace{rate: r, members: map[string]*rate.Limiter{}} }

// Take returns the time that a member must wait before it publishes a message of a size.
func (p *Pace) Take(member string, size int, now time.Time) time.Duration {
	return p.of(member, now).ReserveN(now, p.cost(size)).DelayFrom(now)
}

// Allow charges a message, and reports whether the member may publish it without a wait. A message that it refuses is not charged.
func (p *Pace) Allow(member string, size int, now time.Time) bool {
	return p.of(member, now).AllowN(now, p.cost(size))
}

// burst returns the most that a member may save up, in microseconds.
func (p *Pace) burst() int { return int(p.rate.Burst.Microseconds()) }

// cost returns the charge for a message of a size, in microseconds.
func (p *Pace) cost(size int) int {
	return min(int(max(1/p.rate.Messages, float64(size)/p.rate.Bytes)*1e6), p.burst())
}

// of returns the limiter of a member.
func (p *Pace) of(member string, now time.Time) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.members[member]
	if l == nil {
		if len(p.members) >= mostMembers {
			maps.DeleteFunc(p.members, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(p.burst()) })
		}
		l = rate.NewLimiter(1e6, p.burst())
		p.members[member] = l
	}
	return l
}
