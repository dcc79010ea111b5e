package bench

import (
	"fmt"
	"runtime"

	"ferry/bench/published"
)

// zosSizes are the sizes of files in MB. The report also has one file of 1 GB, which one measurement here does not move.
var zosSizes = []int{1, 10, 100}

// A zosLine is one line of a chart of the report for z/OS, with the works of its points.
type zosLine struct {
	name string
	work func(x int) work
}

// zosChart returns the table and the chart of a chart of the report. Its own figures exist as a picture only. x are
// the values of its axis.
func (d *drafter) zosChart(title, axis, unit string, xs []int, lines []zosLine, value func(work) Figure) (Table, Chart) {
	t := Table{Title: title, Columns: []Column{{Name: "line"}, {Name: axis}, {Name: "there", Unit: unit}, {Name: "here", Unit: unit, Digits: 1}, {Name: "ratio"}}}
	c := Chart{Title: title, Kind: Lines, X: axis, Y: unit, LogX: len(xs) > 2}
	for _, l := range lines {
		points := Line{Name: l.name}
		for _, x := range xs {
			w := l.work(x)
			s := d.of(w)
			here := Text("%s", s.Lacks)
			if s.Lacks == "" {
				f := value(w)
				here = Of(f)
				points.Points = append(points.Points, At(float64(x), f))
			}
			t.Add(Text("%s", l.name), One(float64(x)), Text("picture"), here, Text("none"))
		}
		if len(points.Points) > 0 {
			c.Lines = append(c.Lines, points)
		}
	}
	return t, c
}

func (d *drafter) rateOf(w work) Figure { return d.of(w).Rate() }

// costOf returns the processor time of all roles for each 1,000 bytes.
func (d *drafter) costOf(w work) Figure { return costPerKB(d.of(w)) }

// chapter returns a chapter with pairs of tables and charts.
type zosChapter struct {
	d *drafter
	Chapter
}

func (c *zosChapter) rates(title, axis string, xs []int, lines ...zosLine) {
	t, chart := c.d.zosChart(title, axis, "MB/s", xs, lines, c.d.rateOf)
	c.Tables, c.Charts = append(c.Tables, t), append(c.Charts, chart)
}

func (c *zosChapter) costs(title, axis string, xs []int, lines ...zosLine) {
	t, chart := c.d.zosChart(title, axis, "µs/KB", xs, lines, c.d.costOf)
	c.Tables, c.Charts = append(c.Tables, t), append(c.Charts, chart)
}

// byRoute returns the lines of routes in binary and in text mode, by size of file.
func byRoute(shape string, names ...string) (all []zosLine) {
	for _, name := range names {
		for _, text := range []bool{false, true} {
			all = append(all, zosLine{name + ", " + dataText(text), func(size int) work {
				w := work{shape: shape, route: name, fileMB: size}
				if text {
					w.text = pages{"text", "text"} // the pages are those of the route
				}
				return w
			}})
		}
	}
	return all
}

// routed is a work of a route.
func routed(shape, route string, text bool, size int) work {
	return byRoute(shape, route)[map[bool]int{false: 0, true: 1}[text]].work(size)
}

// lookup returns the value of a remark.
func lookup(id string) float64 {
	r, _ := published.Lookup(id)
	return r.Value
}

