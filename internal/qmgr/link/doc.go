// Package link is one connection of a client to a queue manager. It comes back by itself when it is lost, and notices
// within seconds that it carries nothing any more.
package link
