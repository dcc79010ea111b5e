package bench

import (
	"fmt"

	"ferry/bench/published"
)

// table returns the cells of one checksum, single or ten at once.
func (m *matrix) table(ten bool, checksum string) Table {
	t := Table{Title: fmt.Sprintf("Binary, client mode, %s, checksum %s", transfersText(ten), checksum),
		Columns: append([]Column{{Name: "file", Unit: "MB"}, {Name: "lane"}, {Name: "chunk", Unit: "KiB"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"}},
			append(useColumns(), Column{Name: "Windows 9.0.5, client", Unit: "MB/s", Digits: 1}, Column{Name: "times as fast", Digits: 1})...)}
	for _, c := range m.cells {
		if c.bindings || c.text != binaryData || c.ten != ten || c.checksum != checksum {
			continue
		}
		s := m.series[c.at]
		row := []Cell{One(float64(c.size)), Text("%s", c.lane.Name), One(float64(c.chunk)), s.Cell(s.Wall()), Of(s.Rate())}
		row = append(row, useCells(s)...)
		theirs, faster := windowsCell(c, s)
		t.Add(append(row, theirs, faster)...)
	}
	return t
}

// windowsCell returns IBM's published value for a cell, and the factor by which Ferry was faster. Only the queue lane
// with the same chunk size is the same work.
func windowsCell(c cell, s Series) (theirs, faster Cell) {
	if c.checksum == "xxh3" || c.lane != QueueLane {
		return Text("none"), Cell{}
	}
	like := c.like(published.Windows)
	like.Kind, like.Text, like.MD5 = true, c.text != binaryData, c.checksum == "md5"
	return publishedCells(like, s)
}

// like selects the cells of a report with a cell's size of file, chunk and number of transfers, in client mode.
func (c cell) like(of published.Source) published.Like {
	l := published.Like{Source: of, Mode: published.Client, Transfers: published.Single, FileMB: c.size, ChunkKiB: c.chunk}
	if c.ten {
		l.Transfers = published.Ten
	}
	return l
}

// publishedCells returns a published rate, and a series' rate over it.
func publishedCells(like published.Like, s Series) (theirs, faster Cell) {
	found := published.Find(like)
	if len(found) != 1 {
		return Text("none"), Cell{}
	}
	rate := found[0].Rate()
	if s.Rate().Median == 0 {
		return One(rate), Cell{}
	}
	return One(rate), One(s.Rate().Median / rate)
}

// useColumns returns the columns of processor time and memory by role.
func useColumns() []Column {
	return []Column{{Name: "CPU source", Unit: "s", Digits: 2}, {Name: "CPU destination", Unit: "s", Digits: 2},
		{Name: "CPU queue manager", Unit: "s", Digits: 2}, {Name: "CPU coordination", Unit: "s", Digits: 2},
		{Name: "CPU, all", Unit: "µs/KB", Digits: 3}, {Name: "peak memory of an agent", Unit: "MiB"}}
}

// useCells returns those cells of a series, empty if it has none.
func useCells(s Series) (cells []Cell) {
	for _, r := range FerryRoles {
		cells = append(cells, Of(s.CPU(r)))
	}
	return append(cells, Of(costPerKB(s)), Of(s.Figure(agentPeak)))
}

// agentPeak returns the most memory of an agent in a sample, in MiB.
func agentPeak(x Sample) float64 {
	return float64(max(x.Peak[RoleSource], x.Peak[RoleDestination])) / (1 << 20)
}

// peakBar returns the bar of the memory of agents, over all series of a scenario.
func peakBar(series []Series) Bar {
	var peak float64
	for _, s := range series {
		for _, x := range s.Samples {
			peak = max(peak, agentPeak(x))
		}
	}
	b := AtMost("peak memory of an agent", "MiB", peak, 150, 80)
	if peak == 0 {
		return b.Lacking("no agent was measured")
	}
	return b
}

// ratioBar returns the bar of one median time over another, at most limit. Times are for each byte, because two cases
// may have slightly different files.
func ratioBar(name string, over, under Series, limit, aim float64) Bar {
	for _, s := range []Series{over, under} {
		if s.Lacks != "" {
			return AtMost(name, "", 0, limit, aim).Lacking(s.Lacks)
		}
		if s.Wall().Median == 0 {
			return AtMost(name, "", 0, limit, aim).Lacking("it was not run")
		}
	}
	return AtMost(name, "", under.Rate().Median/over.Rate().Median, limit, aim)
}

// chunkChart returns the rate by size of chunk on the queue lane.
func (m *matrix) chunkChart(ten bool) Chart {
	c := Chart{Title: "Queue lane by size of chunk, checksum xxh3, " + transfersText(ten), Kind: Lines, X: "chunk, KiB", Y: "MB/s", LogX: true}
	for _, size := range matrixSizes {
		l := Line{Name: fmt.Sprintf("%d MB files", size)}
		for _, chunk := range matrixChunks {
			if s := m.of(ten, size, "xxh3", QueueLane, chunk); s.Lacks == "" {
				l.Points = append(l.Points, At(float64(chunk), s.Rate()))
			}
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// sizeChart returns the rate by size of file, for each lane and checksum.
func (m *matrix) sizeChart(ten bool) Chart {
	c := Chart{Title: "By size of file, chunk 256 KiB, " + transfersText(ten), Kind: Bars, X: "size of each file", Y: "MB/s"}
	for _, size := range matrixSizes {
		c.Categories = append(c.Categories, fmt.Sprintf("%d MB", size))
	}

	for _, lane := range []Lane{QueueLane, DirectPlain} {
		for _, sum := range matrixChecksums {
			l := Line{Name: lane.Name + ", " + sum}
			for i, size := range matrixSizes {
				if s := m.of(ten, size, sum, lane, defaultChunk); s.Lacks == "" {
					l.Points = append(l.Points, At(float64(i), s.Rate()))
				}
			}
			if len(l.Points) > 0 {
				c.Lines = append(c.Lines, l)
			}
		}
	}
	return c
}

func dataText(text bool) string {
	if text {
		return "text"
	}
	return "binary"
}

func md5Text(md5 bool) string {
	if md5 {
		return "MD5"
	}
	return "none"
}
