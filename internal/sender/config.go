package sender

import (
	"context"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/compress"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Link sends messages to the agent at the other end.
type Link interface {
	Send(to transfer.AgentName, m *wire.Message) error
}

// A Lane carries the chunk messages of one epoch. Send takes over a message with its memory, and blocks while the lane
// is congested. An error means that messages may have been lost, and ends the epoch. Done is closed when the lane finds
// a loss between messages; it may be nil.
type Lane interface {
	Send(message []byte) error
	Done() <-chan struct{}
}

// Lanes chooses the lane of chunk messages.
type Lanes interface {
	// Offer returns the direct lane's part of OPEN; nil if there is none.
	Offer(to transfer.AgentName, id transfer.ID) *wire.Direct
	// Open returns the lane of an epoch, its name (transfer.LaneDirect or LaneQueue) and, if it is not the direct one,
	// the reason. want is the request's choice. said is the content of the destination's ACCEPT, with the way to the
	// direct lane of the last RESYNC. took is the time that the destination's last answer to OPEN took.
	Open(ctx context.Context, to transfer.AgentName, id transfer.ID, want string, said *wire.Accept, took time.Duration) (l Lane, name, reason string, err error)
	// Shared reports whether the bytes that the queue manager sends may take the link of a lane. They do not if the
	// queue manager is on this host.
	Shared() bool
}

// Config is the configuration of an agent's outgoing transfers.
type Config struct {
	Agent       transfer.AgentName
	Beside      transfer.AgentName // another agent with the same roots on this host; may be empty
	Ledger      *ledger.Ledger
	Place       place.Source
	Link        Link
	Lanes       Lanes
	Store       Store                // of the queue manager; nil: there is no stored delivery
	Controllers *flow.Controllers    // links to the destinations; nil: each epoch has its own
	Delay       func() time.Duration // of a control message and its answer at present; nil: negligible
	Memory      *wire.Memory         // of chunk messages; may be nil
	Note        func(*ledger.Tx, audit.Record) error
	Progress    func(*transfer.Progress) // live figures, at most one a second and at every move
	Changed     func(*Outgoing)          // outcomes have moved a transfer on, also one without a driver
	Clock       clock.Clock
	Log         *slog.Logger
	Throttle    *flow.Throttle    // bounds the bytes sent in a second; nil: no bound
	Settings    transfer.Settings // for settings that a request leaves open
	MaxChunk    int               // largest chunk that the queue manager carries from here
	// MaxTargets is the number of bytes of targets after which an OPEN has no more of them; 0: 32 KiB. On a slow link
	// no OPEN must take long.
	MaxTargets int
	Encoders   *compress.Encoders // shared by the transfers that compress; nil: each has its own
	Quiet      *quiet.Log         // for impossible messages of a destination; nil: one that writes to Log
	// May returns the rights of a principal on files here. nil: every principal has every right.
	May func(principal string) place.Permit

	Content  conversion.Defaults // of text files here
	Programs Programs            // nil: none are run here
	// Scratch is a directory of this agent alone, for items to be sorted that are too many for memory; empty: all stay
	// in memory.
	Scratch string
}

// walks returns the configuration of walks.
func (c *Config) walks() *walk.Config {
	return &walk.Config{Agent: c.Agent, Beside: c.Beside, Ledger: c.Ledger, Place: c.Place, Clock: c.Clock, MaxTargets: c.MaxTargets, Scratch: c.Scratch, Choice: c.choice}
}

// choice returns the answer of the source-start exit of a transfer.
func (c *Config) choice(q *transfer.Request) (*transfer.Choice, error) {
	if c.Programs == nil {
		return nil, nil
	}
	return c.Programs.Choice(q)
}

// Survey splits up a request that has all of its items.
func (c *Config) Survey(q *transfer.Request) (*walk.Survey, error) { return c.walks().Survey(q) }

// CheckItself checks that the sources of a request can be removed as it says, and that it sends no file or directory
// into or onto itself. items are all items of the request.
func (c *Config) CheckItself(q *transfer.Request, items []transfer.RequestItem) error {
	return c.walks().CheckItself(q, items)
}

// TooMuch returns an error for a walk that finds more items, more files, or more bytes in them, than the request
// allows.
func TooMuch(q *transfer.Request, items, files, bytes int64) error {
	return walk.TooMuch(q, items, files, bytes)
}
