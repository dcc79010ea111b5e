package bench

import (
	"fmt"
	"time"
)

// overIperf returns the bar of one series' rate over that of iperf3.
func overIperf(name string, all []Series, of string, limit, aim float64) Bar {
	missing := Series{Lacks: "it was not run"}
	if found := named(all, of); len(found) == 1 {
		missing = found[0]
	}
	return rateBar(name, missing, named(all, iperfName), limit, aim)
}

// gigabitBars returns the bars of the link of 1 Gbit/s.
func gigabitBars(all []Series) (bars []Bar) {
	for _, l := range []Lane{DirectPlain, DirectTLS, QueueLane} {
		bars = append(bars, overIperf("1 Gbit/s: rate of the "+l.Name+" over iperf3", all, ferryCase(l), 0.97, 0.99))
	}

	bars = append(bars, AtLeast("1 Gbit/s: rate of the queue lane, TLS over iperf3", "", 0, 0.97, 0.99).Lacking("not available: this Ferry's queue lane has no TLS"))
	for _, l := range []Lane{DirectPlain, QueueLane} {
		name := "1 Gbit/s: time with MD5 over time without a checksum, " + l.Name
		with, without := named(all, ferryCase(l)+", MD5"), named(all, ferryCase(l)+", no checksum")
		if len(with) != 1 || len(without) != 1 {
			bars = append(bars, AtMost(name, "", 0, 1.05, 1.02).Lacking("it was not run"))
			continue
		}
		bars = append(bars, ratioBar(name, with[0], without[0], 1.05, 1.02))
	}
	return bars
}

// pathBars returns the bars of a path with a round trip. The aim was set for 200 ms.
func pathBars(trip time.Duration, all []Series) (bars []Bar) {
	for _, l := range []Lane{DirectPlain, DirectTLS, QueueLane} {
		name := fmt.Sprintf("100 Mbit/s, round trip %s: rate of the %s%s over iperf3", trip, l.Name, selfSettings)
		bars = append(bars, overIperf(name, all, ferryCase(l)+selfSettings, 0.85, 0.95))
	}
	return bars
}

// linkTable returns a table of rates beside that of iperf3.
func linkTable(title string, all []Series) Table {
	t := Table{Title: title, Columns: []Column{
		{Name: "with"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s", Digits: 1}, {Name: "over iperf3", Digits: 3},
		{Name: "CPU of sender and receiver", Unit: "s", Digits: 2}, {Name: "CPU of queue manager and coordination", Unit: "s", Digits: 2}}}
	carried := 0.0
	for _, s := range named(all, iperfName) {
		carried = s.Rate().Median
	}

	for _, s := range all {
		part := Cell{}
		if carried > 0 && s.Lacks == "" {
			part = One(s.Rate().Median / carried)
		}
		t.Add(Text("%s", s.Case), s.Cell(s.Wall()), s.Cell(s.Rate()), part,
			s.Cell(sumCPU(s, RoleSource, RoleDestination, RoleClient, RoleServer)), s.Cell(sumCPU(s, RoleManager, RoleCoordination)))
	}
	return t
}
