//go:build linux

package kill_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lackingArg makes this test program exec the following command on a simulated kernel without renameat2. Some network
// file systems lack it.
const lackingArg = "without-renameat2"

func withoutRenameat2() []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{self, lackingArg}
}

// lacking is called by TestMain. It returns only in the test program proper.
func lacking() {
	if len(os.Args) < 3 || os.Args[1] != lackingArg {
		return
	}
	runtime.LockOSThread()
	err := refuse(unix.SYS_RENAMEAT2)
	if err == nil {
		err = syscall.Exec(os.Args[2], os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// refuse makes the kernel answer a system call with EINVAL, from this thread on.
func refuse(call uint32) error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	filter := []unix.SockFilter{
		load(0), // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: call},
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}
