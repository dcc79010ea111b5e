package bench

import (
	"fmt"

	"ferry/bench/published"
)

func (r *recordRun) report() *Report {
	out := &Report{}
	for _, lane := range textLanes {
		out.Tables = append(out.Tables, r.table(lane))
	}

	out.Tables = append(out.Tables, r.besides())
	for _, lane := range textLanes {
		for _, text := range []bool{false, true} {
			out.Charts = append(out.Charts, r.chart(lane, text, "Rate", "MB/s", Series.Rate), r.chart(lane, text, "Cost", "µs/KB, all processes", costPerKB))
		}
		out.Charts = append(out.Charts, r.sides(lane))
	}

	var all []Series
	for _, t := range r.trials {
		all = append(all, t.series)
	}

	out.Bars = append(out.Bars, peakBar(all))
	out.Note("Each measurement moves the same text, which has %.0f MB (10^6 bytes) in UTF-8, in files of %s MB; a file of 1 MB has %d bytes there. In records it has other lengths: FB 80 fills up each line, VB puts a descriptor word before it. Rates and costs are by the source's bytes.",
		float64(int64(r.total)*r.unit)/1e6, sizesText(r.sizes), r.unit)
	out.Note("Plain text is in UTF-8, or in IBM-1047 where a plain file is made in text mode of a plain one; records are in IBM-1047. Between record files the code page is the same at both ends: the report's chart 7 shows the cost of that useless step. Binary to VB cuts the bytes into records of 80, binary from VB leaves out the descriptor words.")
	out.Note("All is on memory, durability process, one transfer at a time. The sizes are measured one after the other, the cases of each in interleaved rounds.")
	out.Note("The charts 1, 2 and 4 to 9 of the report are pictures without figures; its statements about them stand in the table beside the figures from here.")
	for _, m := range published.Misprints() {
		if m.Source == published.ZOS && m.Page == 17 {
			out.Note("%s, section %s, prints %q; meant is %s: %s.", m.Source, m.Section, m.Printed, m.Meant, m.Why)
		}
	}
	return out
}

// sizesText returns sizes in words.
func sizesText(sizes []int) (s string) {
	for i, n := range sizes {
		switch {
		case i == 0:
		case i == len(sizes)-1:
			s += " and "
		default:
			s += ", "
		}
		s += fmt.Sprint(n)
	}
	return s
}

// of returns the series of a case.
func (r *recordRun) of(route string, size int, text bool, lane Lane) Series {
	for _, t := range r.trials {
		if t.route.name == route && t.size == size && t.text == text && t.lane == lane {
			return t.series
		}
	}
	return Series{Lacks: "it was not run"}
}

