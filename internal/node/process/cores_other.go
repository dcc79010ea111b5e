//go:build !unix

package process

// NoCores does nothing: this system writes no core files.
func NoCores() {}