// zosReport returns the chapters of the report for System z. Most of its charts are pictures; its text has figures.
func (d *drafter) zosReport() (all []Chapter) {
	add := func(title string, fill func(*zosChapter)) {
		c := &zosChapter{d: d, Chapter: Chapter{Title: title}}
		fill(c)
		all = append(all, c.Chapter)
	}
	const axis = "files of MB"
	add("Performance headlines", d.zosHeadlines)
	add("Private queues, sender-receiver channels: inbound to System z", func(c *zosChapter) {
		lines := byRoute(shapeBindings, "plain to FB 80", "plain to plain")
		c.rates("Chart 1: rate, files to data sets (FB 80) and to files", axis, zosSizes, lines...)
		c.costs("Chart 2: cost, files to data sets (FB 80) and to files", axis, zosSizes, lines...)
		t := Table{Title: "Chart 3: enqueues on SYSZTIOT", Columns: []Column{{Name: "files", Unit: "MB"}, {Name: "there"}, {Name: "here"}}}
		t.Add(One(1), One(lookup("enqueues-1MB")), Text(NoCounterpart))
		t.Add(One(10), One(lookup("enqueues-10MB")), Text(NoCounterpart))
		c.Tables = append(c.Tables, t)
		c.Conclusions = []Conclusion{
			ratio("Binary mode is quite significantly faster than text mode (files of 10 MB; no figure is given, 1.5 stands for it)", 1.5, d.rate(routed(shapeBindings, "plain to FB 80", false, 10)), d.rate(routed(shapeBindings, "plain to FB 80", true, 10))),
			ratio("Text mode costs more processor time (files of 10 MB; 1.5 stands for it)", 1.5, d.cost(routed(shapeBindings, "plain to FB 80", true, 10), FerryRoles...), d.cost(routed(shapeBindings, "plain to FB 80", false, 10), FerryRoles...)),
			ratio("Small files are slower to store (files of 10 MB over 1 MB)", lookup("rate-large")/22.5, d.rate(routed(shapeBindings, "plain to FB 80", false, 10)), d.rate(routed(shapeBindings, "plain to FB 80", false, 1))),
			absent("The time waited for an enqueue of the disk slows small files", "12.139 s of 55.946 s"),
		}
	})
	add("Outbound from System z", func(c *zosChapter) {
		lines := byRoute(shapeBindings, "FB 80 to plain")
		c.rates("Chart 4: rate, data sets (FB 80) to files", axis, zosSizes, lines...)
		c.costs("Chart 5: cost, data sets (FB 80) to files", axis, zosSizes, lines...)
		w := routed(shapeBindings, "FB 80 to plain", true, 10)
		c.Conclusions = []Conclusion{ratio("The receiver converts text (its processor time over the sender's, files of 10 MB; 2 to 4 in charts 8 and 9)", lookup("text-receiver-cost"), d.cost(w, RoleDestination), d.cost(w, RoleSource))}
	})
	add("System z to System z", func(c *zosChapter) {
		lines := byRoute(shapeBindings, "FB 80 to FB 80")
		c.rates("Chart 6: rate, data sets to data sets", axis, zosSizes, lines...)
		c.costs("Chart 7: cost, data sets to data sets", axis, zosSizes, lines...)
		for n, text := range []bool{false, true} {
			t := Table{Title: fmt.Sprintf("Chart %d: cost by side, %s", 8+n, dataText(text)), Columns: []Column{{Name: "files", Unit: "MB"}, {Name: "receiver over sender there", Digits: 1}, {Name: "sender here", Unit: "µs/KB", Digits: 2},
				{Name: "receiver here", Unit: "µs/KB", Digits: 2}, {Name: "receiver over sender here", Digits: 2}, {Name: "ratio", Digits: 2}}}
			chart := Chart{Title: t.Title, Kind: Bars, X: axis, Y: "µs/KB"}
			source, dest := Line{Name: "sender"}, Line{Name: "receiver"}
			there := lookup(map[bool]string{false: "binary-receiver-cost", true: "text-receiver-cost"}[text])
			for k, size := range zosSizes {
				s := d.of(routed(shapeBindings, "FB 80 to FB 80", text, size))
				from, to := s.CPUPerKB(RoleSource), s.CPUPerKB(RoleDestination)
				over, part := Text("%s", s.Lacks), Text(NotMeasured)
				if s.Lacks == "" && from.Median > 0 {
					over, part = One(to.Median/from.Median), One(to.Median/from.Median/there)
					source.Points, dest.Points = append(source.Points, At(float64(k), from)), append(dest.Points, At(float64(k), to))
				}
				t.Add(One(float64(size)), One(there), s.Cell(from), s.Cell(to), over, part)
				chart.Categories = append(chart.Categories, fmt.Sprintf("%d MB", size))
			}
			if len(source.Points) > 0 {
				chart.Lines = []Line{source, dest}
			}
			c.Tables, c.Charts = append(c.Tables, t), append(c.Charts, chart)
			w := routed(shapeBindings, "FB 80 to FB 80", text, 10)
			c.Conclusions = append(c.Conclusions, ratio("The receiver's cost over the sender's, "+dataText(text)+", files of 10 MB", there, d.cost(w, RoleDestination), d.cost(w, RoleSource)))
		}
		c.Conclusions = append(c.Conclusions, ratio("Text mode between systems of one code page is a costly conversion for nothing (cost of text over binary, files of 10 MB; 1.5 stands for it)", 1.5,
			d.cost(routed(shapeBindings, "FB 80 to FB 80", true, 10), FerryRoles...), d.cost(routed(shapeBindings, "FB 80 to FB 80", false, 10), FerryRoles...)))
	})
	add("Private queues, cluster channels", func(c *zosChapter) {
		lines := byRoute(shapeCluster, "plain to FB 80")
		c.rates("Chart 10: rate, files to data sets over a cluster", axis, zosSizes, lines...)
		c.costs("Chart 11: cost, files to data sets over a cluster", axis, zosSizes, lines...)
		c.Conclusions = []Conclusion{ratio("Cluster channels and sender-receiver channels have about the same rate (files of 10 MB, binary)", 1, d.rate(routed(shapeCluster, "plain to FB 80", false, 10)), d.rate(routed(shapeBindings, "plain to FB 80", false, 10))),
			ratio("and about the same cost", 1, d.cost(routed(shapeCluster, "plain to FB 80", false, 10), FerryRoles...), d.cost(routed(shapeBindings, "plain to FB 80", false, 10), FerryRoles...))}
	})
	add("Shared queues, sender-receiver channels", func(c *zosChapter) {
		lines := byRoute(shapeCluster, "plain to plain")
		c.rates("Chart 12: rate, queues of a cluster, fast delivery", axis, zosSizes, lines...)
		c.costs("Chart 13: cost, queues of a cluster, fast delivery", axis, zosSizes, lines...)
		c.Notes = []string{"With NPMSPEED(FAST) messages pass a shared queue to a waiting getter without being stored. Fast delivery through a cluster with replicated queues does the same here."}
	})
	add("Tuning your network", func(c *zosChapter) {
		const large = "--tcp-send-buffer 4M --tcp-receive-buffer 4M"
		line := func(name, flags string) zosLine {
			return zosLine{name, func(size int) work { return work{shape: shapeClient, fileMB: size, flags: flags} }}
		}
		c.rates("TCP buffers: the system adapts them, 64 KiB and 4 MiB", axis, []int{10}, line("adapted", ""), line("64 KiB", "--tcp-send-buffer 64K --tcp-receive-buffer 64K"), line("4 MiB", large))
		c.Conclusions = []Conclusion{ratio("Large buffers help on a path of high latency, and not on a short one (4 MiB over adapted, loopback)", 1, d.rate(work{shape: shapeClient, fileMB: 10, flags: large}), d.rate(work{shape: shapeClient, fileMB: 10}))}
	})
	add("Does the number of processors affect MQFTE?", d.zosProcessors)
	add("Will a zAAP processor save processing costs?", func(c *zosChapter) {
		t := Table{Title: "Charts 18 to 23: a processor for Java alone", Columns: []Column{{Name: "figure"}, {Name: "there", Digits: 2}, {Name: "here"}}}
		for _, id := range []string{"zaap-binary-small-files", "zaap-binary-large-files", "zaap-text"} {
			r, _ := published.Lookup(id)
			t.Add(Text("%s", placed(r)), One(r.Value), Text(NoCounterpart))
			c.Conclusions = append(c.Conclusions, absent(r.What, fmt.Sprintf("%.2f times", r.Value)))
		}
		c.Tables = []Table{t}
	})
	add("Optimising BLKSIZE", func(c *zosChapter) {
		t := Table{Title: "Space on a 3390 for 1 MB, LRECL 80", Columns: []Column{{Name: "figure"}, {Name: "there", Digits: 3}, {Name: "here"}}}
		for _, id := range []string{"tracks-27920", "space-27920", "tracks-6400", "space-6400"} {
			r, _ := published.Lookup(id)
			t.Add(Text("%s, %s", r.What, r.Unit), One(r.Value), Text("files have no tracks"))
		}
		c.Tables = []Table{t}
		c.Conclusions = []Conclusion{absent("A block size of half a track takes the least space; `ferry dataset` chooses it for BLKSIZE 0", "11 percent less than BLKSIZE 6400")}
	})
	add("Unix System Services environment", func(c *zosChapter) {
		t := Table{Title: "Chart 24: messages between systems for a shared file system", Columns: []Column{{Name: "to"}, {Name: "there, sent"}, {Name: "there, larger than a buffer", Unit: "%"}, {Name: "here"}}}
		t.Add(Text("the other agent's system"), One(5021), One(1), Text(NoCounterpart))
		t.Add(Text("the owner of the file system"), One(132588), One(32), Text(NoCounterpart))
		c.Tables = []Table{t}
		c.Conclusions = []Conclusion{absent("A file system that another system owns costs processor time there", "132,588 messages in 153 s")}
	})
	add("Channel attributes NPMSPEED, COMPHDR and COMPMSG", d.zosChannels)
	for _, fill := range []struct {
		title string
		do    func(*zosChapter)
	}{{"agentChunkSize", d.zosChunks}, {"agentWindowSize", d.zosWindows}, {"agentFrameSize", d.zosFrames}, {"agentCheckpointInterval", d.zosCheckpoints}, {"Multiple concurrent file transfers", d.zosConcurrent}} {
		add(fill.title, fill.do)
	}
	add("CPU cost calculations on other System z systems", d.zosCosts)
	return all
}

