package transfer

import (
	"strconv"
	"strings"
	"time"
)

// A Duration is a time.Duration that is written in JSON in Go's form ("3s").
type Duration time.Duration

// ParseDuration reads Go's form. -1 means for ever.
func ParseDuration(s string) (Duration, error) {
	if s == "-1" {
		return -1, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, Errorf(KindUsage, "duration %q is malformed; write it as 90s, 15m or 24h, or -1 for ever", s)
	}
	return Duration(d), nil
}

func (d Duration) String() string {
	if d < 0 {
		return "-1"
	}
	return time.Duration(d).String()
}

// MarshalText writes Go's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads Go's form. -1 means for ever.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	*d = v
	return err
}

// ParseAge reads a Duration that may begin with days ("30d", "1d12h").
func ParseAge(s string) (Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	switch {
	case !found:
		days, rest = "0", s
	case rest == "":
		rest = "0s"
	}
	n, derr := strconv.ParseUint(days, 10, 16)
	d, err := time.ParseDuration(rest)
	if age := time.Duration(n)*24*time.Hour + d; derr == nil && err == nil && d >= 0 && age >= 0 {
		return Duration(age), nil
	}
	return 0, Errorf(KindUsage, "age %.40q is malformed; write it as 90s, 15m, 24h or 30d", s)
}
