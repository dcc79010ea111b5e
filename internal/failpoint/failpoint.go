//go:build !failpoint

// Package failpoint names the places where a crash is worth testing. In an
// ordinary build a point costs nothing and does nothing; a build with the tag
// failpoint acts on the environment variable FERRY_FAILPOINT, a list of
// NAME=ACTION[@N] separated by commas: the Nth time (the first without @N) that
// the named point is met, the process is killed (kill), stopped (stop) or
// panics (panic).
package failpoint

// Hit says that the named point has been reached.
func Hit(string) {}
