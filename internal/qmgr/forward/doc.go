// Package forward forwards the messages that a queue manager has stored for agents at other queue managers. It announces
// the queue manager to the others, and passes on registrations.
package forward