// table returns the cases of a lane.
func (r *recordRun) table(lane Lane) Table {
	t := Table{Title: "Record files and plain ones, " + lane.Name, Columns: append([]Column{{Name: "from and to"}, {Name: "charts of the z/OS report"}, {Name: "files", Unit: "MB"}, {Name: "data"},
		{Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"}, {Name: "time of text over binary", Digits: 2}, {Name: "CPU destination over CPU source", Digits: 2}}, useColumns()...)}
	for _, x := range r.trials {
		if x.lane != lane {
			continue
		}
		over := Cell{}
		if x.text {
			over = overCell(x.series.Wall(), r.of(x.route.name, x.size, false, lane).Wall())
		}
		charts := x.route.charts
		if charts == "" {
			charts = "none"
		}
		s := x.series
		row := []Cell{Text("%s", x.route.name), Text("%s", charts), One(float64(x.size)), Text("%s", dataText(x.text)), s.Cell(s.Wall()), Of(s.Rate()), over,
			overCell(s.CPU(RoleDestination), s.CPU(RoleSource))}
		t.Add(append(row, useCells(s)...)...)
	}
	return t
}

// chart returns a chart with a line for each route, by size of file.
func (r *recordRun) chart(lane Lane, text bool, what, unit string, of func(Series) Figure) Chart {
	c := Chart{Title: fmt.Sprintf("%s, %s, %s", what, dataText(text), lane.Name), Kind: Lines, X: "size of each file, MB", Y: unit, LogX: true}
	for _, route := range routes {
		l := Line{Name: route.name}
		for _, size := range r.sizes {
			if s := r.of(route.name, size, text, lane); len(s.Samples) > 0 {
				l.Points = append(l.Points, At(float64(size), of(s)))
			}
		}
		if len(l.Points) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// sides returns the cost of each side with the largest files, as in the charts 8 and 9.
func (r *recordRun) sides(lane Lane) Chart {
	size := r.sizes[len(r.sizes)-1]
	c := Chart{Title: fmt.Sprintf("Cost by side, files of %d MB, %s", size, lane.Name), Kind: Bars, X: "from and to", Y: "µs/KB"}
	for _, role := range []Role{RoleSource, RoleDestination} {
		for _, text := range []bool{false, true} {
			l := Line{Name: string(role) + ", " + dataText(text)}
			for i, route := range routes {
				if s := r.of(route.name, size, text, lane); len(s.Samples) > 0 {
					l.Points = append(l.Points, At(float64(i), s.CPUPerKB(role)))
				}
			}
			if len(l.Points) > 0 {
				c.Lines = append(c.Lines, l)
			}
		}
	}

	for _, route := range routes {
		c.Categories = append(c.Categories, route.name)
	}
	return c
}

// A recordClaim is a statement of the report about record files, with the computation of the same figure here.
type recordClaim struct {
	id string // for published.Lookup
	of func(r *recordRun, lane Lane) (Figure, bool)
}

// recordClaims are the statements that can be computed.
var recordClaims = []recordClaim{
	{"rate-1MB", recordRate("plain to FB 80", 1)},
	{"rate-large", recordRate("plain to FB 80", 10)},
	{"rate-zos-to-zos", func(r *recordRun, lane Lane) (most Figure, ok bool) {
		for _, size := range r.sizes {
			if s := r.of("FB 80 to FB 80", size, false, lane); len(s.Samples) > 0 && s.Rate().Median > most.Median {
				most, ok = s.Rate(), true
			}
		}
		return most, ok
	}},
	{"binary-receiver-cost", receiverCost(false)},
	{"text-receiver-cost", receiverCost(true)},
}

// recordRate returns the rate of a route in binary mode.
func recordRate(route string, size int) func(*recordRun, Lane) (Figure, bool) {
	return func(r *recordRun, lane Lane) (Figure, bool) {
		s := r.of(route, size, false, lane)
		return s.Rate(), len(s.Samples) > 0
	}
}

// receiverCost returns the processor time of the destination over that of the source between record files: least,
// median and greatest over the sizes.
func receiverCost(text bool) func(*recordRun, Lane) (Figure, bool) {
	return func(r *recordRun, lane Lane) (Figure, bool) {
		var v []float64
		for _, size := range r.sizes {
			s := r.of("FB 80 to FB 80", size, text, lane)
			if source := s.CPU(RoleSource).Median; source > 0 {
				v = append(v, s.CPU(RoleDestination).Median/source)
			}
		}
		return NewFigure(v...), len(v) > 0
	}
}

// besides returns the z/OS report's statements in its text, beside the figures here.
func (r *recordRun) besides() Table {
	t := Table{Title: "Statements of the z/OS report about record files, and the same here",
		Columns: []Column{{Name: "statement"}, {Name: "unit"}, {Name: "published", Digits: 1}}}
	for _, lane := range textLanes {
		t.Columns = append(t.Columns, Column{Name: lane.Name, Digits: 2})
	}

	for _, c := range recordClaims {
		p, ok := published.Lookup(c.id)
		if !ok {
			continue
		}
		theirs := One(p.Value)
		if p.High > 0 {
			theirs = Text("%v to %v", p.Value, p.High)
		}
		row := []Cell{Text("%s", placed(p)), Text("%s", p.Unit), theirs}
		for _, lane := range textLanes {
			if f, ok := c.of(r, lane); ok {
				row = append(row, Of(f))
			} else {
				row = append(row, Text("not measured"))
			}
		}
		t.Add(row...)
	}
	return t
}
