package bench

import (
	"fmt"

	"ferry/bench/published"
)

// textCells returns the cells of text: from EBCDIC to UTF-8 all that the reports have. The way back and the same page
// have the default chunk and checksum.
func textCells(short bool) (all []cell) {
	chunks, sums := matrixChunks, matrixChecksums
	if short {
		chunks, sums = []int{defaultChunk}, []string{defaultChecksum}
	}

	for _, ten := range []bool{false, true} {
		for _, size := range matrixSizes {
			for _, sum := range sums {
				for _, chunk := range chunks {
					all = append(all, cell{text: toUTF8, ten: ten, size: size, checksum: sum, lane: QueueLane, chunk: chunk})
				}
				all = append(all, cell{text: toUTF8, ten: ten, size: size, checksum: sum, lane: DirectPlain, chunk: defaultChunk})
			}
			for _, text := range []pages{toEBCDIC, samePage} {
				for _, lane := range []Lane{QueueLane, DirectPlain} {
					all = append(all, cell{text: text, ten: ten, size: size, checksum: defaultChecksum, lane: lane, chunk: defaultChunk})
				}
			}
		}
	}
	return all
}

// defaultChecksum is the checksum of a transfer that does not ask for one.
const defaultChecksum = "xxh3"

// reportText adds the tables and charts of text.
func (m *matrix) reportText() {
	for _, ten := range []bool{false, true} {
		for _, sum := range matrixChecksums {
			if t := m.textTable(ten, sum); len(t.Rows) > 0 {
				m.r.Tables = append(m.r.Tables, t)
			}
		}
		m.r.Charts = append(m.r.Charts, m.textChart(ten))
	}
	m.r.Note("Text has lines of 40 to 80 characters, some with letters beyond ASCII; IBM's had random data, and Windows or Linux at both ends, so that no code page had to be changed. The rows from IBM-1047 to UTF-8 stand beside theirs: they do more.")
	m.r.Note("Times of text over binary are those of the cell with the same lane, checksum, size and chunk. The Linux report measured text only, and does not say whether with a checksum; its figures stand beside every checksum.")
}

// textTable returns the text cells of one checksum, single or ten at once.
func (m *matrix) textTable(ten bool, checksum string) Table {
	t := Table{Title: fmt.Sprintf("Text, client mode, %s, checksum %s", transfersText(ten), checksum),
		Columns: append([]Column{{Name: "pages"}, {Name: "file", Unit: "MB"}, {Name: "lane"}, {Name: "chunk", Unit: "KiB"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"},
			{Name: "time over binary", Digits: 2}},
			append(useColumns(), Column{Name: "Windows 9.0.5, client", Unit: "MB/s", Digits: 1}, Column{Name: "times as fast", Digits: 1}, Column{Name: "Windows, time over binary", Digits: 2},
				Column{Name: "Linux 7.0.1, client", Unit: "MB/s", Digits: 1}, Column{Name: "times as fast", Digits: 1})...)}
	for _, c := range m.cells {
		if c.bindings || c.text == binaryData || c.ten != ten || c.checksum != checksum {
			continue
		}
		s := m.series[c.at]
		row := []Cell{Text("%s", c.text.name()), One(float64(c.size)), Text("%s", c.lane.Name), One(float64(c.chunk)), s.Cell(s.Wall()), Of(s.Rate()),
			overCell(s.Wall(), m.of(c.ten, c.size, c.checksum, c.lane, c.chunk).Wall())}
		t.Add(append(append(row, useCells(s)...), publishedText(c, s)...)...)
	}
	return t
}

// publishedText returns the last five columns. Only cells from EBCDIC to UTF-8 on the queue lane have a counterpart in
// a report.
func publishedText(c cell, s Series) []Cell {
	if c.text != toUTF8 || c.lane != QueueLane {
		return []Cell{Text("none"), {}, {}, Text("none"), {}}
	}
	windows, faster := windowsCell(c, s)
	over := Cell{}
	if windows.Figure != nil {
		like := c.like(published.Windows)
		like.Kind, like.Text, like.MD5 = true, true, c.checksum == "md5"
		over = One(published.TextOverBinary(published.Find(like)[0]))
	}
	linux, faster2 := publishedCells(c.like(published.Linux), s)
	return []Cell{windows, faster, over, linux, faster2}
}

// textChart returns the rate of text and of binary by size of file.
func (m *matrix) textChart(ten bool) Chart {
	c := Chart{Title: "Text and binary by size of file, checksum " + defaultChecksum + ", chunk 256 KiB, " + transfersText(ten), Kind: Bars, X: "size of each file", Y: "MB/s"}
	for _, size := range matrixSizes {
		c.Categories = append(c.Categories, fmt.Sprintf("%d MB", size))
	}

	for _, lane := range []Lane{QueueLane, DirectPlain} {
		for _, text := range []pages{binaryData, toUTF8, toEBCDIC, samePage} {
			l := Line{Name: lane.Name + ", " + text.name()}
			for i, size := range matrixSizes {
				if s := m.ofText(text, ten, size, defaultChecksum, lane, defaultChunk); s.Lacks == "" {
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
