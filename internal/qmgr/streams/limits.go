package streams

const (
	MaxPayload   = 2 << 20  // bytes of one message: a chunk of 1 MiB and its frames
	MaxPending   = 64 << 20 // bytes held for one connection before it is cut
	MaxMemory    = 64 << 20 // bytes of memory-only streams; Ferry has none
	MaxConsumers = 20000    // of one stream; the library stops at 1,000
)
