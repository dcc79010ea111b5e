package output

import (
	"fmt"
	"io"
)

// An Exit is a result code that has been explained already.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("result code %d", int(e)) }

// Explain prints an error for the user.
func Explain(stderr io.Writer, err error) {
	fmt.Fprintf(stderr, "ferry: %s\n", Printable(err.Error()))
}
