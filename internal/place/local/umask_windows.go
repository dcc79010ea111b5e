package local

// umask returns 0: Windows has no file mode creation mask.
func umask() uint32 { return 0 }
