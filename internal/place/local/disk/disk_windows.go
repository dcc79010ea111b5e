package disk

import (
	"os"

	"golang.org/x/sys/windows"

	"ferry/internal/transfer"
)

var platformLimits = []string{
	"a directory is not synced; a name may be lost in a power cut",
	"the change time of a source is not seen",
	"the owner of a temporary file is not checked",
}

// BootID names this boot of the host. It is empty where it cannot be known;
// here it is never known.
func BootID() string { return "" }

// toStat asks the file itself: names alone do not give its identity here.
func toStat(fi os.FileInfo, open func() (*os.File, error), close bool) (Stat, error) {
	s := Stat{Type: typeOf(fi.Mode()), Mode: uint32(fi.Mode().Perm()), Size: fi.Size(), Mtime: transfer.UnixNano(fi.ModTime().Unix(), int64(fi.ModTime().Nanosecond())),
		Nlink: 1, Allocated: fi.Size()}
	if s.Type != TypeFile && s.Type != TypeDir {
		return s, nil
	}

	f, err := open()
	if err != nil {
		return s, err
	}

	if close {
		defer f.Close()
	}

	var info windows.ByHandleFileInformation
	err = windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info)
	if err != nil {
		return s, err
	}

	s.Dev, s.Nlink = uint64(info.VolumeSerialNumber), uint64(info.NumberOfLinks)
	s.Ino = uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
	s.Ctime = info.CreationTime.Nanoseconds()
	return s, nil
}

func free(f *os.File) (int64, error) {
	dir, err := windows.UTF16PtrFromString(f.Name())
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(dir, &free, nil, nil)
	return int64(free), err
}

func syncDir(*Dir) error { return nil }

// Mine always reports true: Windows does not give the owner here.
func (s *Stat) MayBeOwn() bool { return true }
