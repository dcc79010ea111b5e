package disk

import "golang.org/x/sys/windows"

const errQuota = windows.ERROR_DISK_QUOTA_EXCEEDED
