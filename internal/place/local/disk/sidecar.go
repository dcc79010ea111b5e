package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// A sidecar keeps the records and the code page of a file's content, which the bytes do not show. It is a small file
// beside the file, or beside the directory that is a library.

// form returns the content of a sidecar as a transfer.Form.
func form(s *record.Sidecar) *transfer.Form {
	return &transfer.Form{Encoding: s.Encoding, Records: s.Attributes.Records()}
}

// ReadForm reads the sidecar of a file; nil where there is none.
func (f *Roots) ReadForm(p transfer.Path, above bool) (*transfer.Form, error) {
	data, err := f.ReadSidecar(p, above, record.MaxSidecar)
	if err != nil || data == nil {
		return nil, err
	}
	s, err := record.DecodeSidecar(data)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the sidecar of %s cannot be read: %w", p, err).WithHint("correct or remove it")
	}
	return form(&s), nil
}

// ReadSidecar reads the sidecar of a file. If there is none and above is set, it reads the sidecar of the directory that
// has the file. It returns nil if there is none, and an error if the sidecar is longer than most bytes.
func (f *Roots) ReadSidecar(p transfer.Path, above bool, most int) ([]byte, error) {
	l, err := f.Locate(p)
	if err != nil {
		return nil, err
	}

	for range 2 {
		if l.IsRoot() {
			return nil, nil
		}
		d, err := f.OpenParent(l)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return nil, SourceError(p, err)
		}
		data, err := ReadSmall(f.disk, d, record.SidecarName(l.Base()), most)
		d.Close()
		if err == nil {
			return data, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, SourceError(p, err)
		}
		if l = l.Parent(); !above {
			return nil, nil
		}
	}
	return nil, nil
}

// ReadSmall reads a file of at most most bytes. It cuts a longer file off after one byte more.
func ReadSmall(disk Disk, d *Dir, name string, most int) ([]byte, error) {
	f, err := disk.Open(d, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer disk.Close(f)
	b := make([]byte, most+1)
	n, err := disk.ReadAt(f, b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}
