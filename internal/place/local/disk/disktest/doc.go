// Package disktest has doubles for tests of the packages above package disk: a Fault is a disk that fails the Nth call,
// and a Journal is a ledger in memory whose calls count together with those of the disk.
package disktest
