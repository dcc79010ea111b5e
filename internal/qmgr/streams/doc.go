// Package streams administers the objects that a queue manager stores: the streams of Ferry, the store of stored
// delivery, application queues, and the readers of all of them.
//
// A Library does so with JetStream. Clients without the right to do so have the queue manager do it (package errands): an
// Admin is either. Vanished streams and readers are made again.
package streams
