package land

import (
	"fmt"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
)

func BenchmarkCommitGroup(b *testing.B) {
	for _, durable := range []bool{true, false} {
		b.Run(fmt.Sprintf("durable=%v", durable), func(b *testing.B) {
			f, _ := newFS(b, nil)
			l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.Durable = durable })
			content := body(4096, 1)
			item := uint64(0)
			for b.Loop() {
				var group []place.Pending
				for range 256 {
					item++
					p, err := write(l, item, fmt.Sprintf("d/%d", item), content)
					must(b, err)
					group = append(group, p)
				}
				_, err := l.Commit(b.Context(), group)
				must(b, err)
			}
			b.ReportMetric(float64(item)/b.Elapsed().Seconds(), "files/s")
		})
	}
}
