package process

import (
	"fmt"
	"io"
	"time"
)

// A Console takes the output of a process.
type Console struct {
	Out    io.Writer         // announcements that something is ready
	Notice func(text string) // gets messages for the operator, without a line end
}

// Slow prints a notice when a queue manager does not answer within 2 s; stop cancels it.
func (c Console) Slow(url string) (stop func()) {
	t := time.AfterFunc(2*time.Second, func() {
		c.Notice(fmt.Sprintf("no queue manager answers at %s yet; trying on", url))
	})
	return func() { t.Stop() }
}
