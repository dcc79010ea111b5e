package filelock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// ErrTaken reports that another instance has marked a directory since.
var ErrTaken = errors.New("the directory was taken over")

// A Holder is the instance that has marked a directory as its own, for others to read. One with an empty Instance has
// released the directory and left nothing unfinished.
type Holder struct {
	V        int       `json:"v"`
	Instance string    `json:"instance"`
	Host     string    `json:"host"`
	Since    time.Time `json:"since"`
}

// markSize is the length of a mark. A mark is written in place, in one piece and into one file that is never replaced.
// A reader that opens the file anew reads the last mark, on a network file system too, and no name from a cache.
const markSize = 512

// A Mark names the holder of a directory in it. A lock keeps others out for as long as the storage keeps the lock. A
// process can lose it without notice, for example when it was stopped while its lease ran out. The Mark lets that
// process find it out.
type Mark struct {
	path string
	mine []byte
}

// SetMark marks a directory, durably. The caller holds its lock.
func SetMark(path string, by Holder) (*Mark, error) {
	m := &Mark{path: path}
	return m, m.write(by)
}

func (m *Mark) write(by Holder) error {
	by.V = 1
	data, err := json.Marshal(by)
	if err != nil {
		return err
	}
	if len(data) >= markSize {
		return fmt.Errorf("the mark of %.100s has %d bytes; there is room for %d", by.Instance, len(data), markSize)
	}
	line := append(data, bytes.Repeat([]byte{' '}, markSize-1-len(data))...)
	line = append(line, '\n')
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(line, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		m.mine = line
	}
	return err
}

// Check returns nil while the mark stands. Its error is ErrTaken where the mark is missing or another's; with any other
// error it could not be read.
func (m *Mark) Check() error {
	now, err := readMark(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrTaken
	case err != nil:
		return err
	case !bytes.Equal(now, m.mine):
		return ErrTaken
	}
	return nil
}

// Release says that nothing was left unfinished, if the mark still stands.
func (m *Mark) Release() error {
	if err := m.Check(); err != nil {
		return err
	}
	return m.write(Holder{})
}

// HolderOf reads the holder of a directory. marked is false where there never was a mark. A mark that cannot be
// understood is that of an unknown holder that has not released the directory.
func HolderOf(path string) (h Holder, marked bool, err error) {
	data, err := readMark(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	if json.Unmarshal(data, &h) != nil || h.V != 1 {
		h = Holder{Instance: "unknown"}
	}
	return h, true, nil
}

func readMark(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, markSize)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}
