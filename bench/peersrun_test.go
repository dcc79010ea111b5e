package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ran returns a series of one sample with a rate in megabytes a second.
func ran(name string, rate float64) Series {
	return Series{Case: name, Samples: []Sample{{Wall: time.Second, Bytes: int64(rate * 1e6)}}}
}

func TestPeerBars(t *testing.T) {
	all := []Series{
		ran("Ferry, direct lane, plain", 2000), ran("Ferry, direct lane, TLS", 900), ran("Ferry, queue lane", 700),
		ran("vsftpd + curl, get", 1600), ran("vsftpd + curl, put", 1000), ran("vsftpd + lftp mirror", 100), ran("vsftpd + lftp mirror, 4 at once", 2500),
		ran("rsync daemon -W", 1250), ran("vsftpd + curl --ssl-reqd, get", 500), ran("vsftpd + curl --ssl-reqd, put", 1000), ran("sftp", 400),
	}
	want := map[string][]float64{
		"one":   {2000. / 1600, 900. / 1000, 900. / 400, 2000. / 1250, 700. / 1600},
		"many":  {2000. / 1250},
		"small": {2000. / 1250, 2000. / 2500},
	}
	passed := map[string][]bool{"one": {true, false, true, true, false}, "many": {true}, "small": {true, false}}
	for workload, values := range want {
		bars := peerBars(workload, workload, all)
		if len(bars) != len(values) {
			t.Fatalf("%s has %d bars", workload, len(bars))
		}
		for i, b := range bars {
			if b.Value != values[i] || b.Passed != passed[workload][i] || b.Missing != "" {
				t.Errorf("%s: %+v; want %v", workload, b, values[i])
			}
		}
	}
}

// Bars with a small margin use the series measured by turns, the others those of the rounds.
func TestPeerBarsTakeWhatWasMeasuredByTurns(t *testing.T) {
	all := []Series{ran("Ferry, direct lane, TLS", 900), ran("vsftpd + curl --ssl-reqd, get", 500), ran("sftp", 400)}
	turned := []Series{ran("Ferry, direct lane, TLS", 600), ran("vsftpd + curl --ssl-reqd, get", 800)}
	bars := peerBars("one", "one", instead(all, turned))
	if bars[1].Value != 600./800 || bars[2].Value != 600./400 || all[0].Rate().Median != 900 {
		t.Errorf("%+v", bars)
	}
	for workload, names := range turnedCases {
		known := (&peerRun{lanes: []Lane{DirectPlain, DirectTLS, QueueLane}, pairs: make([]*Pair, 3)}).cases(&FileSet{Names: []string{"a"}})
		if got := casesOf(known, names); len(got) != len(names) {
			t.Errorf("%s: %d cases for %q", workload, len(got), names)
		}
	}
}

// A missing lane fails its bars, without a substitute.
func TestPeerBarsWithoutALane(t *testing.T) {
	all := []Series{{Case: "Ferry, direct lane, plain", Lacks: "not available"}, ran("Ferry, queue lane", 700), ran("vsftpd + curl, get", 1000)}
	for i, b := range peerBars("one", "one", all) {
		direct := i != 4
		if direct != (b.Missing != "") || direct == b.Passed {
			t.Errorf("%+v", b)
		}
	}
	if b := rateBar("alone", ran("Ferry", 1), nil, 1, 1); b.Passed || b.Missing == "" {
		t.Errorf("a rate over nothing passes: %+v", b)
	}
}

func TestPeerTable(t *testing.T) {
	first, second := ran("Ferry, direct lane, plain", 1000), ran("cp", 2000)
	first.Samples[0].CPU = map[Role]time.Duration{RoleSource: time.Second, RoleDestination: 2 * time.Second, RoleManager: 4 * time.Second}
	second.Samples[0].CPU = map[Role]time.Duration{RoleClient: time.Second}
	r := Report{Scenario: "peers", Tables: []Table{peerTable("x", []Series{first, second, {Case: "other", Lacks: "no"}})}, Charts: []Chart{peerChart("x", []Series{first, second})}}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Tables[0].Rows
	if rows[0][4].Figure.Median != 3 || rows[0][5].Figure.Median != 4 || rows[1][4].Figure.Median != 1 || rows[1][3].Figure.Median != 0.5 || rows[0][3].Figure != nil {
		t.Errorf("%+v", rows)
	}
	if rows[2][1].Text != "no" {
		t.Errorf("a case that was not run is shown as %+v", rows[2])
	}
}

func TestNamed(t *testing.T) {
	all := []Series{{Case: "a"}, {Case: "ab"}, {Case: "b"}}
	for names, want := range map[string]string{"a": "a", "a*": "a ab", "b a": "a b", "": ""} {
		var got []string
		for _, s := range named(all, strings.Fields(names)...) {
			got = append(got, s.Case)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %v", names, got)
		}
	}
}

func TestSyncTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b", "c"), []byte("c"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syncTree(t.Context(), dir, 1); err != nil {
		t.Error(err)
	}
	if err := syncTree(t.Context(), filepath.Join(dir, "none"), 1); err == nil {
		t.Error("a tree that is not there was synced")
	}
}
