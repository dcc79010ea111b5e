//go:build !windows

package output

import "os"

// obeysSequences reports whether a terminal obeys escape sequences.
func obeysSequences(*os.File) bool { return true }
