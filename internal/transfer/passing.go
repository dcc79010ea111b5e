package transfer

import (
	"errors"
	"syscall"
)

// passing are the errors of an operating system that say nothing of the thing that
// was asked for: the process or the host is short of something, or a server of
// files does not answer, or has started anew. What they hit is tried again.
var passing = append([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN,
	syscall.ESTALE, syscall.ETIMEDOUT}, passingHere...)

// Passing reports whether an error is the operating system's word for what passes
// by itself, so that it is a reason to wait and no verdict.
func Passing(err error) bool {
	for _, e := range passing {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Descriptors reports whether an error says that this process, or the host, has as
// many files open as it may.
func Descriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || isTooMany(err)
}
