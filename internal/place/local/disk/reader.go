package disk

import "io"

// ReaderAt returns an open file as an io.ReaderAt.
func ReaderAt(on Disk, f File) io.ReaderAt { return fileReader{on, f} }

type fileReader struct {
	disk Disk
	f    File
}

func (r fileReader) ReadAt(b []byte, off int64) (int, error) { return r.disk.ReadAt(r.f, b, off) }
