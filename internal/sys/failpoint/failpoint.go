//go:build !failpoint

// Package failpoint names the places where a crash is worth testing, and the
// places where a bug is. In an ordinary build both cost nothing and do nothing.
//
// A build with the tag failpoint acts on two environment variables.
// FERRY_FAILPOINT is a list of NAME=ACTION[@N] separated by commas: the Nth
// time (the first without @N) that the named point is met, the process is
// killed (kill), stopped (stop) or panics (panic). FERRY_PLANTED is a list of
// names of planted bugs that are to be active: each leaves out one step that a
// promise rests on, so that a test can be seen to miss it.
package failpoint

// Hit says that the named point has been reached.
func Hit(string) {}

// Planted reports whether a planted bug is active. It never is in an ordinary build, and the compiler leaves out the
// code that depends on it.
func Planted(string) bool { return false }
