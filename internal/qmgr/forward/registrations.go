package forward

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Queue managers pass on registrations. A client gives its registration to its queue manager (Register), which publishes it. The registration passes all
// channels, and the gate of each reads it before the messages that follow. Two queue managers that a channel or a cluster joins ask
// each other for all registrations that they know.

// A registrationsTask asks a queue manager for the registrations that it knows.
type registrationsTask struct {
	After string `json:"after,omitempty"` // registrations.Registry.After
}

// someRegistrations are a part of them.
type someRegistrations struct {
	V             int               `json:"v"`
	Registrations []json.RawMessage `json:"places"`
	Next          string            `json:"next,omitempty"` // registrationsTask.After of the next part; "" where this is the last
}

const (
	registrationsPart  = 32 << 10         // bytes of a part
	registrationsWait  = 10 * time.Second // for a part
	registrationsPeers = 32               // queue managers that are asked at once
	registrationsQuiet = 5                // questions without an answer, before that is logged
)

// registrationLists bound the lists of all registrations that one queue manager begins. It asks for one after each connection of a channel.
var registrationLists = quota.Rate{Messages: 0.2, Bytes: 1, Burst: 100 * time.Second}

func (f *Forwarder) registrationsAfter(t registrationsTask) someRegistrations {
	all, next := f.Registry.After(t.After, registrationsPart)
	return someRegistrations{V: 1, Registrations: all, Next: next}
}

// Register takes a registration that the holder of the token asker has given. It returns the time of the latest known registration of the
// same identity.
func (f *Forwarder) Register(asker string, said []byte) (newest int64, err error) {
	x, _, err := registrations.ReadRegistration(said)
	if err == nil && (f.Registry.Identity == nil || x.Who.Role == identity.Manager || transfer.Token(x.At) != f.Registry.Self) {
		err = transfer.Errorf(transfer.KindDenied, "the registration of %s names queue manager %s, and this is %s", x.Who, x.At, f.cfg.Name)
	}
	if err == nil {
		err = f.TakeRegistration(said)
	}
	if err != nil {
		f.quiet.Dropped(errands.Shortened(asker, streams.MaxToken), "take registration of client failed", "error", err)
		return 0, err
	}
	return f.Registry.Made(x.Who.Token()), nil
}

// TakeRegistration takes a registration. A new one goes to all queue managers.
func (f *Forwarder) TakeRegistration(said []byte) error {
	x, fresh, err := f.Registry.Take(said)
	if err != nil || !fresh {
		return err
	}
	f.noticeMove(&x)
	return f.Own.NATS().Publish(wire.RegistrationSubject(x.Who.Token()), compress.Messages.Pack(said))
}

// noticeMove has the stored messages of an identity that has moved forwarded.
func (f *Forwarder) noticeMove(x *identity.Registration) {
	if _, away := f.elsewhere(x.Who.Token()); away && x.Who.Role != identity.Manager {
		f.moved(x.Who.Token())
	}
}

// hearRegistration hears a registration, from a channel of this queue manager or of another member of the cluster.
func (f *Forwarder) hearRegistration(m *nats.Msg) {
	x, _, err := f.Registry.Take(errands.Unpacked(m.Data))
	if err != nil {
		f.quiet.Dropped(errands.Shortened(wire.LastToken(m.Subject), streams.MaxToken), "read registration failed", "error", err)
		return
	}
	f.noticeMove(&x)
}

