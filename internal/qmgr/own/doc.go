// Package own is the connection of a queue manager to itself, within its process.
package own
