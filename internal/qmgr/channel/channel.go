package channel

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/listen"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// A Channel links a queue manager to another one: a leafnode of NATS, dialled by one side. It carries heartbeats,
// messages between agents, questions and answers. A connection of its own carries the data of the queue lane. Stored
// messages stay with the queue manager that accepted them until the forwarder has forwarded them: a channel that is
// down loses none.
type Channel struct {
	Name     string `json:"name"` // of the queue manager at the other end
	URL      string `json:"url"`  // nats://HOST:PORT of its channel listener; several with commas between for a cluster
	Compress bool   `json:"compress,omitempty"`
	Stopped  bool   `json:"stopped,omitempty"` // by an operator, until it is started
}

// The states of a channel.
const (
	ChannelRunning    = "running"
	ChannelConnecting = "connecting" // it is not up yet; Reason explains it
	ChannelStopped    = "stopped"
)

// A ChannelState is the state of a channel.
type ChannelState struct {
	Name      string        `json:"channel"`
	Peer      string        `json:"queue_manager,omitempty"` // queue manager that answers there; empty: none yet
	Direction string        `json:"direction"`               // out: dialled by this queue manager; in: by the other one
	URL       string        `json:"url,omitempty"`
	Address   string        `json:"address,omitempty"` // HOST:PORT at the other end
	State     string        `json:"state"`
	Reason    string        `json:"reason,omitempty"`
	RTT       time.Duration `json:"rtt_ns,omitempty"`
	In        int64         `json:"bytes_in"` // since it is up
	Out       int64         `json:"bytes_out"`
	Waiting   int           `json:"waiting"` // messages that are kept here for the other side
	// Made is the number of connections, dialled here since this queue manager was started, that have received the
	// certificate of the other side. A channel that is up has two.
	Made uint64 `json:"connections,omitempty"`
	// Refused counts messages of the other side that did not pass since the channel is up: their authors are not behind the
	// channel. Unheard counts subjects that the other side asks for and does not hear: their readers are not behind the channel.
	Refused uint64 `json:"refused_messages,omitempty"`
	Unheard int64  `json:"refused_subjects,omitempty"`
}

// Limits and times of channels.
const (
	maxChannels         = 1000
	channelDial         = 4 * time.Second
	channelAgain        = 500 * time.Millisecond // after an attempt, and once more as long at most
	channelGreet        = 10 * time.Second       // for TLS, and to show the identity
	channelWrite        = time.Minute            // without a byte taken
	channelFile         = "channels.json"
	maxChannelNotes     = 256
	directionOut        = "out"
	DirectionIn         = "in"
	channelNoteValidFor = 2 * time.Minute
)

// ParseChannel reads NAME=URL.
func ParseChannel(s string) (c Channel, err error) {
	name, at, ok := strings.Cut(s, "=")
	if !ok {
		return c, transfer.Errorf(transfer.KindUsage, "the channel %q is malformed; write it as NAME=nats://HOST:PORT", s)
	}
	c = Channel{Name: name, URL: at}
	return c, c.check()
}

func (c *Channel) check() error {
	if err := (identity.Name{Network: "aaaaaaaa", Role: identity.Manager, Name: c.Name}).Check(); err != nil {
		return err
	}
	if len(c.URL) > 4096 {
		return transfer.Errorf(transfer.KindTooLarge, "the URL of channel %s has %d bytes; the limit is 4096", c.Name, len(c.URL))
	}
	_, err := c.urls()
	return err
}

// urls returns the possible addresses of the other end.
func (c *Channel) urls() (all []*url.URL, err error) {
	for part := range strings.SplitSeq(c.URL, ",") {
		if part = strings.TrimSpace(part); !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Hostname() == "" || u.Port() == "" || u.Scheme != "nats" || u.User != nil || u.Path != "" {
			return nil, transfer.Errorf(transfer.KindUsage, "the URL of channel %s is malformed; write it as nats://HOST:PORT, the address of --channel-listen there", c.Name)
		}
		all = append(all, u)
	}
	return all, nil
}

