package streams

import (
	"strings"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	MaxPull = 8 << 20 // bytes that one pull may bring
	// A durable without a pull for that long is removed. Nothing is lost with it: a command stays in its stream until
	// it is acknowledged.
	DurableIdle = 30 * 24 * time.Hour
)

// A Queue is read by one reader. It holds the messages of a stream with a subject that matches Filter. The durable
// named Durable keeps the reader's position. The filters of two durables of a stream of commands must not overlap.
type Queue struct {
	Stream  Stream
	Durable string // no spaces, no . * > / \
	Filter  string
	Idle    time.Duration // after which without a reader the durable goes; default 30 days
}

// Commands returns the queue of an agent's requests.
func Commands(of transfer.AgentName) Queue {
	return Queue{Stream: StreamCommand, Durable: CommandsPrefix + of.Token(), Filter: wire.AllCommands(of)}
}

// Controls returns the queue of cancels and administration of an agent.
func Controls(of transfer.AgentName) Queue {
	return Queue{Stream: StreamControl, Durable: ControlsPrefix + of.Token(), Filter: wire.AllControls(of)}
}

// Events returns the queue of all audit batches of agents.
func Events() Queue {
	return Queue{Stream: StreamEvent, Durable: wire.Coordination, Filter: wire.AllEvents}
}

const (
	CommandsPrefix = roles.DurableCommand
	ControlsPrefix = roles.DurableControl
)

func (q Queue) Check() error {
	if q.Stream == "" || q.Filter == "" || q.Durable == "" || strings.ContainsAny(q.Durable, " \t\r\n.*>/\\") {
		return transfer.Errorf(transfer.KindInternal, "the queue %+v is malformed", q)
	}
	return nil
}

// A ReaderPosition is the position of the reader of a queue.
type ReaderPosition struct {
	Unread uint64        `json:"unread"` // messages that have not been acknowledged, with those that are being handled
	Handed uint64        `json:"handed"` // number of the newest delivered message; 0: none was
	Age    time.Duration `json:"age"`    // since the durable was made; 0 where messages may have been read elsewhere
	Now    time.Time     `json:"now"`    // by the queue manager's clock
}

// UnknownPosition corrects the position of a reader where messages may have been forwarded to another queue manager:
// messages that were not delivered here may have been read there.
func UnknownPosition(at ReaderPosition, err error) (ReaderPosition, error) {
	at.Age = 0
	if transfer.KindOf(err) == transfer.KindNotFound {
		err = transfer.Errorf(transfer.KindUnreachable, "the reader may be at another queue manager")
	}
	return at, err
}
