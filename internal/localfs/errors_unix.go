//go:build !windows

package localfs

import "syscall"

const errQuota = syscall.EDQUOT
