package output

import (
	"os"

	"golang.org/x/sys/windows"
)

// obeysSequences reports whether a console obeys escape sequences, and has it do so.
func obeysSequences(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
