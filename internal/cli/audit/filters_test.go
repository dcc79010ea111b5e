package audit

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

func TestParseWhen(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 3, 8, 30, 0, 0, zone)
	for s, want := range map[string]string{
		"2026-11-01":                "2026-11-01T00:00:00+01:00",
		"2026-11-01 18:00":          "2026-11-01T18:00:00+01:00",
		"2026-11-01T18:00:05":       "2026-11-01T18:00:05+01:00",
		"2026-11-01T18:00:05Z":      "2026-11-01T18:00:05Z",
		"2026-11-01T18:00:05-05:00": "2026-11-01T18:00:05-05:00",
		"18:00":                     "2026-11-02T18:00:00+01:00", // of the evening before
		"8:15":                      "2026-11-03T08:15:00+01:00",
		"08:15:30":                  "2026-11-03T08:15:30+01:00",
		"90m":                       "2026-11-03T07:00:00+01:00",
		"12h":                       "2026-11-02T20:30:00+01:00",
		"2d":                        "2026-11-01T08:30:00+01:00",
		"":                          "0001-01-01T00:00:00Z",
		"today":                     "2026-11-03T00:00:00+01:00",
		"yesterday":                 "2026-11-02T00:00:00+01:00",
		"tomorrow":                  "",
		"-3h":                       "",
		"25:00":                     "",
		"2026-13-01":                "",
		"9999999d":                  "",
	} {
		got, err := parseWhen("since", s, now)
		if want == "" && transfer.KindOf(err) != transfer.KindUsage || want != "" && (err != nil || got.Format(time.RFC3339) != want) {
			t.Errorf("%q: %s, %v; want %s", s, got.Format(time.RFC3339), err, want)
		}
	}
}
