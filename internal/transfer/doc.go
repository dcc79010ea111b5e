// Package transfer is the vocabulary of Ferry: what a managed transfer is, who
// asks for it, which items it moves, the states it passes through, the ways it
// can end, and the kinds of error that every other package speaks of.
//
// It imports only the standard library. When a word is missing, it is added
// here first.
package transfer
