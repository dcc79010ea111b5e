//go:build !unix

package cli

// noCores does nothing: this system writes no core files.
func noCores() {}
