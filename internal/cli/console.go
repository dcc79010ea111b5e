package cli

import (
	"fmt"
	"io"
	"time"
)

// A console takes the output of a process.
type console struct {
	out    io.Writer         // announcements that something is ready
	notice func(text string) // gets messages for the operator, without a line end
}

// slow prints a notice when a queue manager does not answer within 2 s; stop cancels it.
func (c console) slow(url string) (stop func()) {
	t := time.AfterFunc(2*time.Second, func() {
		c.notice(fmt.Sprintf("no queue manager answers at %s yet; trying on", url))
	})
	return func() { t.Stop() }
}
