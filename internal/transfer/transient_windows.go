package transfer

import (
	"errors"
	"syscall"
)

// Error codes of Windows.
const (
	tooManyOpenFiles  = syscall.Errno(4)
	notEnoughMemory   = syscall.Errno(8)
	outOfMemory       = syscall.Errno(14)
	noSystemResources = syscall.Errno(1450)
)

var transientHere = []error{tooManyOpenFiles, notEnoughMemory, outOfMemory, noSystemResources}

func isTooMany(err error) bool { return errors.Is(err, tooManyOpenFiles) }
