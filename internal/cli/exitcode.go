package cli

import (
	"errors"
	"io"
	"os"

	"ferry/internal/cli/output"
	"ferry/internal/transfer"
)

func exitCode(err error, stderr io.Writer) int {
	var code output.Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}

	err = asOwner(err, os.Args)
	output.Explain(stderr, err)
	var sig signalError
	if errors.As(err, &sig) {
		return sig.code()
	}
	return transfer.KindOf(err).Code()
}
