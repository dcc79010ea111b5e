//go:build !windows

package disk

import "syscall"

const errQuota = syscall.EDQUOT
