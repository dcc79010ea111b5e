// Package server is the embedded queue manager. It wires the store, channels, cluster, forwarder and errands together,
// admits clients, and bounds the messages and the memory that they take.
package server
