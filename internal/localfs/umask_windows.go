package localfs

// umask is none: Windows has no such thing.
func umask() uint32 { return 0 }
