package channel

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/sys/sleep"
)

// The library detects a link that fails silently only after a minute. A connection that has stalled takes as long again
// to move when the link is back. So the watch looks at the silence of a channel's connection: the other side sends
// something every AnnounceEvery. A connection that has been silent for too long is replaced. On a slow link a large
// message causes a long silence: the next silence may last longer.
const (
	channelLook    = 500 * time.Millisecond
	channelSilent  = 4 * AnnounceEvery
	channelPatient = 5 * time.Minute // the longest silence that is waited for
	channelSound   = time.Minute     // without a silence: then the next one is as short as the first
)

// A silence is the state of a channel's connection between two looks.
type silence struct {
	id      uint64 // of the connection
	in      int64  // bytes
	since   time.Time
	patient time.Duration
	sound   time.Time // since when there was no silence
}

// Watch checks the channels until the server ends. It connects silent ones anew beside its looks: the library may take a
// second for a channel, and the next look would be late for the others.
func (c *Channels) Watch() {
	silent := make(chan string, maxChannels)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { c.connectAnew(silent) })
	known := map[string]*silence{}
	t := time.NewTicker(channelLook)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-c.cfg.Ending:
			return
		}
		z, err := c.NS.Leafz(nil)
		if err != nil {
			continue
		}
		c.seen(z.Leafs)
		for _, name := range c.silent(z.Leafs, known, time.Now()) {
			c.cfg.Log.Info("a channel has been silent; it is connected anew", slog.String("channel", name), slog.Duration("for", known[name].patient))
			select {
			case silent <- name:
			default: // it will be silent for longer
			}
		}
	}
}

// connectAnew connects channels anew until the server ends: those that have been silent, and those that rest.
func (c *Channels) connectAnew(silent <-chan string) {
	renew := func(name string) {
		if err := c.renew(name); err != nil {
			c.cfg.Log.Info("a channel is not connected anew yet; it is tried again", slog.String("channel", name), slog.Any("error", err))
		}
	}
	t := time.NewTicker(channelLook)
	defer t.Stop()
	for {
		select {
		case name := <-silent:
			renew(name)
		case <-t.C:
		case <-c.cfg.Ending:
			return
		}
		for _, name := range c.rested() {
			select {
			case name := <-silent: // which waits for one channel that rests, not for all
				renew(name)
			case <-c.cfg.Ending:
				return
			default:
			}
			if err := c.rest(name, false); err != nil {
				c.cfg.Log.Debug("a channel is not connected anew yet", slog.String("channel", name), slog.Any("error", err))
			}
		}
	}
}

// seen takes the present connections, and counts those that have come up since its last call, in either direction. After
// a new one, this queue manager announces itself.
func (c *Channels) seen(leafs []*server.LeafInfo) {
	now := map[Connection]bool{}
	for _, l := range leafs {
		now[Connection{l.ID, l.Name, l.Account == c.cfg.Account}] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if maps.Equal(now, c.connected) {
		return
	}
	for x := range now {
		if !c.connected[x] {
			c.links++
			sleep.Wake(c.Up)
			break
		}
	}
	c.connected = now
	close(c.changed)
	c.changed = make(chan struct{})
}

// A Connection is one with another queue manager, in either direction.
type Connection struct {
	ID     uint64
	Peer   string // the name of the queue manager at the other end
	Queues bool   // it carries the messages between queue managers, and no data
}

// Connected returns the connections that were there at the last look, which must not be changed. The channel is closed at
// the first look that finds others.
func (c *Channels) Connected() (now map[Connection]bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected, c.changed
}

// silent returns the channels that have been silent for too long.
func (c *Channels) silent(leafs []*server.LeafInfo, known map[string]*silence, now time.Time) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.all {
		for _, l := range leafs {
			if !l.IsSpoke || l.Account != c.cfg.Account || !c.leads(&ch, l) {
				continue
			}
			s := known[ch.Name]
			if s == nil {
				s = &silence{patient: channelSilent}
				known[ch.Name] = s
			}
			if s.heard(l.ID, l.InBytes, now) {
				all = append(all, ch.Name)
			}
		}
	}
	return all
}

// heard takes the number of bytes that a connection has received, and reports whether they have been too few for too
// long.
func (s *silence) heard(id uint64, in int64, now time.Time) (tooLong bool) {
	if s.id != id || in != s.in {
		if s.id != id || now.Sub(s.since) > s.patient/2 {
			s.sound = now
		}
		s.id, s.in, s.since = id, in, now
		if now.Sub(s.sound) > channelSound {
			s.patient = channelSilent
		}
		return false
	}
	if now.Sub(s.since) < s.patient {
		return false
	}
	s.patient = min(2*s.patient, channelPatient)
	s.since = now
	return true
}

// renew ends the connections of a channel and makes new ones. After an error of the second step the channel rests, and
// connectAnew makes its connections later: the library refuses that while it still ends one that it was making.
func (c *Channels) renew(name string) error {
	err := c.rest(name, true)
	if err == nil {
		err = c.rest(name, false)
	}
	return err
}

// rest has the library end the connections of a channel, or make new ones. After an error the channel is as it was. Other
// changes wait meanwhile: the library may refuse to connect the channel, and would refuse them with it.
func (c *Channels) rest(name string, resting bool) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	was := c.setResting(name, resting)
	err := c.reload()
	if err != nil {
		c.setResting(name, was)
	}
	return err
}

// setResting returns whether a channel rested before. c.reloading is held.
func (c *Channels) setResting(name string, resting bool) (was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.resting[name]
	if resting {
		c.resting[name] = true
	} else {
		delete(c.resting, name)
	}
	return was
}

// rested returns the channels without connections that have to be made.
func (c *Channels) rested() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.resting))
}

const (
	AnnounceEvery = 2 * time.Second
)
