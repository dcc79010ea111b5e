// Package qmgr is the queue manager: it runs the one that is embedded in Ferry
// and connects to any, embedded or external. It is the only package that
// imports NATS, and no NATS type appears in its API.
//
// The queue manager is a courier, not a record. It may lose, double, reorder or
// replay anything at any time, and a connection to it may be cut between any two
// messages. What the package promises is that it notices and goes on: streams
// and consumers that have vanished are made again, a consumer that stands ahead
// of its stream is replaced, and a connection that no longer carries anything
// is cut and made anew within seconds.
//
// A Conn is two connections. Control carries commands, replies and state; data
// carries chunk messages. They are apart because a full data connection holds
// back all else on it. A third one, made when it is first needed, carries
// stored data.
package qmgr
