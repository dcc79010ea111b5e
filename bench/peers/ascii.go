package peers

import (
	"context"
	"io"
	"net"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// passive matches the answer to PASV: an address of four numbers, and the port in two (RFC 959, 4.1.2).
var passive = regexp.MustCompile(`(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)`)

// maxProof is the most bytes that ProveText reads of a file.
const maxProof = 1 << 20

// ProveText gets a file in ASCII mode, and returns an error if its line ends were not CR LF on the way. Many servers
// accept ASCII mode and continue in binary, which would be measured as text. path is relative to the place's root. The
// file must have a line end that is LF.
func (s *Server) ProveText(ctx context.Context, path string) error {
	data, err := s.ascii(ctx, path)
	if err != nil {
		return transfer.Errorf(transfer.KindInternal, "%s cannot be asked for %s in ASCII mode: %w", s.Kind, path, err)
	}
	lines, ends := strings.Count(data, "\n"), strings.Count(data, "\r\n")
	if lines == 0 || lines != ends {
		return transfer.Errorf(transfer.KindInternal, "%s says that it is in ASCII mode, and sends %d of %d line ends as CR LF", s.Kind, ends, lines)
	}
	return nil
}

// ascii returns the beginning of a file as received in ASCII mode.
func (s *Server) ascii(ctx context.Context, path string) (string, error) {
	raw, err := s.place.Dial(ctx, s.Address())
	if err != nil {
		return "", err
	}

	c := textproto.NewConn(raw)
	defer c.Close()
	if _, _, err := c.ReadResponse(220); err != nil {
		return "", err
	}

	ask := func(code int, format string, args ...any) (string, error) {
		if err := c.PrintfLine(format, args...); err != nil {
			return "", err
		}
		_, text, err := c.ReadResponse(code)
		return text, err
	}
	// The server does not ask for a password (see prepareFTP).
	if _, err := ask(230, "USER anonymous"); err != nil {
		return "", err
	}

	if _, err := ask(200, "TYPE A"); err != nil {
		return "", err
	}

	text, err := ask(227, "PASV")
	if err != nil {
		return "", err
	}

	m := passive.FindStringSubmatch(text)
	if m == nil {
		return "", transfer.Errorf(transfer.KindInternal, "%q has no address", text)
	}

	high, _ := strconv.Atoi(m[5])
	low, _ := strconv.Atoi(m[6])
	data, err := s.place.Dial(ctx, net.JoinHostPort(strings.Join(m[1:5], "."), strconv.Itoa(high<<8|low)))
	if err != nil {
		return "", err
	}
	defer data.Close()

	if _, err := ask(150, "RETR %s", path); err != nil {
		return "", err
	}

	b, err := io.ReadAll(io.LimitReader(data, maxProof))
	// The last byte may be the CR of a truncated line end.
	return strings.TrimSuffix(string(b), "\r"), err
}
