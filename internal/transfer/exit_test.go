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
		if _, err := ParseExits(bad, 0); KindOf(err) != KindUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseExits(nil, -1); KindOf(err) != KindUsage {
		t.Errorf("a negative time: %v", err)
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
