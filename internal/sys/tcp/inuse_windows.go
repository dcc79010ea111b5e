package tcp

import (
	"errors"

	"golang.org/x/sys/windows"
)

// InUse reports whether an error of net.Listen says that another socket has the address.
// The syscall package's EADDRINUSE is a number of its own on Windows.
func InUse(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }
