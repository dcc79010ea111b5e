package output

import (
	"os"
	"testing"
)

// The file of an output is found behind a Checked, and an output is checked once.
func TestFileOf(t *testing.T) {
	once := NewChecked(os.Stdout)
	if twice := NewChecked(once); twice != once || FileOf(twice) != os.Stdout {
		t.Error("the file behind a Checked is not found")
	}
}
