package follow

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// The rate is the one of the last seconds. A watch that begins in the middle does not count the bytes before it, and the
// rate stands still while the transfer waits.
func TestRate(t *testing.T) {
	var m meter
	begun := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	at := func(seconds, bytes int64, state transfer.State) float64 {
		p := &transfer.Progress{State: state, Traffic: transfer.Traffic{BytesSent: bytes}}
		return m.take(p, begun.Add(time.Duration(seconds)*time.Second))
	}
	for _, c := range []struct {
		seconds, bytes int64
		state          transfer.State
		want           float64
	}{
		{0, 1_000_000, transfer.Running, 0},
		{1, 1_000_300, transfer.Running, 300},
		{2, 1_000_600, transfer.Running, 300},
		{3, 1_000_600, transfer.Waiting, 300},
		{600, 1_000_600, transfer.Waiting, 300},
		{601, 1_000_600, transfer.Running, 300},
		{602, 1_000_700, transfer.Running, 100},
		{700, 1_000_700, transfer.Running, 0},
		{705, 1_000_750, transfer.Running, 50.0 / 103},
		{720, 1_000_750, transfer.Running, 0},
		{740, 1_000_750, transfer.Running, 0},
	} {
		if got := at(c.seconds, c.bytes, c.state); got != c.want {
			t.Errorf("after %d s: %v bytes a second, want %v", c.seconds, got, c.want)
		}
	}
}
