// Package registrations knows the queue managers that agents, users, services and other queue managers are at. In a network with
// identities each identity signs its registrations. A PeerFilter derives from them the messages that pass a channel.
package registrations