// Channels are those of a queue manager.
type Channels struct {
	cfg   Config
	NS    *server.Server  // the library's, once it runs
	Opts  *server.Options // as it was started with
	path  string          // of the file that keeps the channels
	Notes notes

	Token    string                  // of the queue manager
	Registry *registrations.Registry // has the identities behind each channel
	gate     *gate.Gate
	listen   net.Listener                  // of the gate, which closes it
	key      nkeys.KeyPair                 // signs for the gate and the ways
	ways     map[string]*gate.ChannelProxy // by channel

	Up chan struct{} // has one when a channel comes up

	reloading sync.Mutex // is held over each change of the channels until the library has applied it

	mu    sync.Mutex
	all   []Channel         // by name
	peers map[string]string // by channel: the peer that has shown a certificate
	made  map[string]uint64 // by channel, how often one was shown
	links uint64            // how often a connection has come up, in either direction

	connected map[Connection]bool // at the last look
	changed   chan struct{}       // is closed when connected is replaced

	resting map[string]bool // channels that close their connections, to connect again. Changes hold reloading, too
}

// Ups returns how often a channel has come up, or nearly.
func (c *Channels) Ups() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links
}

// channelStore is the content of the file of channels.
type channelStore struct {
	V        int       `json:"v"`
	Channels []Channel `json:"channels"`
}

// A Config describes the queue manager that has channels.
type Config struct {
	Name            string
	Dir             string
	Channels        []Channel                // beside those that were defined before
	Listen          string                   // HOST:PORT for the channels of other queue managers; "": none come in
	Alone           bool                     // the queue manager serves its own process only
	Identity        *identity.Identity       // nil: the network has none
	Account         string                   // that has the queues
	Unauthenticated int                      // connections that may wait for their identity at once
	Admission       func() *claims.Admission // the present claims of the network
	Registry        *registrations.Registry
	Ending          <-chan struct{} // closed when the queue manager ends
	Log             *slog.Logger
	// Waiting returns the number of messages that wait for a queue manager, by its name.
	Waiting func(peer string) int
}

// OpenAll reads the channels of earlier runs, and adds those of the present configuration.
func OpenAll(cfg Config) (*Channels, error) {
	c := &Channels{cfg: cfg, Token: transfer.Token(cfg.Name), Registry: cfg.Registry, path: filepath.Join(cfg.Dir, channelFile), peers: map[string]string{}, made: map[string]uint64{}, ways: map[string]*gate.ChannelProxy{},
		Up: make(chan struct{}, 1), changed: make(chan struct{}), resting: map[string]bool{}}
	data, err := os.ReadFile(c.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindUnreadable, "the channels cannot be read: %w", err)
	}
	if err == nil {
		var kept channelStore
		if err := json.Unmarshal(data, &kept); err != nil || kept.V != 1 || len(kept.Channels) > maxChannels {
			return nil, transfer.Errorf(transfer.KindMalformed, "%s is damaged", c.path).WithHint("remove it, and give the channels with --channel again")
		}
		c.all = kept.Channels
	}
	for _, n := range cfg.Channels {
		if err := n.check(); err != nil {
			return nil, err
		}
		c.put(n)
	}
	if len(cfg.Channels) == 0 {
		return c, nil
	}
	err = c.keep()
	if transfer.Full(err) {
		cfg.Log.Warn("the disk is full: channels are not kept for a start without them", slog.String("path", c.path), slog.Any("error", err))
		err = nil
	}
	return c, err
}

// put defines a channel, or replaces the one of its name. A stopped channel stays stopped.
func (c *Channels) put(n Channel) {
	at := c.index(n.Name)
	if at < 0 {
		c.all = append(c.all, n)
		slices.SortFunc(c.all, func(a, b Channel) int { return cmp.Compare(a.Name, b.Name) })
		return
	}
	n.Stopped = c.all[at].Stopped
	c.all[at] = n
}

func (c *Channels) index(name string) int {
	return slices.IndexFunc(c.all, func(x Channel) bool { return strings.EqualFold(x.Name, name) })
}

// keep writes the file.
func (c *Channels) keep() error {
	data, err := json.MarshalIndent(channelStore{V: 1, Channels: c.all}, "", "\t")
	if err == nil {
		err = keyfile.Replace(c.path, data)
	}
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the channels cannot be kept: %w", err)
	}
	return nil
}

