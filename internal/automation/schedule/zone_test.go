package schedule

import (
	"testing"

	"ferry/internal/transfer"
)

// The host's zone is that of TZ, where that is a zone with a name.
func TestZoneOfHost(t *testing.T) {
	for tz, want := range map[string]string{
		"": "UTC", "Europe/Berlin": "Europe/Berlin", ":America/New_York": "America/New_York", "/usr/share/zoneinfo/Asia/Kolkata": "Asia/Kolkata",
		"CET-1CEST": "", "Mars/Olympus": "", "/etc/passwd": "",
	} {
		t.Setenv("TZ", tz)
		got, err := ZoneOfHost()
		if got != want || (err == nil) != (want != "") || err != nil && transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("TZ=%s: %q, %v", tz, got, err)
		}
	}
}
