package bench

import (
	"fmt"
	"slices"
	"strings"

	"ferry/bench/published"
)

// of returns the series with a name.
func (t *textRun) of(name string) Series {
	if s := named(t.series, name); len(s) == 1 {
		return s[0]
	}
	return Series{Case: name, Lacks: "it was not run"}
}

func (t *textRun) report(size int64) *Report {
	r := &Report{}
	for _, lane := range textLanes {
		r.Tables = append(r.Tables, t.table(lane))
		r.Charts = append(r.Charts, t.chart(lane))
	}

	r.Tables = append(r.Tables, t.converterTable(), t.besideTable())
	r.Charts = append(r.Charts, t.besideChart())
	t.bars(r)
	r.Note("The text has %.0f MB (10^6 bytes) in UTF-8: lines of 40 to 80 characters as reports of mainframes have them, some with letters beyond ASCII. In IBM-1047 it has the same lines, and %.1f %% fewer bytes, since such a letter is one byte there; rates are those of the source's bytes.",
		float64(size)/1e6, 100*(1-float64(t.whole.sets[FormEBCDIC].Bytes())/float64(size)))
	r.Note("All is on memory, durability process, checksum xxh3. The digest that every copy is held to was reckoned from the lines, by nothing that converts files.")
	r.Note("FTP's ASCII mode changes line ends alone: LF becomes CR LF on the way, and LF again at the other end; Ferry's rows beside it change the code page, too. vsftpd changes to ASCII mode only where it is configured to, as here; otherwise it says so and goes on in binary.")
	least, most := published.TextRatios(published.Client)
	leastB, mostB := published.TextRatios(published.Bindings)
	r.Note("In the Windows report, text took %.2f to %.2f times as long as binary in client mode and %.2f to %.2f times in bindings mode, from one host with Windows to another.", least, most, leastB, mostB)
	r.Note("A peer's time is from the start of its client's process to its end; Ferry's is from before the request is handed over until the submitter knows the end, by agents that were connected already.")
	return r
}

// table returns the cases of a lane.
func (t *textRun) table(lane Lane) Table {
	tab := Table{Title: "Text over binary, " + lane.Name, Columns: append([]Column{{Name: "what"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"},
		{Name: "time over binary", Digits: 2}, {Name: "CPU destination over CPU source", Digits: 2}}, useColumns()...)}
	for i, c := range slices.Concat(textCases, turnCases) {
		s, binary := t.of(onLane(c.name, lane)), t.of(onLane(caseBinary, lane))
		if c.halves > 0 {
			binary = t.of(onLane(caseTwoBinary, lane))
		} else if i >= len(textCases) {
			binary = t.of(onLane(caseTurnBinary, lane))
		}
		row := []Cell{Text("%s", c.name), s.Cell(s.Wall()), Of(s.Rate()), overCell(s.Wall(), binary.Wall()), overCell(s.CPU(RoleDestination), s.CPU(RoleSource))}
		tab.Add(append(row, useCells(s)...)...)
	}
	return tab
}

// overCell returns one median over another, or an empty cell if there is none.
func overCell(over, under Figure) Cell {
	if over.Rounds == 0 || under.Median == 0 {
		return Cell{}
	}
	return One(over.Median / under.Median)
}

func (t *textRun) chart(lane Lane) Chart {
	c := Chart{Title: "Text and binary, " + lane.Name, Kind: Bars, X: "what", Y: "MB/s", Lines: []Line{{Name: "rate"}}}
	for _, x := range textCases {
		if s := t.of(onLane(x.name, lane)); len(s.Samples) > 0 {
			c.Lines[0].Points = append(c.Lines[0].Points, At(float64(len(c.Categories)), s.Rate()))
			c.Categories = append(c.Categories, x.name)
		}
	}
	return c
}

func (t *textRun) converterTable() Table {
	tab := Table{Title: "The converter by itself, in one goroutine, 256 KiB at a time", Columns: []Column{{Name: "what"}, {Name: "rate", Unit: "MB/s"}}}
	for _, p := range converterPages {
		s := t.of(converterCase(p))
		tab.Add(Text("%s", strings.TrimPrefix(s.Case, "converter: ")), s.Cell(s.Rate()))
	}
	return tab
}

// besides returns the cases beside FTP, in the order of the table.
func besides() (names []string) {
	for _, lane := range textLanes {
		names = append(names, onLane(caseToUTF8, lane), onLane(caseToEBCDIC, lane), onLane(caseCRLF, lane))
	}
	return append(names, ftpCases...)
}

// ftpCases are the names of the cases of FTP's ASCII mode.
var ftpCases = []string{"vsftpd + curl --use-ascii, get", "vsftpd + curl --use-ascii, put"}

func (t *textRun) besideTable() Table {
	tab := Table{Title: "Text through Ferry, and FTP's ASCII mode", Columns: []Column{{Name: "with"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"},
		{Name: "CPU of sender and receiver", Unit: "s", Digits: 2}, {Name: "CPU beside them", Unit: "s", Digits: 2}}}
	for _, name := range besides() {
		s := t.of(name)
		tab.Add(Text("%s", name), s.Cell(s.Wall()), Of(s.Rate()), Of(sumCPU(s, RoleSource, RoleDestination, RoleClient, RoleServer)), Of(sumCPU(s, RoleManager, RoleCoordination)))
	}
	return tab
}

func (t *textRun) besideChart() Chart {
	var all []Series
	for _, name := range besides() {
		all = append(all, t.of(name))
	}
	return peerChart("Text through Ferry, and FTP's ASCII mode", all)
}

// Limits of text over binary, by lane: the greatest ratio, and the aim.
var textLimits = map[Lane][2]float64{QueueLane: {1.3, 1.1}, DirectPlain: {1.8, 1.3}}

// bars adds the bars that the scenario decides.
func (t *textRun) bars(r *Report) {
	for _, lane := range textLanes {
		limit, binary := textLimits[lane], t.of(onLane(caseBinary, lane))
		for _, name := range []string{caseToUTF8, caseToEBCDIC} {
			r.Bars = append(r.Bars, ratioBar(fmt.Sprintf("%s: time over that of binary, %s", name, lane.Name), t.of(onLane(name, lane)), binary, limit[0], limit[1]))
		}
		r.Bars = append(r.Bars, ratioBar("text without a change: time over that of binary, "+lane.Name, t.of(onLane(caseTurnText, lane)), t.of(onLane(caseTurnBinary, lane)), 1.05, 1))
	}

	for _, lane := range textLanes {
		r.Bars = append(r.Bars, rateBar("two text transfers at once: rate over that of one binary transfer, "+lane.Name, t.of(onLane(caseTwoAtOnce, lane)), []Series{t.of(onLane(caseTwoBinary, lane))}, 1, 1.1))
	}

	for _, p := range converterPages[:2] {
		name := converterCase(p) + ", one processor"
		if s := t.of(converterCase(p)); len(s.Samples) > 0 {
			r.Bars = append(r.Bars, AtLeast(name, "MB/s", s.Rate().Median, 1000, 2000))
		} else {
			r.Bars = append(r.Bars, AtLeast(name, "MB/s", 0, 1000, 2000).Lacking("it was not run"))
		}
	}

	for _, lane := range textLanes {
		r.Bars = append(r.Bars, rateBar(caseToUTF8+": rate over that of FTP's ASCII mode, "+lane.Name, t.of(onLane(caseToUTF8, lane)), named(t.series, ftpCases...), 1, 1.5))
	}

	r.Bars = append(r.Bars, peakBar(t.series))
}
