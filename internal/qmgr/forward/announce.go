package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// inboxCounter numbers the inboxes of questions.
type inboxCounter struct{ atomic.Uint64 }

// An Announcer announces this queue manager to the others, and keeps their announcements.
type Announcer struct {
	f        *Forwarder
	instance string // of this run of the queue manager

	Mu     sync.Mutex
	Others map[string]other // by token
	here   atomic.Bool      // coordination reads here
}

// An other is another queue manager that has announced itself.
type other struct {
	Announcement
	heard   time.Time
	ahead   time.Duration // how far its clock is ahead of this one's, with the travel time of the message
	earlier []string      // the last instances of its name before this one, without a pause between them
}

// maxEarlier is the number of earlier instances of a queue manager that are known.
const maxEarlier = 8

// An Announcement is the description that a queue manager publishes of itself. Unknown fields are ignored.
type Announcement struct {
	V            int       `json:"v"`
	Name         string    `json:"name"`
	Domain       string    `json:"domain"` // token of the queue manager, or of its cluster
	Instance     string    `json:"instance"`
	Time         time.Time `json:"time"`
	MaxPayload   int64     `json:"max_payload"`
	Coordination bool      `json:"coordination"` // reads its audit batches here
	Version      string    `json:"version"`      // of the NATS library
	URL          string    `json:"url,omitempty"`
	Clients      int       `json:"clients"`
	Stored       uint64    `json:"stored_bytes"`
	Degraded     string    `json:"degraded,omitempty"`
	Links        uint64    `json:"links"` // how often one of its channels has come up
}

// Times of announcements.
const (
	announceSoon  = 100 * time.Millisecond                // after a channel has come up
	ManagerGone   = 3*channel.AnnounceEvery + time.Second // away
	managerForgot = 24 * time.Hour

	MaxAnnouncement = 4 << 10          // bytes
	sayClockOff     = 10 * time.Second // less than this is not worth a word
)

func newAnnouncer(f *Forwarder) *Announcer {
	return &Announcer{f: f, instance: errands.NewSecret(), Others: map[string]other{}}
}

// announce speaks until the forwarder ends.
func (a *Announcer) announce() {
	next := channel.AnnounceEvery
	for {
		a.lookForCoordination()
		if data, err := json.Marshal(a.about()); err == nil {
			a.f.Own.NATS().Publish(wire.ManagerSubject(transfer.Token(a.f.cfg.Name)), data)
		}
		select {
		case <-time.After(next):
			next = min(2*next, channel.AnnounceEvery)
		case <-a.f.cfg.Channels.Up: // a queue manager that is present needs this announcement, and receives it at once
			next = announceSoon
		case <-a.f.ctx.Done():
			return
		}
	}
}

func (a *Announcer) about() Announcement {
	cfg := &a.f.cfg
	x := Announcement{V: 1, Name: cfg.Name, Domain: a.f.self, Instance: a.instance, Time: time.Now(), MaxPayload: streams.MaxPayload, Coordination: a.here.Load(),
		Version: server.VERSION, URL: cfg.URL(), Degraded: errands.Shortened(cfg.Faults(), errands.MaxDegraded)}
	x.Links = cfg.Channels.Ups()
	x.Clients = cfg.NS.NumClients()
	if v, err := cfg.NS.Jsz(nil); err == nil {
		x.Stored = v.Store
	}
	return x
}

// lookForCoordination finds out whether coordination is connected here: its reader waits for messages, or has some.
func (a *Announcer) lookForCoordination() {
	ctx, cancel := context.WithTimeout(a.f.ctx, streams.APITimeout)
	defer cancel()
	cons, err := a.f.Own.JS().Consumer(ctx, string(streams.StreamEvent), roles.DurableCoordination)
	if err != nil {
		a.here.Store(false)
		return
	}
	info := cons.CachedInfo()
	a.here.Store(info.NumWaiting > 0 || info.NumAckPending > 0)
}

// coordinationAt returns the token of the queue manager of coordination; empty if none is known.
func (a *Announcer) coordinationAt() string {
	if a.here.Load() {
		return a.f.self
	}
	if a.f.Registry.Identity != nil { // coordination publishes its registration itself
		return a.f.WhereIs(wire.Coordination)
	}
	a.Mu.Lock()
	defer a.Mu.Unlock()
	for _, o := range a.Others {
		if o.Coordination && time.Since(o.heard) < ManagerGone {
			return o.Domain
		}
	}
	return ""
}

// DomainOf returns the token of a queue manager, or of its cluster, by its name.
func (a *Announcer) DomainOf(name string) string {
	if a.f.Registry.Identity != nil {
		return a.f.Registry.DomainOf(transfer.Token(name))
	}
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if o, ok := a.Others[transfer.Token(name)]; ok {
		return o.Domain
	}
	return transfer.Token(name)
}

