//go:build !amd64

package codepage

// allLoops are the loops of this processor: none.
func allLoops() []loops { return nil }
