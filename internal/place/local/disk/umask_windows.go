package disk

// Umask returns 0: Windows has no file mode creation mask.
func Umask() uint32 { return 0 }