// Announced takes the announcement of another queue manager.
func (a *Announcer) Announced(m *nats.Msg) {
	token := wire.LastToken(m.Subject)
	var x Announcement
	if data := errands.Unpacked(m.Data); len(token) > streams.MaxToken || len(data) > MaxAnnouncement {
		a.f.quiet.Warn("the announcement of a queue manager is too long, and is ignored", "queue_manager", errands.Shortened(token, streams.MaxToken), "bytes", len(data))
		return
	} else if json.Unmarshal(data, &x) != nil || x.V != 1 || transfer.Token(x.Name) != token || transfer.Token(x.Domain) != x.Domain || len(x.Domain) > streams.MaxToken || x.Instance == a.instance {
		return
	}
	x.Domain = a.checkedDomain(&x)
	now := time.Now()
	a.Mu.Lock()
	was, known := a.Others[token]
	if !known && len(a.Others) >= registrations.MaxManagers {
		a.Mu.Unlock()
		a.f.quiet.Warn("there are too many queue managers; one more is not heard", "queue_manager", x.Name, "limit", registrations.MaxManagers)
		return
	}
	back := !known || now.Sub(was.heard) > ManagerGone
	o := other{Announcement: x, heard: now, ahead: x.Time.Sub(now)}
	if !back {
		o.earlier = was.before(x.Instance)
	}
	a.Others[token] = o
	a.Mu.Unlock()

	// A queue manager that was started again is another instance. Its earlier one is not heard again.
	switch twins := token == transfer.Token(a.f.cfg.Name) || !back && slices.Contains(was.earlier, x.Instance); {
	case twins:
		a.f.noticed("two queue managers are called %s: give one of them another name (--name); messages for one reach the other", x.Name)
	case o.ahead.Abs() > errands.MaxClockOff:
		a.f.noticed("%s", clockOff(o))
	case x.MaxPayload != streams.MaxPayload:
		a.f.noticed("queue manager %s takes messages of %d bytes, this one of %d (max_payload): larger ones do not pass between them", x.Name, x.MaxPayload, streams.MaxPayload)
	case x.Coordination && a.here.Load() && x.Domain != a.f.self:
		a.f.noticed("two coordination services run, here and at queue manager %s: stop one of them", x.Name)
	}
	if back {
		a.f.Mu.Lock()
		delete(a.f.Blocked, x.Domain)
		a.f.Mu.Unlock()
		a.f.lookSoon()
	}
}

// before returns the instances that were heard before the one that is heard now.
func (o *other) before(instance string) []string {
	if o.Instance == instance {
		return o.earlier
	}
	all := slices.DeleteFunc(slices.Clone(o.earlier), func(e string) bool { return e == instance })
	all = append(all, o.Instance)
	return all[max(len(all)-maxEarlier, 0):]
}

// checkedDomain returns the token of a queue manager or of its cluster. Signed statements take precedence.
func (a *Announcer) checkedDomain(x *Announcement) string {
	if a.f.Registry.Identity == nil {
		return x.Domain
	}
	return a.f.Registry.DomainOf(transfer.Token(x.Name))
}

// domains returns the tokens of the other queue managers, or clusters, that can be reached.
func (a *Announcer) domains() (all []string) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	for _, o := range a.Others {
		if o.Domain != a.f.self && time.Since(o.heard) <= ManagerGone {
			all = append(all, o.Domain)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// forget drops queue managers without a recent announcement. Without room for new ones it drops those that are away,
// too.
func (a *Announcer) forget(now time.Time) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	most := managerForgot
	if len(a.Others) >= registrations.MaxManagers {
		most = ManagerGone
	}
	maps.DeleteFunc(a.Others, func(_ string, o other) bool { return now.Sub(o.heard) > most })
}

// InstanceOf returns an identifier of the run of a queue manager that has published on a subject of wire.AllManagers.
// It also changes after the queue manager was unreachable for others.
func InstanceOf(announced []byte) string {
	var x Announcement
	if json.Unmarshal(announced, &x) != nil {
		return ""
	}
	return x.Instance + " " + strconv.FormatUint(x.Links, 10)
}

func clockOff(o other) string {
	way := "ahead of"
	if o.ahead < 0 {
		way = "behind"
	}
	return fmt.Sprintf("the clock of queue manager %s is %s %s this one's", o.Name, o.ahead.Abs().Round(time.Second), way)
}

// Linked returns the queue managers that have announced themselves and are in another cluster, by name.
func (a *Announcer) Linked() (all []streams.Member) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	for _, o := range a.Others {
		if o.Domain == a.f.self {
			continue
		}
		m := streams.Member{Name: o.Name, Linked: true, URL: o.URL, Version: o.Version, Up: time.Since(o.heard) <= ManagerGone, Connections: o.Clients, StoreBytes: o.Stored, Degraded: o.Degraded}
		if o.Domain != transfer.Token(o.Name) {
			m.Cluster = o.Domain
		}
		if o.ahead.Abs() > sayClockOff {
			m.Degraded = strings.TrimSuffix(clockOff(o)+"; "+m.Degraded, "; ")
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b streams.Member) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
