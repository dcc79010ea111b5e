// Package cluster is the part of a queue manager in a cluster: its memory of the other members, its messages to them, and
// the queues that they keep together.
package cluster
