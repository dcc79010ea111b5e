//go:build unix

package process

import "syscall"

// DisableCoreFiles keeps this process's memory, which contains keys, out of core files. The limit is one byte, not zero. Linux
// passes a core to a program of the host (core_pattern) under every limit but one byte, and no core file fits into one
// byte either.
func DisableCoreFiles() {
	const one = 1
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: one, Max: one}) // where that is refused, the host's own limit holds
}
