package cli

import (
	"fmt"
	"io"
)

// An exit is a result code that has been explained already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("result code %d", int(e)) }

func explain(stderr io.Writer, err error) {
	fmt.Fprintf(stderr, "ferry: %s\n", printable(err.Error()))
}
