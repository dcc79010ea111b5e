package receiver

import (
	"context"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Link sends messages to the agent at the other end.
type Link interface {
	Send(to transfer.AgentName, m *wire.Message) error
}

// Config is the configuration of a Receiver.
type Config struct {
	Agent     transfer.AgentName
	Ledger    *ledger.Ledger
	Place     place.Target
	Link      Link
	Note      func(*ledger.Tx, audit.Record) error // puts an audit record into the outbox
	Clock     clock.Clock
	Log       *slog.Logger
	Slots     int        // transfers that may have an open epoch
	ItemSlots int        // items that may be begun and undecided, at most and by default transfer.MaxUndecided
	Pool      *flow.Pool // memory for data in flight
	MaxChunk  int        // largest chunk that the queue manager carries to here
	Boot      string     // names this boot of the host; see disk.BootID
	Changed   func()     // the number of running transfers has changed
	Lanes     Lanes      // nil: there is the queue lane only
	Store     Store      // nil: nothing comes by stored delivery
	Instance  string     // names this run of the agent
	Memory    *wire.Memory
	Delay     func() time.Duration // of a control message and its answer at present; nil: negligible
	// Came returns the bytes of chunk messages that lanes have brought from an agent, parts of messages included; nil:
	// the bytes are not counted.
	Came func(from transfer.AgentName) int64
	// Over asks a source for the status of a transfer there. The error is of KindNotFound if the source does not know
	// the transfer; any other error means that no answer has come. nil: no source is asked.
	Over func(ctx context.Context, source transfer.AgentName, id transfer.ID) (*transfer.Progress, error)
	Rights
	Quiet *quiet.Log // for messages from others that are not believed; nil: one that writes to Log

	Content  conversion.Defaults // of text files here
	Programs Programs            // nil: none are run here
}

// Rights decide which transfers may arrive.
type Rights struct {
	Stale func() error // why no new transfer is accepted, of a kind that waits; nil: new ones are accepted
	// May returns the rights of a principal on files here. nil: every principal has every right.
	May func(principal string) place.Permit
	// Admit decides whether a transfer of a principal may come from an agent, and returns the deciding rules. The error
	// is of KindDenied. nil: each may.
	Admit func(principal string, from transfer.AgentName, id transfer.ID) (rules string, err error)
}

// Lanes negotiates the lane of chunk messages.
type Lanes interface {
	// Meet answers an OPEN: the name of the lane, the reason if it is not the direct one, and the way to this agent on
	// it. An error refuses the transfer.
	Meet(from transfer.AgentName, o *wire.Open, id transfer.ID) (name, reason string, mine *wire.Direct, err error)
	// Offer returns the way to this agent on the direct lane at present; nil: none.
	Offer(to transfer.AgentName, id transfer.ID) *wire.Direct
}