func (d *drafter) zosHeadlines(c *zosChapter) {
	t := Table{Title: "Rates, and the rate of FTP beside them", Columns: []Column{{Name: "figure"}, {Name: "there", Unit: "MB/s", Digits: 1}, {Name: "here", Unit: "MB/s"}, {Name: "ratio", Digits: 1}}}
	add := func(name string, there float64, w work) {
		s := d.of(w)
		first := Text("none")
		if there > 0 {
			first = One(there)
		}
		t.Add(append([]Cell{Text("%s", name), first}, rateCells(s, there)...)...)
	}
	plain := func(size, atOnce int) work { return work{shape: shapeBindings, fileMB: size, atOnce: atOnce} }
	add("files of 1 MB, default settings", 22.5, plain(1, 1))
	tuned := plain(1, 1)
	tuned.chunkKiB, tuned.window = 512, 40
	add("files of 1 MB, tuned (chunk 512 KiB, window 40)", lookup("rate-1MB-tuned"), tuned)
	add("files of 10 MB and more", lookup("rate-large"), plain(10, 1))
	ftp, ascii := work{peer: peerFTP, fileMB: 10}, work{peer: peerFTPText, fileMB: 10, text: toEBCDIC}
	add("FTP, binary, files of 10 MB", 0, ftp)
	add("FTP, ASCII mode, files of 10 MB", 0, ascii)
	text := plain(10, published.Ten)
	text.text = toEBCDIC
	add("text, ten at once, files of 10 MB", 0, text)
	c.Tables = []Table{t}
	c.Conclusions = []Conclusion{
		ratio("Tuned settings are faster for files of 1 MB", lookup("rate-1MB-tuned")/22.5, d.rate(tuned), d.rate(plain(1, 1))),
		ratio("Binary mode has half of the rate of FTP", lookup("of-ftp"), d.rate(plain(10, 1)), d.rate(ftp)),
		ratio("Text with several transfers at once exceeds FTP (there at least 1)", 1.1, d.rate(text), d.rate(ascii)),
	}
}

