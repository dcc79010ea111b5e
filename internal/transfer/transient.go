package transfer

import (
	"errors"
	"syscall"
)

// transientErrors are the operating system's errors that do not concern the object of a call. The process or the host
// lacks a resource, or a file server does not answer or has restarted. The failed operation is tried again.
var transientErrors = append([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN,
	syscall.ESTALE, syscall.ETIMEDOUT}, transientHere...)

// Transient reports whether an error of the operating system is temporary: a reason to wait, and no verdict.
func Transient(err error) bool {
	for _, e := range transientErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Descriptors reports whether an error means that this process, or the host, has reached its limit of open files.
func Descriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || isTooMany(err)
}
