// Package agents runs agents in a process: several at once, or as one of two instances that share a state directory.
package agents
