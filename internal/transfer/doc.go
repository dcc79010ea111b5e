// Package transfer is the vocabulary of Ferry. It defines a managed transfer, its originator, its items, its states,
// its possible ends, and the kinds of error that every other package uses.
//
// It imports only the standard library. A new term is added here first.
package transfer
