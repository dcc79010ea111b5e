package transfer

import (
	"testing"
	"time"
)

func TestParseExits(t *testing.T) {
	e, err := ParseExits([]string{"source-start=a.sh", "monitor=sub/b.sh"}, time.Second)
	if err != nil || len(e.Programs) != 2 || e.Programs[SourceStartExit] != "a.sh" || e.Programs[MonitorExit] != "sub/b.sh" || e.Time != time.Second {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range [][]string{{"source-start"}, {"start=a.sh"}, {"=a.sh"}, {"source-start="}, {"source-start=../a.sh"}, {"call=a.sh"}, {"monitor=a", "monitor=b"}} {
		if _, err := ParseExits(bad, time.Second); KindOf(err) != KindUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, limit := range []time.Duration{-1, 0, MaxProgramTime + 1} {
		if _, err := ParseExits(nil, limit); KindOf(err) != KindUsage {
			t.Errorf("a time limit of %s: %v", limit, err)
		}
	}
	for _, at := range CallPoints() {
		if at.Exit() == "" || at.Exit().Noun() == at.Noun() {
			t.Errorf("%s has the exit %q", at, at.Exit())
		}
	}
	if s := DestStartExit.Noun(); s != "the destination-start exit" {
		t.Error(s)
	}
}
