package bench

import (
	"fmt"

	"ferry/bench/published"
)

// Columns of the processor shares of each role.
func roleColumns() []Column {
	return []Column{{Name: "sender there", Unit: "%", Digits: 1}, {Name: "here", Unit: "%", Digits: 1}, {Name: "receiver there", Unit: "%", Digits: 1}, {Name: "here", Unit: "%", Digits: 1},
		{Name: "agents' queue manager there", Unit: "%", Digits: 1}, {Name: "here", Unit: "%", Digits: 1}}
}

// workOf returns the work of a cell of the reports for Linux and Windows. Their text was random data in one code page,
// which Ferry does not convert; from IBM-1047 to UTF-8 is more work.
func workOf(c published.Cell) work {
	w := work{shape: shapeClient, checksum: "none", atOnce: c.Transfers, fileMB: c.FileMB, chunkKiB: c.ChunkKiB}
	if c.Mode == published.Bindings {
		w.shape = shapeBindings
	}
	if c.Text {
		w.text = toUTF8
	}
	if c.MD5 {
		w.checksum = "md5"
	}
	return w
}

// cellRow returns the figures of one cell of both reports.
func (d *drafter) cellRow(c published.Cell) []Cell {
	s := d.of(workOf(c))
	row := append([]Cell{One(c.Seconds), One(c.Rate())}, rateCells(s, c.Rate())...)
	row = append(row, theirs(c.Sender), d.share(s, RoleSource), theirs(c.Receiver), d.share(s, RoleDestination), theirs(c.Manager))
	if c.Mode == published.Bindings { // it is in the processes of the agents
		return append(row, Text("none"))
	}
	return append(row, d.share(s, RoleManager))
}

func cellColumns() []Column {
	return append([]Column{{Name: "time there", Unit: "s", Digits: 2}, {Name: "rate there", Unit: "MB/s", Digits: 1}, {Name: "rate here", Unit: "MB/s", Digits: 0}, {Name: "ratio", Digits: 1}}, roleColumns()...)
}

// rateLines returns two lines of a chart: the published rates and those here.
func (d *drafter) rateLines(name string, cells []published.Cell) []Line {
	there, here := Line{Name: name + "IBM"}, Line{Name: name + "Ferry"}
	for i, c := range cells {
		there.Points = append(there.Points, Point{X: float64(i), Y: c.Rate()})
		if s := d.of(workOf(c)); s.Lacks == "" {
			here.Points = append(here.Points, At(float64(i), s.Rate()))
		}
	}
	if len(here.Points) == 0 {
		return []Line{there}
	}
	return []Line{there, here}
}

// modes are the four combinations of the report for Linux, in the order of its tables.
var modes = []published.Like{
	{Source: published.Linux, Mode: published.Bindings, Transfers: published.Single},
	{Source: published.Linux, Mode: published.Bindings, Transfers: published.Ten},
	{Source: published.Linux, Mode: published.Client, Transfers: published.Single},
	{Source: published.Linux, Mode: published.Client, Transfers: published.Ten},
}

func modeText(c published.Like) string {
	return string(c.Mode) + ", " + transfersText(c.Transfers == published.Ten)
}

// linuxReport returns the chapters of the report for Linux.
func (d *drafter) linuxReport() (all []Chapter) {
	for n, size := range matrixSizes {
		c := Chapter{Title: fmt.Sprintf("2.%d %d MB file size", n+1, size)}
		t := Table{Title: fmt.Sprintf("Table %d: text, 1000 MB in files of %d MB", n+1, size), Columns: append([]Column{{Name: "mode"}, {Name: "chunk", Unit: "KiB"}}, cellColumns()...)}
		for k, mode := range modes {
			mode.FileMB = size
			cells := published.Find(mode)
			chart := Chart{Title: fmt.Sprintf("Figure %d: %s, by size of chunk, files of %d MB", 4*n+k+1, modeText(mode), size), Kind: Bars, X: "chunk", Y: "MB/s", Lines: d.rateLines("", cells)}
			for _, x := range cells {
				t.Add(append([]Cell{Text("%s", modeText(mode)), One(float64(x.ChunkKiB))}, d.cellRow(x)...)...)
				chart.Categories = append(chart.Categories, fmt.Sprintf("%d KiB", x.ChunkKiB))
			}
			c.Charts = append(c.Charts, chart)
		}
		c.Tables, c.Conclusions = []Table{t}, d.linuxOfSize(size)
		all = append(all, c)
	}

	for n, size := range matrixSizes {
		c := Chapter{Title: fmt.Sprintf("2.%d %d MB scenario comparison", n+4, size)}
		t := Table{Title: fmt.Sprintf("Table %d: the same figures by size of chunk", n+4), Columns: append([]Column{{Name: "chunk", Unit: "KiB"}, {Name: "scenario"}}, cellColumns()...)}
		for k, chunk := range matrixChunks {
			chart := Chart{Title: fmt.Sprintf("Figure %d: chunk %d KiB, files of %d MB", 4*n+k+13, chunk, size), Kind: Bars, X: "scenario", Y: "MB/s"}
			var cells []published.Cell
			for _, mode := range modes {
				mode.FileMB, mode.ChunkKiB = size, chunk
				for _, x := range published.Find(mode) {
					t.Add(append([]Cell{One(float64(chunk)), Text("%s", modeText(mode))}, d.cellRow(x)...)...)
					cells = append(cells, x)
					chart.Categories = append(chart.Categories, modeText(mode))
				}
			}
			chart.Lines = d.rateLines("", cells)
			c.Charts = append(c.Charts, chart)
		}
		c.Tables, c.Conclusions = []Table{t}, d.linuxComparison(size)
		all = append(all, c)
	}
	return append(all, Chapter{Title: "3.3 Transfer recommendations", Conclusions: d.linuxAdvice()})
}

