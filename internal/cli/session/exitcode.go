package session

import (
	"errors"
	"io"
	"os"

	"ferry/internal/cli/output"
	"ferry/internal/transfer"
)

// ExitCode prints an error that has not been explained, and returns the exit code of the command.
func ExitCode(err error, stderr io.Writer) int {
	var code output.Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}

	err = asOwner(err, os.Args)
	output.Explain(stderr, err)
	var sig SignalError
	if errors.As(err, &sig) {
		return sig.Code()
	}
	return transfer.KindOf(err).Code()
}
