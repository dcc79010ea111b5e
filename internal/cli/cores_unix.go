//go:build unix

package cli

import "syscall"

// noCores keeps this process's memory, in which there are keys, out of core files. The limit is
// one byte and not none: Linux hands a core to a program of the host's (core_pattern) whatever the
// limit is, but not where it is one byte, and no file has room for it either.
func noCores() {
	const one = 1
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: one, Max: one}) // where that is refused, the host's own limit holds
}
