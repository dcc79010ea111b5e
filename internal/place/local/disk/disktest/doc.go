// Package disktest has doubles for tests of the packages above package disk. A Fault is a disk that fails the Nth call.
// A Journal is a ledger in memory. Its calls count together with those of the disk.
package disktest
