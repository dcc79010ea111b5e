package forward

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/places"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Queue managers pass on places. A client gives its place to its queue manager (come), which publishes it. The place
// passes all channels, and the gate of each reads it before the messages that follow. Two queue managers that a channel
// or a cluster joins ask each other for all places that they know.

// A placesTask asks a queue manager for the places that it knows.
type placesTask struct {
	After string `json:"after,omitempty"` // places.Places.After
}

// somePlaces are a part of them.
type somePlaces struct {
	V      int               `json:"v"`
	Places []json.RawMessage `json:"places"`
	Next   string            `json:"next,omitempty"` // placesTask.After of the next part; "" where this is the last
}

const (
	placesPart  = 32 << 10         // bytes of a part
	placesWait  = 10 * time.Second // for a part
	placesPeers = 32               // queue managers that are asked at once
	placesQuiet = 5                // questions without an answer, before that is logged
)

// placesLists bound the lists of all places that one queue manager begins. It asks for one after each connection of a
// channel.
var placesLists = quota.Rate{Messages: 0.2, Bytes: 1, Burst: 100 * time.Second}

func (f *Forwarder) placesAfter(t placesTask) somePlaces {
	all, next := f.Places.After(t.After, placesPart)
	return somePlaces{V: 1, Places: all, Next: next}
}

// Came takes a place that the holder of the token asker has given. It returns the time of the latest known place of the
// same identity.
func (f *Forwarder) Came(asker string, said []byte) (newest int64, err error) {
	x, _, err := places.ReadPlace(said)
	if err == nil && (f.Places.Identity == nil || x.Who.Role == identity.Manager || transfer.Token(x.At) != f.Places.Self) {
		err = transfer.Errorf(transfer.KindDenied, "the place of %s names queue manager %s, and this is %s", x.Who, x.At, f.cfg.Name)
	}
	if err == nil {
		err = f.Placed(said)
	}
	if err != nil {
		f.quiet.Dropped(errands.Shortened(asker, streams.MaxToken), "take place of client failed", "error", err)
		return 0, err
	}
	return f.Places.Made(x.Who.Token()), nil
}

// Placed takes a place. A new one goes to all queue managers.
func (f *Forwarder) Placed(said []byte) error {
	x, fresh, err := f.Places.Take(said)
	if err != nil || !fresh {
		return err
	}
	f.noticePlace(&x)
	return f.Own.NATS().Publish(wire.RegistrationSubject(x.Who.Token()), compress.Messages.Pack(said))
}

// noticePlace has the stored messages of an identity that has moved forwarded.
func (f *Forwarder) noticePlace(x *identity.Place) {
	if _, away := f.elsewhere(x.Who.Token()); away && x.Who.Role != identity.Manager {
		f.moved(x.Who.Token())
	}
}

// came hears a place, from a channel of this queue manager or of another member of the cluster.
func (f *Forwarder) came(m *nats.Msg) {
	x, _, err := f.Places.Take(errands.Unpacked(m.Data))
	if err != nil {
		f.quiet.Dropped(errands.Shortened(wire.LastToken(m.Subject), streams.MaxToken), "read place failed", "error", err)
		return
	}
	f.noticePlace(&x)
}

// place publishes the places of this queue manager, until stop. It asks new peers for the places that they know, and
// also cluster members with new routes: a message may have been lost before.
func (f *Forwarder) place() {
	f.Places.Read()
	said, kept := map[string]time.Time{}, time.Now()
	type answer struct {
		of    string
		asked func()
		err   error
	}
	answers, busy, failed, routes := make(chan answer, placesPeers), map[string]bool{}, map[string]int{}, map[string]uint64{}
	ask := func(of string, asked func()) {
		if busy[of] || len(busy) == placesPeers {
			return
		}
		busy[of] = true
		f.tasks.Go(func() {
			err := f.askPlaces(of)
			if err != nil {
				f.pause(errands.PlacesAgain)
			}
			answers <- answer{of, asked, err}
		})
	}
	for {
		for peer := range f.Places.Unasked() {
			began := time.Now()
			ask(peer, func() { f.Places.Asked(peer, began) })
		}
		for name, newest := range f.cfg.Routes() {
			if routes[name] != newest {
				ask(transfer.Token(name), func() { routes[name] = newest })
			}
		}
		f.tellJoined(said)
		if time.Since(kept) > places.PlacesKeep {
			f.Places.Keep()
			kept = time.Now()
		}
		select {
		case a := <-answers:
			delete(busy, a.of)
			if a.err == nil {
				delete(failed, a.of)
				a.asked()
			} else if failed[a.of]++; failed[a.of] > placesQuiet { // interest takes a moment to pass a channel
				f.quiet.Log(slog.LevelInfo, "ask queue manager for places failed", "queue_manager", a.of, "error", a.err)
			}
		case <-time.After(errands.PlacesAgain):
		case <-f.Places.Turned:
		case <-f.ctx.Done():
			f.Places.Keep()
			return
		}
	}
}

// tellJoined publishes the places of this queue manager, each at once and every errands.PlaceEvery. said has the times.
func (f *Forwarder) tellJoined(said map[string]time.Time) {
	now := time.Now()
	tell := func(name string, member bool) {
		if now.Sub(said[name]) < errands.PlaceEvery {
			return
		}
		x, err := f.Places.Identity.SignPlace(identity.Place{At: name, Made: now.UnixMilli(), Cluster: f.cfg.Cluster, Member: member})
		var text []byte
		if err == nil {
			text, err = json.Marshal(x)
		}
		if err == nil {
			err = f.Placed(text)
		}
		if err != nil {
			f.quiet.Warn("publish place of queue manager failed", "queue_manager", name, "error", err)
			return
		}
		said[name] = now
	}
	peers := f.Places.Peers()
	for name := range said {
		if !peers[name] && now.Sub(said[name]) >= errands.PlaceEvery {
			delete(said, name)
		}
	}
	for name := range peers {
		tell(name, false)
	}
	for _, name := range f.cfg.Mates() {
		tell(name, true)
	}
}

// askPlaces asks a queue manager for the places that it knows, and passes on new ones.
func (f *Forwarder) askPlaces(peer string) error {
	for after := ""; ; {
		data, err := json.Marshal(Batch{V: 1, Places: &placesTask{after}})
		if err != nil {
			return err
		}
		var some somePlaces
		if err := f.askPart(peer, data, &some); err != nil {
			return err
		}
		for _, said := range some.Places {
			if err := f.Placed(said); err != nil {
				f.quiet.Dropped(peer, "read place failed", "error", err)
			}
		}
		if some.Next <= after {
			return nil
		}
		after = some.Next
	}
}

func (f *Forwarder) askPart(peer string, data []byte, into *somePlaces) error {
	nc := f.Own.NATS()
	sub, err := nc.SubscribeSync(f.inbox(peer))
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(wire.ForwardSubject(peer, f.Places.Self), sub.Subject, data); err != nil {
		return err
	}
	var g errands.Gathering
	for {
		ctx, cancel := context.WithTimeout(f.ctx, placesWait)
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
			return transfer.Errorf(transfer.KindVersion, "the places of queue manager %s cannot be read", peer)
		}
		return nil
	}
}