func (d *drafter) zosProcessors(c *zosChapter) {
	counts := processorCounts()
	for n, text := range []bool{false, true} {
		var lines []zosLine
		for _, size := range zosSizes {
			lines = append(lines, zosLine{fmt.Sprintf("files of %d MB, %s", size, dataText(text)), func(p int) work { return onProcessors(p, text, size) }})
		}
		c.rates(fmt.Sprintf("Chart %d: rate by number of processors, %s", 14+2*n, dataText(text)), "processors", counts, lines...)
		c.costs(fmt.Sprintf("Chart %d: cost by number of processors, %s", 15+2*n, dataText(text)), "processors", counts, lines...)
	}
	most := counts[len(counts)-1]
	if most > 1 {
		c.Conclusions = append(c.Conclusions,
			ratio("Text gains from a second processor (files of 10 MB; 1.3 stands for the noticeable difference)", 1.3, d.rate(onProcessors(2, true, 10)), d.rate(onProcessors(1, true, 10))),
			ratio("More processors make binary transfers little faster (files of 10 MB)", 1, d.rate(onProcessors(most, false, 10)), d.rate(onProcessors(1, false, 10))),
			ratio("and cost slightly more processor time", 1.05, d.cost(onProcessors(most, false, 10), FerryRoles...), d.cost(onProcessors(1, false, 10), FerryRoles...)))
	}
}

