//go:build failpoint

package failpoint

import (
	"os"
	"slices"
	"strings"
)

var planted = strings.Split(os.Getenv("FERRY_PLANTED"), ",")

// Planted reports whether a planted bug is active.
func Planted(name string) bool { return slices.Contains(planted, name) }
