package disk

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Umask returns the process's file mode creation mask. It reads the mask from the kernel if possible, because the
// system call has to change the mask for a moment.
func Umask() uint32 {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			if m, err := strconv.ParseUint(strings.TrimSpace(v), 8, 32); err == nil {
				return uint32(m)
			}
		}
	}
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return uint32(m)
}
