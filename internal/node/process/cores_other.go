//go:build !unix

package process

// DisableCoreFiles does nothing: this system writes no core files.
func DisableCoreFiles() {}