// Leafnodes puts the channels in the library's terms.
func (c *Channels) Leafnodes(opts *server.Options) error {
	l := &opts.LeafNode
	l.NoAdvertise = true
	l.ReconnectInterval = channelAgain
	l.DialTimeout, l.WriteDeadline = channelDial, channelWrite
	l.AuthTimeout, l.TLSTimeout = channelGreet.Seconds(), channelGreet.Seconds()
	// Agents compress chunks if that makes them smaller. The library's own compression adapts to the round trip, and
	// needs more bytes on slower links.
	l.Compression = server.CompressionOpts{Mode: server.CompressionOff}
	if c.cfg.Listen != "" {
		host, port, err := listen.Split("--channel-listen", c.cfg.Listen)
		if err != nil {
			return err
		}
		l.Host, l.Port = host, port
		if c.cfg.Identity != nil { // and the gate listens at the address
			l.Host, l.Port = "127.0.0.1", server.RANDOM_PORT
		}
	}
	err := c.openWays(opts)
	if err != nil {
		return err
	}
	l.Remotes, err = c.remotes()
	return err
}

// remotes returns the connections of the channels that this queue manager dials.
func (c *Channels) remotes() (all []*server.RemoteLeafOpts, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.all {
		urls, err := ch.urls()
		if err != nil {
			return nil, err
		}
		r := server.RemoteLeafOpts{URLs: urls, NoRandomize: true, Disabled: ch.Stopped || c.resting[ch.Name], DialTimeout: channelDial, IgnoreDiscoveredServers: true,
			DenyImports: roles.Kept, DenyExports: roles.Kept, Compression: server.CompressionOpts{Mode: server.CompressionOff}}
		i := c.cfg.Identity
		if i == nil {
			if ch.Compress {
				r.Compression.Mode = server.CompressionS2Fast
			}
			r.LocalAccount = server.DEFAULT_GLOBAL_ACCOUNT
			all = append(all, &r)
			continue
		}
		a := c.cfg.Admission()
		r.Proxy.URL, r.Proxy.Username, r.Proxy.Password = c.ways[ch.Name].Login()
		r.Proxy.Timeout = channelDial + channelGreet
		data := r
		// In files, as a server that was told of a function once takes no other settings any more.
		r.LocalAccount, r.Credentials = a.Account.Subject, i.ChannelCredentials(false)
		data.LocalAccount, data.Credentials = a.Data.Subject, i.ChannelCredentials(true)
		data.DenyImports, data.DenyExports = nil, nil
		all = append(all, &r, &data)
	}
	return all, nil
}

// Addr returns the address, HOST:PORT, at which other queue managers reach this one for channels. It is empty if this
// one does not listen for any.
func (c *Channels) Addr() string {
	if c.cfg.Listen == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(c.cfg.Listen)
	if c.listen != nil {
		return net.JoinHostPort(cmp.Or(host, "0.0.0.0"), strconv.Itoa(c.listen.Addr().(*net.TCPAddr).Port))
	}
	if v, verr := c.NS.Varz(nil); err == nil && verr == nil && port == "0" {
		port = strconv.Itoa(v.LeafNode.Port)
	}
	return net.JoinHostPort(cmp.Or(host, "0.0.0.0"), port)
}

// List returns the states of the channels: those of this queue manager by name, then those that others dial.
func (c *Channels) List() []ChannelState {
	z, err := c.NS.Leafz(nil)
	if err != nil {
		return nil
	}
	all := c.outgoing(z.Leafs)
	byPeer := map[string]*ChannelState{}
	var in []*ChannelState
	for _, l := range z.Leafs {
		if l.IsSpoke {
			continue
		}
		st := byPeer[l.Name]
		if st == nil {
			st = &ChannelState{Name: l.Name, Peer: l.Name, Direction: DirectionIn, State: ChannelRunning, Address: net.JoinHostPort(l.IP, strconv.Itoa(l.Port))}
			c.gated(st, func(g gate.Connection) bool { return g.Channel == "" && g.Peer == l.Name })
			byPeer[l.Name] = st
			in = append(in, st)
		}
		st.take(l)
	}
	slices.SortFunc(in, func(a, b *ChannelState) int { return cmp.Compare(a.Name, b.Name) })
	for _, st := range in {
		all = append(all, *st)
	}
	for n := range all {
		if all[n].Peer != "" {
			all[n].Waiting = c.cfg.Waiting(all[n].Peer)
		}
	}
	return all
}

