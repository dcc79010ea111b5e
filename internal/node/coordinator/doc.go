// Package coordinator runs the coordination service in a process of its own, alone or as one of two instances.
package coordinator
