package output

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// A Checked is an output that keeps the first error of its writes. Most commands print without a look at errors; the end
// of the command reports it. A reader that is gone is no error: it has read enough.
type Checked struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

// NewChecked returns a Checked that writes to w; w itself if it is one.
func NewChecked(w io.Writer) *Checked {
	if c, ok := w.(*Checked); ok {
		return c
	}
	return &Checked{w: w}
}

// Write writes to the output. It may be called at the same time as Err.
func (c *Checked) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		c.mu.Lock()
		if c.err == nil {
			c.err = err
		}
		c.mu.Unlock()
	}
	return n, err
}

// Err returns the first error of a write, or nil.
func (c *Checked) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// FileOf returns the file of an output; nil if the output is no file.
func FileOf(w io.Writer) *os.File {
	if c, ok := w.(*Checked); ok {
		w = c.w
	}
	f, _ := w.(*os.File)
	return f
}
