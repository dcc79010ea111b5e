package bench

// technote returns the chapter of the technote about delayed acknowledgements.
func (d *drafter) technote() []Chapter {
	c := Chapter{Title: "Cause and cure"}
	t := Table{Title: "One exchange: two writes, then a wait for the answer", Columns: []Column{{Name: "connection"}, {Name: "median", Unit: "ms", Digits: 3}}}
	for n, s := range stallSettings {
		m := Series{Lacks: NotMeasured}
		if n < len(d.stalls) {
			m = d.stalls[n]
		}
		t.Add(Text("%s", s.name), m.Cell(m.Extra(extraP50)))
	}
	const least, quick = "--tcp-send-buffer 64K", "--tcp-send-buffer 64K --tcp-quick-ack"
	w := func(flags string) work { return work{shape: shapeClient, fileMB: 10, flags: flags} }
	rates := Table{Title: "Queue lane with the send buffer of one segment", Columns: []Column{{Name: "agents"}, {Name: "there", Unit: "MB/s", Digits: 2}, {Name: "here", Unit: "MB/s", Digits: 1}, {Name: "ratio", Digits: 0}}}
	for _, r := range []struct {
		name, flags string
		there       float64
	}{{"default", "", 0}, {"send buffer of 64 KiB, the least that Ferry takes", least, lookup("stalled-rate") / 1000}, {"the same, and acknowledged at once", quick, 0}} {
		first := Text("none")
		if r.there > 0 {
			first = One(r.there)
		}
		rates.Add(append([]Cell{Text("%s", r.name), first}, rateCells(d.of(w(r.flags)), r.there)...)...)
	}
	rates.Add(Text("send buffer of 32,766 bytes, that of the technote"), One(lookup("stalled-rate")/1000), Text("refused: it is smaller than a message"), Text("none"))
	c.Tables = []Table{t, rates}
	stall := func(n int) float64 {
		if n < len(d.stalls) && d.stalls[n].Lacks == "" {
			return d.stalls[n].Extra(extraP50).Median
		}
		return 0
	}
	c.Conclusions = []Conclusion{
		ratio("An acknowledgement that is put off stalls a writer with a buffer of one segment (exchange with Nagle's algorithm over one without it; 100 stands for 200 ms over a round trip)", 100, stall(0), stall(2)),
		ratio("Acknowledging at once at the reader ends the stall (with over without; 0.01 stands for it)", 0.01, stall(1), stall(0)),
		ratio("A small send buffer slows a transfer (queue lane, 64 KiB over the default; 0.1 stands for it)", 0.1, d.rate(w(least)), d.rate(w(""))),
	}
	return []Chapter{c}
}