// outgoing returns the states of the channels that this queue manager dials.
func (c *Channels) outgoing(leafs []*server.LeafInfo) []ChannelState {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []ChannelState
	links := 1
	if c.cfg.Identity != nil {
		links = 2
	}
	for _, ch := range c.all {
		st := ChannelState{Name: ch.Name, Direction: directionOut, URL: ch.URL, State: ChannelConnecting, Peer: c.peers[ch.Name], Made: c.made[ch.Name]}
		up := 0
		for _, l := range leafs {
			if l.IsSpoke && c.leads(&ch, l) {
				st.take(l)
				st.Peer, st.Address = l.Name, net.JoinHostPort(l.IP, strconv.Itoa(l.Port))
				up++
			}
		}
		if up > 0 {
			c.gated(&st, func(g gate.Connection) bool { return g.Channel == ch.Name })
		}
		switch {
		case ch.Stopped:
			st.State = ChannelStopped
		case up >= links && !strings.EqualFold(st.Peer, ch.Name):
			st.State, st.Reason = ChannelRunning, "queue manager "+st.Peer+" answers there"
		case up >= links:
			st.State = ChannelRunning
		case up > 0:
			st.Reason = cmp.Or(c.Notes.of(&ch, c.way(ch.Name)), "the connection for data is not up")
		default:
			st.Reason = c.Notes.of(&ch, c.way(ch.Name))
		}
		all = append(all, st)
	}
	return all
}

// leads reports whether a connection is a channel's. c.mu is held.
func (c *Channels) leads(ch *Channel, l *server.LeafInfo) bool {
	if w := c.ways[ch.Name]; w != nil {
		return w.Addr() == net.JoinHostPort(l.IP, strconv.Itoa(l.Port))
	}
	urls, err := ch.urls() // on this host, as there are no identities
	return err == nil && slices.ContainsFunc(urls, func(u *url.URL) bool { return u.Port() == strconv.Itoa(l.Port) })
}

func (c *ChannelState) take(l *server.LeafInfo) {
	c.In += l.InBytes
	c.Out += l.OutBytes
	if rtt, err := time.ParseDuration(l.RTT); err == nil {
		c.RTT = max(c.RTT, rtt)
	}
}

// Stop ends a channel until it is started again, also over restarts.
func (c *Channels) Stop(name string) error {
	return c.change(name, func(ch *Channel) { ch.Stopped = true })
}

// Start starts a channel that Stop has stopped.
func (c *Channels) Start(name string) error {
	return c.change(name, func(ch *Channel) { ch.Stopped = false })
}

// Remove forgets a channel. Messages that wait for the other side stay here. They take another route if there is one.
func (c *Channels) Remove(name string) error { return c.change(name, nil) }

// change changes a channel's definition, stores it, and has the server apply it. A nil change removes the channel.
func (c *Channels) change(name string, change func(*Channel)) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	c.mu.Lock()
	before := slices.Clone(c.all)
	at := c.index(name)
	if at < 0 {
		c.mu.Unlock()
		return c.none(name)
	}
	if change == nil {
		c.all = slices.Delete(c.all, at, at+1)
	} else {
		change(&c.all[at])
	}
	err := c.keep()
	c.mu.Unlock()
	if err == nil {
		err = c.reload()
	}
	if err != nil {
		c.mu.Lock()
		c.all = before
		err = errors.Join(err, c.keep())
		c.mu.Unlock()
	}
	return err
}

// none returns the reason for which a channel of a name cannot be changed here.
func (c *Channels) none(name string) error {
	for _, st := range c.List() {
		if st.Direction == DirectionIn && strings.EqualFold(st.Name, name) {
			return transfer.Errorf(transfer.KindConflict, "the channel %s is dialled by queue manager %s", name, st.Peer).
				WithHint("stop, start or remove it there: ferry channel stop " + c.cfg.Name + " --network URL")
		}
	}
	return transfer.Errorf(transfer.KindNotFound, "queue manager %s has no channel %s", c.cfg.Name, name)
}

// reload has the library apply the present channels. c.reloading is held.
func (c *Channels) reload() error {
	opts := c.Opts.Clone()
	var err error
	if opts.LeafNode.Remotes, err = c.remotes(); err != nil {
		return err
	}
	if err := c.NS.ReloadOptions(opts); err != nil {
		return transfer.Errorf(transfer.KindInternal, "the queue manager does not take the channels: %w", err)
	}
	return nil
}