func onProcessors(n int, text bool, size int) work {
	w := work{shape: shapeClient, fileMB: size, processors: n}
	if n >= runtime.NumCPU() {
		w.processors = 0
	}
	if text {
		w.text = toEBCDIC
	}
	return w
}

func (d *drafter) zosChannels(c *zosChapter) {
	of := func(shape string, stored bool) func(int) work {
		return func(size int) work { return work{shape: shape, checksum: "none", stored: stored, fileMB: size} }
	}
	lines := []zosLine{{"private queues, fast", of(shapeClient, false)}, {"private queues, normal (stored)", of(shapeClient, true)}, {"replicated queues, fast", of(shapeCluster, false)}, {"replicated queues, normal (stored)", of(shapeCluster, true)}}
	c.rates("Chart 25: rate by NPMSPEED", "files of MB", zosSizes, lines...)
	c.costs("Chart 26: cost by NPMSPEED", "files of MB", zosSizes, lines...)
	c.Conclusions = append(c.Conclusions,
		ratio("NPMSPEED(NORMAL) has 20 percent less rate with private queues (files of 10 MB)", 1-lookup("normal-private")/100, d.rate(of(shapeClient, true)(10)), d.rate(of(shapeClient, false)(10))),
		ratio("and 50 percent less with shared queues", 1-lookup("normal-shared")/100, d.rate(of(shapeCluster, true)(10)), d.rate(of(shapeCluster, false)(10))))

	t := Table{Title: "COMPHDR and COMPMSG: data that shrinks to a third", Columns: []Column{{Name: "there"}, {Name: "here"}, {Name: "rate", Unit: "MB/s"}, {Name: "cost", Unit: "µs/KB", Digits: 2}, {Name: "of the rate without", Digits: 2}}}
	compressed := func(how string) work { return work{shape: shapeClient, prose: true, compress: how, fileMB: 10} }
	for _, r := range [][2]string{{"NONE", "none"}, {"ZLIBFAST", "fast"}, {"ZLIBHIGH", "high"}, {"RLE, or none", "auto"}} {
		w := compressed(r[1])
		s, part := d.of(w), Text(NotMeasured)
		if base := d.rate(compressed("none")); base > 0 && d.rate(w) > 0 {
			part = One(d.rate(w) / base)
		}
		t.Add(Text("COMPMSG(%s)", r[0]), Text("--compress %s", r[1]), s.Cell(s.Rate()), s.Cell(costPerKB(s)), part)
	}
	c.Tables = append(c.Tables, t)
	c.Conclusions = append(c.Conclusions,
		absent("COMPHDR(SYSTEM) saves 411 of 476 bytes of a header, which is nothing beside a message of 256 KiB; a header here has less than 411 bytes", "0.2 percent"),
		ratio("Compression costs processor time at both ends (fast over none; 1.5 stands for it)", 1.5, d.cost(compressed("fast"), FerryRoles...), d.cost(compressed("none"), FerryRoles...)))
}

