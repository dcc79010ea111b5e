package session

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ferry/internal/content/textfile"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// ReadInput reads a file that a command names, or with "-" standard input. kind is the word for it in errors. Of a file
// with more than most bytes it returns most and one more, which its parser refuses.
func ReadInput(cmd *cobra.Command, kind, name string, most int64) ([]byte, error) {
	return readNamed(cmd, kind, name, func(in io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(in, most+1)) })
}

// ReadText is readInput for a text of most bytes in UTF-8. A longer one is an error of kind TooLarge.
func ReadText(cmd *cobra.Command, kind, name string, most int64) ([]byte, error) {
	return readNamed(cmd, kind, name, func(in io.Reader) ([]byte, error) { return textfile.Read(in, most) })
}

// readSecret is readText for a secret: a file that other users can read is refused.
func readSecret(cmd *cobra.Command, kind, name string, most int64) ([]byte, error) {
	return readNamed(cmd, kind, name, func(in io.Reader) ([]byte, error) {
		if f, ok := in.(*os.File); ok && name != "-" {
			if err := keyfile.CheckPrivate(f); err != nil {
				return nil, err
			}
		}
		return textfile.Read(in, most)
	})
}

func readNamed(cmd *cobra.Command, kind, name string, read func(io.Reader) ([]byte, error)) ([]byte, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "the %s cannot be read: %w", kind, err)
		}
		defer file.Close()
		in = file
	}
	data, err := read(in)
	if err != nil {
		is := transfer.KindUsage
		if errors.As(err, new(textfile.LimitError)) {
			is = transfer.KindTooLarge
		}
		return nil, transfer.Errorf(is, "the %s %s cannot be read: %w", kind, name, err)
	}
	return data, nil
}
