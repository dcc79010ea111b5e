// Package faulty has stand-ins for what Ferry rests on, which break on demand:
// a disk and a file system in memory that fail calls and forget what was not
// synced, a ledger's store that fails transactions, a courier that loses,
// doubles, delays and damages messages, a clock that jumps. Those that have a
// contract pass the same suite as the real thing while nothing is asked of them.
//
// Only tests and benchmarks import it.
package faulty
