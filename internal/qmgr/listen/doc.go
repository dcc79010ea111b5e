// Package listen reads the addresses on which a queue manager listens.
package listen
