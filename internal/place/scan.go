package place

import (
	"context"

	"ferry/internal/transfer"
)

// A Scanner is a Source with directories that a monitor can read again and again.
type Scanner interface {
	// Scan calls fn with each regular file in a directory, in the byte order of the paths with NUL for '/'. It omits
	// files that the user may not read, links, and directories with names that begin with '.'. Its memory does not grow
	// with the number of files. It returns the error of fn or ctx, or the reason why the directory itself cannot be
	// read.
	Scan(ctx context.Context, req ScanRequest, fn func(*Found) error) error
	// MayScan returns nil unless Scan would read nothing because of the name of a directory. It examines no file.
	MayScan(dir transfer.Path) error
	// VersionOf returns the version of a file that Scan has found. The same file has this version when it is open.
	VersionOf(f *Found) transfer.Version
}

// A Found is a regular file that Scan has found, or a directory that it could not read.
type Found struct {
	Path  transfer.Path // in requests
	Rel   transfer.Path // relative to the scanned directory
	In    string        // its directory, links resolved
	Dev   uint64        // 0 if the place has no devices
	Inode uint64        // 0 if the place has no numbers of files
	Size  int64
	Mtime int64 // nanoseconds since 1970, as Ctime
	Ctime int64
	Err   error // error of a directory that was not read: the files beneath it are unknown
}

// A ScanRequest holds the parameters of Scan.
type ScanRequest struct {
	Dir     transfer.Path
	Levels  int                    // depth of directories beneath Dir that are read; 0: none
	Want    func(name string) bool // reports whether files of that name are passed to fn
	Entered func(real string)      // called with each directory that is read, links resolved
}
