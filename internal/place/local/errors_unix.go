//go:build !windows

package local

import "syscall"

const errQuota = syscall.EDQUOT
