//go:build !linux

package keyfile

import "ferry/internal/sys/posixacl"

// aclOf is nil: only the lists of Linux are read.
func aclOf(string) ([]posixacl.Entry, error) { return nil, nil }