// sweepLines returns a line for each size of file.
func sweepLines(set func(w *work, v int)) (all []zosLine) {
	for _, size := range zosSizes {
		all = append(all, zosLine{fmt.Sprintf("files of %d MB", size), func(v int) work {
			w := work{shape: shapeClient, fileMB: size}
			set(&w, v)
			return w
		}})
	}
	return all
}

// sweptRate returns the rate of a value of a sweep.
func (d *drafter) sweptRate(lines []zosLine, size int, v int) float64 {
	for n, s := range zosSizes {
		if s == size {
			return d.rate(lines[n].work(v))
		}
	}
	return 0
}

func (d *drafter) zosChunks(c *zosChapter) {
	lines := sweepLines(func(w *work, v int) { w.chunkKiB = v })
	c.rates("Chart 27: rate by agentChunkSize", "chunk, KiB", matrixChunks, lines...)
	c.Conclusions = []Conclusion{
		ratio("512 KB chunks are 20 percent faster than 256 KB for files of 1 MB", 1+lookup("chunk-512-small-files")/100, d.sweptRate(lines, 1, 512), d.sweptRate(lines, 1, 256)),
		best("The best chunk for large files", "KiB", int(lookup("chunk-best-large-files")), matrixChunks, func(v int) float64 { return d.sweptRate(lines, 100, v) }),
	}
}

func (d *drafter) zosWindows(c *zosChapter) {
	values := []int{5, 10, 20, 40}
	lines := sweepLines(func(w *work, v int) { w.window = v })
	c.rates("Chart 28: rate by agentWindowSize", "window", values, lines...)
	c.Conclusions = []Conclusion{
		best("The best window for larger files", "chunks", 10, values, func(v int) float64 { return d.sweptRate(lines, 100, v) }),
		ratio("A window of 40 is 25 percent faster for smaller files than one of 10", 1.25, d.sweptRate(lines, 1, 40), d.sweptRate(lines, 1, 10)),
	}
}

func (d *drafter) zosFrames(c *zosChapter) {
	values := []int{1, 5, 10, 20}
	lines := sweepLines(func(w *work, v int) { w.frame = v })
	c.rates("Chart 29: rate by agentFrameSize", "frame", values, lines...)
	c.costs("Chart 30: cost by agentFrameSize", "frame", values, lines...)
	cost := func(size, v int) float64 {
		return d.cost(work{shape: shapeClient, fileMB: size, frame: v}, FerryRoles...)
	}
	c.Conclusions = []Conclusion{
		best("The best frame for files of 10 MB and larger", "windows", 5, values, func(v int) float64 { return d.sweptRate(lines, 10, v) }),
		ratio("The cost hardly depends on the frame (files of 10 MB, 20 over 5)", 1, cost(10, 20), cost(10, 5)),
		ratio("A frame of 1 costs small files significantly more (1 over 5; 1.3 stands for it)", 1.3, cost(1, 1), cost(1, 5)),
	}
}

