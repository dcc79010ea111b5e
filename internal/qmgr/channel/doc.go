// Package channel links a queue manager to others: it keeps the definitions of channels, makes and guards their
// connections, and replaces those that have been silent for too long.
package channel
