//go:build !windows

package tcp

import (
	"errors"
	"syscall"
)

// InUse reports whether an error of net.Listen says that another socket has the address.
func InUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
