package streams

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// HeaderFrom is the header of a stored message that has come through a channel: the queue manager that forwarded it.
const HeaderFrom = "Ferry-From"

// OwnerSubject has the value of a name.
func OwnerSubject(name string) string { return "ferry.owner." + transfer.Token(name) }

// A Stream is the name of one of the durable queues.
type Stream string

const (
	// StreamCommand holds ferry.command.> until the agent has acknowledged each message, 14 days at most; 5,000 for one
	// agent of one principal.
	StreamCommand Stream = roles.StreamCommand
	// StreamControl holds ferry.control.> likewise. Cancels and administration have room that requests cannot take.
	StreamControl Stream = roles.StreamControl
	// StreamEvent holds ferry.event.>, the newest 256 MiB of it.
	StreamEvent Stream = roles.StreamEvent
	// StreamOwner holds ferry.owner.>, the newest message of each subject: the owner of a name. A decision by an owner
	// needs the answer of the leader, as a replica may be behind: there is no AllowDirect.
	StreamOwner Stream = roles.StreamOwner
	// StreamHold holds ferry.hold.>: the holds of messages of application queues.
	StreamHold Stream = roles.StreamHold
)

const (
	MaxMsgSize      = 1258291 // bytes; 1.2 MiB: a request of 1 MiB and its envelope
	MaxOwnerSize    = 64 << 10
	commandMaxBytes = 512 << 20
	commandMaxMsgs  = 200_000
	commandMaxSame  = 5_000 // for one agent, of one principal; also of controls
	controlMaxBytes = 64 << 20
	controlMaxMsgs  = 100_000
	eventMaxBytes   = 256 << 20
	holdMaxBytes    = 64 << 20 // some 150,000 holds
	commandMaxAge   = 14 * 24 * time.Hour
	duplicateWindow = 2 * time.Minute
	APITimeout      = 5 * time.Second // of one request to JetStream
)

// All are the streams that Ensure makes. Streams that an operator has made before with other limits stay as they
// are. In a cluster they have three replicas, once it has as many members (Library.raise).
var All = []jetstream.StreamConfig{
	commandConfig(StreamCommand, "requests", "ferry.command.>", commandMaxBytes, commandMaxMsgs),
	commandConfig(StreamControl, "cancels and administration", "ferry.control.>", controlMaxBytes, controlMaxMsgs),
	{
		Name:         string(StreamEvent),
		Description:  "Ferry: audit batches and monitor events",
		Subjects:     []string{"ferry.event.>"},
		Retention:    jetstream.LimitsPolicy,
		Storage:      jetstream.FileStorage,
		Replicas:     1,
		MaxConsumers: MaxConsumers,
		MaxMsgs:      -1,
		MaxBytes:     eventMaxBytes,
		MaxMsgSize:   MaxMsgSize,
		Discard:      jetstream.DiscardOld,
		Duplicates:   duplicateWindow,
	},
	{
		Name:              string(StreamOwner),
		Description:       "Ferry: which instance has an agent's name",
		Subjects:          []string{"ferry.owner.*"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Replicas:          1,
		MaxConsumers:      MaxConsumers,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: 1,
		MaxBytes:          -1,
		MaxMsgSize:        MaxOwnerSize + 1024, // and its headers
		Discard:           jetstream.DiscardOld,
		Duplicates:        duplicateWindow,
	},
	{
		Name:              string(StreamHold),
		Description:       "Ferry: holds of messages of application queues",
		Subjects:          []string{"ferry.hold.>"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Replicas:          1,
		MaxConsumers:      MaxConsumers,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: 1,
		MaxBytes:          holdMaxBytes,
		MaxMsgSize:        8 << 10,
		Discard:           jetstream.DiscardNew,
		Duplicates:        duplicateWindow,
		AllowMsgTTL:       true,
	},
}

// commandConfig returns the configuration of a stream of commands for agents.
func commandConfig(name Stream, holds, subjects string, maxBytes, maxMsgs int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:         string(name),
		Description:  "Ferry: " + holds,
		Subjects:     []string{subjects},
		Retention:    jetstream.WorkQueuePolicy,
		Storage:      jetstream.FileStorage,
		Replicas:     1,
		MaxConsumers: MaxConsumers,
		MaxMsgs:      maxMsgs,
		MaxBytes:     maxBytes,
		MaxAge:       commandMaxAge,
		MaxMsgSize:   MaxMsgSize,
		Discard:      jetstream.DiscardNew,
		Duplicates:   duplicateWindow,

		MaxMsgsPerSubject:    commandMaxSame,
		DiscardNewPerSubject: true,
	}
}

// CommandStreams are the streams of commands for agents. An agent obeys the first stream first: a withdrawal comes before
// its request.
var CommandStreams = []Stream{StreamControl, StreamCommand}

// MarkOf returns the mark of a stream.
func MarkOf(s jetstream.Stream) Mark {
	info := s.CachedInfo()
	return Mark{info.Created, info.State.LastSeq, info.Config.Replicas}
}