// linuxWork is a work of the report for Linux.
func linuxWork(shape string, ten bool, size, chunk int) work {
	w := work{shape: shape, text: toUTF8, checksum: "none", atOnce: 1, fileMB: size, chunkKiB: chunk}
	if ten {
		w.atOnce = published.Ten
	}
	return w
}

// linuxTime returns a time of the report for Linux in seconds.
func linuxTime(mode published.Mode, ten bool, size, chunk int) float64 {
	n := published.Single
	if ten {
		n = published.Ten
	}
	for _, c := range published.Find(published.Like{Source: published.Linux, Mode: mode, Transfers: n, FileMB: size, ChunkKiB: chunk}) {
		return c.Seconds
	}
	return 0
}

func (d *drafter) linuxOfSize(size int) (all []Conclusion) {
	of := func(shape string, ten bool, chunk int) float64 { return d.rate(linuxWork(shape, ten, size, chunk)) }
	switch size {
	case 1:
		all = append(all,
			ratio("A single transfer is quicker the larger the chunk (client, 512 over 64 KiB)", linuxTime(published.Client, false, 1, 64)/linuxTime(published.Client, false, 1, 512), of(shapeClient, false, 512), of(shapeClient, false, 64)),
			ratio("The same in bindings mode", linuxTime(published.Bindings, false, 1, 64)/linuxTime(published.Bindings, false, 1, 512), of(shapeBindings, false, 512), of(shapeBindings, false, 64)),
			best("The best chunk of ten client transfers at once", "KiB", 256, matrixChunks, func(v int) float64 { return of(shapeClient, true, v) }))
		w := linuxWork(shapeClient, false, 1, 256)
		all = append(all, ratio("The receiver uses more processor time than the sender (client, single, 256 KiB)", 14.97/4.1, d.cost(w, RoleDestination), d.cost(w, RoleSource)))
	case 10:
		all = append(all, ratio("Ten client transfers take the same time with any chunk from 128 KiB (512 over 128)", linuxTime(published.Client, true, 10, 128)/linuxTime(published.Client, true, 10, 512), of(shapeClient, true, 512), of(shapeClient, true, 128)))
	case 100:
		all = append(all,
			best("The best chunk of a single bindings transfer is 256 KiB or less", "KiB", 256, matrixChunks, func(v int) float64 { return of(shapeBindings, false, v) }),
			best("The best chunk of ten client transfers is 256 KiB or less", "KiB", 128, matrixChunks, func(v int) float64 { return of(shapeClient, true, v) }))
		busy := func(chunk int) float64 { return d.cost(linuxWork(shapeClient, true, 100, chunk), RoleManager) }
		all = append(all, ratio("A busier queue manager makes ten client transfers no quicker (rate with 512 over 64 KiB; its processor time there is 1.32 times as much)",
			linuxTime(published.Client, true, 100, 64)/linuxTime(published.Client, true, 100, 512), of(shapeClient, true, 512), of(shapeClient, true, 64)),
			ratio("The queue manager works more for larger chunks (512 over 64 KiB)", 36.39/27.51*31.49/30.11, busy(512), busy(64)))
	}
	return all
}

func (d *drafter) linuxComparison(size int) (all []Conclusion) {
	quickest := func(mode published.Mode, ten bool) (seconds float64) {
		for _, chunk := range matrixChunks {
			if s := linuxTime(mode, ten, size, chunk); seconds == 0 || s < seconds {
				seconds = s
			}
		}
		return seconds
	}
	rate := func(shape string, ten bool) (most float64) {
		for _, chunk := range matrixChunks {
			most = max(most, d.rate(linuxWork(shape, ten, size, chunk)))
		}
		return most
	}
	all = append(all,
		ratio("Ten client transfers are the quickest scenario (over ten in bindings mode, the best chunk of each)", quickest(published.Bindings, true)/quickest(published.Client, true), rate(shapeClient, true), rate(shapeBindings, true)),
		ratio("Ten client transfers over a single one", quickest(published.Client, false)/quickest(published.Client, true), rate(shapeClient, true), rate(shapeClient, false)),
		ratio("Single transfers in bindings and in client mode take about the same time (bindings over client)", quickest(published.Client, false)/quickest(published.Bindings, false), rate(shapeBindings, false), rate(shapeClient, false)))
	if size == 100 {
		all = append(all, ratio("With chunks of 512 KiB ten transfers in bindings and in client mode are almost identical (client over bindings)", linuxTime(published.Bindings, true, 100, 512)/linuxTime(published.Client, true, 100, 512),
			d.rate(linuxWork(shapeClient, true, 100, 512)), d.rate(linuxWork(shapeBindings, true, 100, 512))))
	}
	return all
}

func (d *drafter) linuxAdvice() []Conclusion {
	w := func(ten bool, size int) float64 { return d.rate(linuxWork(shapeClient, ten, size, 256)) }
	return []Conclusion{
		ratio("Large numbers of files go quicker over several transfers than over one (client, files of 1 MB)", 86.87/50.7, w(true, 1), w(false, 1)),
		ratio("Many small files cost more than few large ones (files of 100 MB over files of 1 MB, client, single)", 86.87/48.85, w(false, 100), w(false, 1)),
	}
}
