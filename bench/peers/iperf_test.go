package peers

import (
	"testing"
	"time"
)

const iperfSays = `{"start":{"version":"iperf 3.12"},"end":{"sum_sent":{"bytes":1100000,"seconds":1.9},
"sum_received":{"start":0,"end":2.5,"seconds":2.5,"bytes":1000000,"bits_per_second":3200000,"sender":true}}}`

func TestParseIperf(t *testing.T) {
	got, err := parseIperf([]byte(iperfSays))
	if err != nil || got != (Throughput{1_000_000, 2500 * time.Millisecond}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `{"error":"unable to connect"}`, `{"end":{"sum_received":{"bytes":5,"seconds":0}}}`,
		`{"end":{"sum_received":{"bytes":-5,"seconds":1}}}`, `{"end":{"sum_received":{"bytes":5,"seconds":1e300}}}`} {
		if got, err := parseIperf([]byte(bad)); err == nil {
			t.Errorf("%s is %+v", bad, got)
		}
	}
}

func FuzzParseIperf(f *testing.F) {
	f.Add([]byte(iperfSays))
	f.Add([]byte(`{"error":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := parseIperf(data); err == nil && (got.Bytes <= 0 || got.Time < 0) {
			t.Errorf("%q is %+v", data, got)
		}
	})
}
