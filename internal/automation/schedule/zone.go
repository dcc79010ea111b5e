package schedule

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// ZoneOfHost is the name of this host's time zone: of TZ, or of the file that the system has
// for its zone.
func ZoneOfHost() (string, error) {
	name, set := os.LookupEnv("TZ")
	if !set {
		link, err := os.Readlink("/etc/localtime")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "UTC", nil
		case err != nil: // a copy
			text, _ := os.ReadFile("/etc/timezone")
			link = strings.TrimSpace(string(text))
		}
		name = link
	} else if name = strings.TrimPrefix(name, ":"); name == "" {
		return "UTC", nil
	}
	if _, of, ok := strings.Cut(name, "zoneinfo/"); ok {
		name = of
	}
	if _, err := time.LoadLocation(name); err != nil || name == "" {
		return "", transfer.Errorf(transfer.KindUsage, "the name of this host's time zone cannot be found").WithHint("give one, as --tz Europe/Berlin or --tz UTC")
	}
	return name, nil
}
