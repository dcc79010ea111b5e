//go:build !failpoint

// Package failpoint names the places where a crash is worth testing. In an ordinary build a failpoint costs nothing and
// does nothing.
//
// A build with the tag failpoint acts on an environment variable. FERRY_FAILPOINT is a list of NAME=ACTION[@N] separated
// by commas: the Nth time (the first without @N) that the process meets the named point, it is killed (kill), stopped
// (stop) or panics (panic).
package failpoint

// Hit marks the named point.
func Hit(string) {}
