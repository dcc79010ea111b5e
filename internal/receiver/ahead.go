package receiver

import "time"

// A path is long if new credit takes longPath and more to bring new data, each
// of longSigns times. A busy host alone seldom looks like that; if it does, a crash
// costs more bytes, and nothing else.
const (
	longPath  = 20 * time.Millisecond
	longSigns = 8
)

// A granted is a limit that was announced, and when.
type granted struct {
	limit int64
	at    time.Time
}

// maxGranted is how many limits are remembered: an epoch has an ACK for each part
// of its credit under way.
const maxGranted = 256

// starved takes in that the sender had to wait for credit before the message that
// is next. If this side was idle then, it waited for the first limit beyond what it
// had used by then, and the time since that was announced is a round trip. Where
// even the shortest is long the run-ahead grows. On a short path it would only
// make a crash cost more.
func (i *incoming) starved(idle bool) {
	used := i.account.Used() + int64(i.rec.Settings.ChunkSize)/4 // it waits for a quarter of a chunk
	for len(i.granted) > 0 && i.granted[0].limit < used {
		i.granted = i.granted[1:]
	}
	if !idle || !i.rec.Settings.Auto || len(i.granted) == 0 {
		return
	}
	trip := i.r.cfg.Clock.Now().Sub(i.granted[0].at)
	if i.trips++; i.trips == 1 || trip < i.trip {
		i.trip = trip
	}
	if i.trips >= longSigns && i.trip >= longPath {
		i.account.Widen()
	}
}
