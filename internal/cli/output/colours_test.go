package output

import (
	"bytes"
	"strings"
	"testing"
)

// Colours stand around states alone, and only where they are wanted.
func TestColours(t *testing.T) {
	rows := func() [][]string { return [][]string{{"ID", "STATE"}, {"failed", "failed"}, {"x", "successful"}} }
	var plain, colored bytes.Buffer
	Screen{Width: 80}.Table(&plain, rows())
	Screen{Width: 80, color: true}.Table(&colored, rows())
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(colored.String(), "\x1b[31mfailed\x1b[0m") || !strings.Contains(colored.String(), "\x1b[32msuccessful\x1b[0m") {
		t.Errorf("%q\n%q", plain.String(), colored.String())
	}
}
