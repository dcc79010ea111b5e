package request

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"ferry/internal/content/textfile"
	"ferry/internal/transfer"
)

// sourcesFrom reads a list of names, from a file or from stdin ("-"): one on each line, or each ended by a NUL where
// there is one. It ignores empty names. Errors are of KindUsage, of KindMissing and KindUnreadable, or of KindTooLarge.
func sourcesFrom(list string, stdin io.Reader) ([]transfer.Path, error) {
	in := stdin
	if list != "-" {
		f, err := os.Open(list)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, transfer.Errorf(transfer.KindMissing, "the list %s of --files-from does not exist", transfer.Path(list))
		case err != nil:
			return nil, transfer.Errorf(transfer.KindUnreadable, "the list of --files-from cannot be read: %w", err)
		}
		defer f.Close()
		in = f
	}

	b, err := textfile.Read(in, transfer.MaxRequest)
	if errors.As(err, new(textfile.LimitError)) {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the list %s of --files-from has more than %d bytes, the limit of a request", transfer.Path(list), transfer.MaxRequest).
			WithHint("send it in parts, or send a directory with -r")
	}

	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the list %s of --files-from cannot be read: %w", transfer.Path(list), err)
	}

	names := parseNames(b)
	if len(names) == 0 {
		return nil, transfer.Errorf(transfer.KindUsage, "the list %s of --files-from names no file", transfer.Path(list))
	}
	return names, nil
}

// parseNames splits a list into names. A CR before the end of a line and slashes at the front of a name are no part of
// it. A name on several lines is taken once.
func parseNames(b []byte) (names []transfer.Path) {
	end := "\n"
	if bytes.IndexByte(b, 0) >= 0 {
		end = "\x00"
	}

	seen := map[string]bool{}
	for name := range strings.SplitSeq(string(b), end) {
		if end == "\n" {
			name = strings.TrimSuffix(name, "\r")
		}
		name = strings.TrimLeft(name, "/") // beneath SOURCE, as all names
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, transfer.Path(name))
		}
	}
	return names
}
