//go:build !windows

package transfer

var passingHere []error

func isTooMany(error) bool { return false }
