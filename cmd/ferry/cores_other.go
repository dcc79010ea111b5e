//go:build !unix

package main

// noCores does nothing: this system writes no core files.
func noCores() {}