// publishRegistrations publishes the registrations of this queue manager, until stop. It asks new peers for the registrations that they know, and
// also cluster members with new routes: a message may have been lost before.
func (f *Forwarder) publishRegistrations() {
	f.Registry.Read()
	said, kept := map[string]time.Time{}, time.Now()
	type answer struct {
		of    string
		asked func()
		err   error
	}
	answers, busy, failed, routes := make(chan answer, registrationsPeers), map[string]bool{}, map[string]int{}, map[string]uint64{}
	ask := func(of string, asked func()) {
		if busy[of] || len(busy) == registrationsPeers {
			return
		}
		busy[of] = true
		f.tasks.Go(func() {
			err := f.askRegistrations(of)
			if err != nil {
				f.pause(errands.RegistrationsAgain)
			}
			answers <- answer{of, asked, err}
		})
	}
	for {
		for peer := range f.Registry.Unasked() {
			began := time.Now()
			ask(peer, func() { f.Registry.Asked(peer, began) })
		}
		for name, newest := range f.cfg.Routes() {
			if routes[name] != newest {
				ask(transfer.Token(name), func() { routes[name] = newest })
			}
		}
		f.tellJoined(said)
		if time.Since(kept) > registrations.KeepEvery {
			f.Registry.Keep()
			kept = time.Now()
		}
		select {
		case a := <-answers:
			delete(busy, a.of)
			if a.err == nil {
				delete(failed, a.of)
				a.asked()
			} else if failed[a.of]++; failed[a.of] > registrationsQuiet { // interest takes a moment to pass a channel
				f.quiet.Log(slog.LevelInfo, "ask queue manager for registrations failed", "queue_manager", a.of, "error", a.err)
			}
		case <-time.After(errands.RegistrationsAgain):
		case <-f.Registry.ChannelsChanged:
		case <-f.ctx.Done():
			f.Registry.Keep()
			return
		}
	}
}

// tellJoined publishes the registrations of this queue manager, each at once and every errands.RegisterEvery. said has the times.
func (f *Forwarder) tellJoined(said map[string]time.Time) {
	now := time.Now()
	tell := func(name string, member bool) {
		if now.Sub(said[name]) < errands.RegisterEvery {
			return
		}
		x, err := f.Registry.Identity.SignRegistration(identity.Registration{At: name, Made: now.UnixMilli(), Cluster: f.cfg.Cluster, Member: member})
		var text []byte
		if err == nil {
			text, err = json.Marshal(x)
		}
		if err == nil {
			err = f.TakeRegistration(text)
		}
		if err != nil {
			f.quiet.Warn("publish registration of queue manager failed", "queue_manager", name, "error", err)
			return
		}
		said[name] = now
	}
	peers := f.Registry.Peers()
	for name := range said {
		if !peers[name] && now.Sub(said[name]) >= errands.RegisterEvery {
			delete(said, name)
		}
	}
	for name := range peers {
		tell(name, false)
	}
	for _, name := range f.cfg.OtherMembers() {
		tell(name, true)
	}
}

// askRegistrations asks a queue manager for the registrations that it knows, and passes on new ones.
func (f *Forwarder) askRegistrations(peer string) error {
	for after := ""; ; {
		data, err := json.Marshal(Batch{V: 1, Registrations: &registrationsTask{after}})
		if err != nil {
			return err
		}
		var some someRegistrations
		if err := f.askPart(peer, data, &some); err != nil {
			return err
		}
		for _, said := range some.Registrations {
			if err := f.TakeRegistration(said); err != nil {
				f.quiet.Dropped(peer, "read registration failed", "error", err)
			}
		}
		if some.Next <= after {
			return nil
		}
		after = some.Next
	}
}

func (f *Forwarder) askPart(peer string, data []byte, into *someRegistrations) error {
	nc := f.Own.NATS()
	sub, err := nc.SubscribeSync(f.inbox(peer))
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(wire.ForwardSubject(peer, f.Registry.Self), sub.Subject, data); err != nil {
		return err
	}
	var g errands.AnswerAssembly
	for {
		ctx, cancel := context.WithTimeout(f.ctx, registrationsWait)
		m, err := sub.NextMsgWithContext(ctx)
		cancel()
		switch {
		case err != nil:
			return err
		case len(m.Data) == 0 && m.Header.Get("Status") == "503":
			return nats.ErrNoResponders
		}
		if !g.Add(m) {
			continue
		}
		if err := json.Unmarshal(errands.Unpacked(g.Data), into); err != nil || into.V != 1 {
			return transfer.Errorf(transfer.KindVersion, "the registrations of queue manager %s cannot be read", peer)
		}
		return nil
	}
}
