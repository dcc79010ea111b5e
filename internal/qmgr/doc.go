// Package qmgr is the queue manager: it runs the embedded queue manager of Ferry and connects to any, embedded or
// external. It is the only package that imports NATS, and no NATS type appears in its API.
//
// The queue manager is not a system of record. It may lose, double, reorder or replay messages at any time. A
// connection to it may be cut between any two messages. The package detects these faults and continues: it makes
// vanished streams and consumers again, and replaces a consumer that is ahead of its stream. Within seconds it cuts a
// connection that carries no data any more, and connects again.
//
// A Conn is two connections. Control carries commands, replies and state; data carries chunk messages. They are apart
// because a full data connection holds back all else on it. A third one, made when it is first needed, carries stored
// data.
package qmgr