func (d *drafter) zosCheckpoints(c *zosChapter) {
	values := []int{1, 2, 4, 8}
	lines := sweepLines(func(w *work, v int) { w.checkpoint = v })
	c.rates("Chart 31: rate by agentCheckpointInterval", "frames", values, lines...)
	save := Conclusion{Statement: "An interval of 8 saves processor time for files of 1 MB", Theirs: fmt.Sprintf("%.0f µs/KB", lookup("checkpoint-8-small-files")), Ours: NotMeasured, Verdict: NotMeasured}
	cost := func(v int) float64 {
		return d.cost(work{shape: shapeClient, fileMB: 1, checkpoint: v}, FerryRoles...)
	}
	if one, eight := cost(1), cost(8); one > 0 && eight > 0 {
		save.Ours, save.Verdict = fmt.Sprintf("%.2f µs/KB", one-eight), HoldsNot
		switch {
		case one-eight > 0.05*one:
			save.Verdict = Holds
		case one-eight < -0.05*one:
			save.Verdict = Reversed
		}
	}
	c.Conclusions = []Conclusion{ratio("The interval makes no significant difference to the rate (files of 10 MB, 8 over 1)", 1, d.sweptRate(lines, 10, 8), d.sweptRate(lines, 10, 1)), save}
}

func (d *drafter) zosConcurrent(c *zosChapter) {
	values := []int{1, 2, 5, 10}
	of := func(text bool, size, n int) work {
		w := work{shape: shapeBindings, fileMB: size, atOnce: n, spread: n > 1}
		if text {
			w.text = toEBCDIC
		}
		return w
	}
	for n, text := range []bool{false, true} {
		var lines []zosLine
		for _, size := range []int{1, 10} {
			lines = append(lines, zosLine{fmt.Sprintf("files of %d MB, %s", size, dataText(text)), func(v int) work { return of(text, size, v) }})
		}
		c.rates(fmt.Sprintf("Chart %d: rate by number of transfers at once, %s", 32+n, dataText(text)), "transfers", values, lines...)
	}
	cost := func(text bool, n int) float64 { return d.cost(of(text, 10, n), FerryRoles...) }
	c.Conclusions = []Conclusion{
		ratio("Two transfers at once are 30 percent faster than one for smaller files", 1+lookup("two-transfers-small-files")/100, d.rate(of(false, 1, 2)), d.rate(of(false, 1, 1))),
		ratio("Larger files gain nothing (files of 10 MB, two over one)", 1, d.rate(of(false, 10, 2)), d.rate(of(false, 10, 1))),
		ratio("Text gains clearly from several transfers (files of 10 MB, five over one; 1.5 stands for it)", 1.5, d.rate(of(true, 10, 5)), d.rate(of(true, 10, 1))),
		ratio("Two text transfers at once match the rate of binary (files of 10 MB)", lookup("two-transfers-text"), d.rate(of(true, 10, 2)), d.rate(of(false, 10, 1))),
		ratio("The cost hardly depends on the number of transfers, binary (ten over one)", 1, cost(false, 10), cost(false, 1)),
		ratio("nor does that of text", 1, cost(true, 10), cost(true, 1)),
	}
}

func (d *drafter) zosCosts(c *zosChapter) {
	if example, err := exampleTable(); err == nil {
		c.Tables = append(c.Tables, example)
	}
	t := Table{Title: "A cost of this document after the same arithmetic", Columns: []Column{{Name: "role"}, {Name: "here", Unit: "µs/KB", Digits: 3}, {Name: "on a processor that does 0.655 of this one's work", Unit: "µs/KB", Digits: 3}, {Name: "this host busy at 50 MB/s", Unit: "%", Digits: 1}}}
	for _, role := range FerryRoles {
		here := d.cost(work{shape: shapeClient, fileMB: 10}, role)
		carried, err := CarryCost(here, Z10, Z9)
		if here <= 0 || err != nil {
			t.Add(Text("%s", role), Text(NotMeasured), Text(NotMeasured), Text(NotMeasured))
			continue
		}
		t.Add(Text("%s", role), One(here), One(carried), One(here*50_000/1e6/float64(max(d.cores, 1))*100))
	}
	c.Tables = append(c.Tables, t)
}
