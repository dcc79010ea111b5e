// Package qmgr is the connection of a client to a queue manager, embedded or external. No NATS type appears in its API
// but in Raw, for tests. Only this package and those beneath it import NATS.
//
// The embedded queue manager is package server. Client and server do not import each other. Both use
//
//   - streams: the administration of streams, queues and their readers,
//   - errands: questions to a queue manager,
//   - own, claims, listen: its connection to itself, the signed claims of the network, addresses.
//
// The client uses link, one connection that comes back by itself. The server wires storage (its store), channel, forward
// (messages for other queue managers), cluster and registrations (the queue managers that agents are at), which are handed the
// values that they use. External servers of NATS have their configuration from package server.
//
// The queue manager is not a system of record. It may lose, double, reorder or replay messages at any time. A
// connection to it may be cut between any two messages. Client and server detect these faults and continue: they make
// vanished streams and consumers again, and replace a consumer that is ahead of its stream. Within seconds a client cuts a
// connection that carries no data any more, and connects again.
//
// A Conn is two connections. Control carries commands, replies and state; data carries chunk messages. They are apart
// because a full data connection holds back all else on it. A third one, made when it is first needed, carries stored
// data.
package qmgr

import "ferry/internal/qmgr/link"

// A Message is passed to a subscriber. Its data belongs to the handler.
type Message = link.Message
