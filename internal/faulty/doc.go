// Package faulty has replacements for the things that Ferry depends on, with faults on demand: a disk and a file system
// in memory that fail calls and forget unsynced data, a ledger's store that fails transactions, a courier that loses,
// doubles, delays and damages messages, a clock that jumps. Those with a contract pass the same suite as the real thing
// while they have no faults.
//
// Only tests and benchmarks import it.
package faulty
