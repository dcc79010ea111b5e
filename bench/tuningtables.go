package bench

import (
	"fmt"
	"strings"
)

func (t *tuning) report() *Report {
	r := &Report{}
	choice := Table{Title: "Best settings here", Columns: []Column{{Name: "setting"}, {Name: "lane"}, {Name: "choice"}, {Name: "default"},
		{Name: "gain over the default", Unit: "%", Digits: 1}, {Name: "files", Unit: "MB"}}}
	var details []Table
	for _, s := range sweeps() {
		for _, lane := range tuningLanes {
			if why := t.lacks(s, lane); why != "" {
				choice.Add(Text("%s", s.name), Text("%s", lane.Name), Text("%s", why), Cell{}, Cell{}, Cell{})
				continue
			}
			if !s.confined {
				choice.Add(t.choose(s, lane)...)
			}
			r.Charts = append(r.Charts, t.chart(s, lane, "Rate", "MB/s", Series.Rate))
			if s.confined || s.name == "frame" || s.atOnce {
				r.Charts = append(r.Charts, t.chart(s, lane, "Cost", "µs/KB, all processes", costPerKB))
			}
		}
		details = append(details, t.table(s))
	}

	r.Tables = append([]Table{choice, t.beside()}, details...)
	var all []Series
	for _, x := range t.trials {
		all = append(all, x.series)
	}

	r.Bars = append(r.Bars, peakBar(all))
	r.Note("A choice is the value with the highest rate, as a share of the best at each size of file and averaged over the sizes; the default stays where nothing is more than %.0f %% faster. It holds for this host, on memory and over the loopback interface.", 100*choiceMargin)
	r.Note("The charts are those of the z/OS report: processors 14 and 15 (16 and 17 of text), chunk 27, window 28, frame 29 and 30, checkpoint 31, transfers at once 32 (33 of text). It printed them as pictures, without figures.")
	r.Note("Text goes from UTF-8 to IBM-1047, as from Linux to z/OS; its copies are plain files. The scenario record has record files.")
	r.Note("Checkpoints are swept with durability full, everything else with durability process. With fewer processors, all of Ferry's processes share them; the process that measures does not.")
	return r
}

// lacks returns the reason why a sweep has no figures on a lane.
func (t *tuning) lacks(s *sweep, lane Lane) string {
	why := ""
	for _, x := range t.trials {
		if x.sweep.name == s.name && x.lane == lane {
			if x.series.Lacks == "" && x.value != 0 {
				return ""
			}
			if x.series.Lacks != "" {
				why = x.series.Lacks
			}
		}
	}
	return why
}

// choiceMargin is the least improvement over the default, as a share, that justifies another value. Less is within the
// noise of a few rounds.
const choiceMargin = 0.03

// choose returns the row with the choice of a sweep on a lane.
func (t *tuning) choose(s *sweep, lane Lane) []Cell {
	best := map[int]float64{} // rate by size
	var sizes []string
	for _, x := range t.of(s, lane) {
		if best[x.size] == 0 {
			sizes = append(sizes, fmt.Sprint(x.size))
		}
		best[x.size] = max(best[x.size], x.series.Rate().Median)
	}

	score, count := map[int]float64{}, map[int]float64{}
	for _, x := range t.of(s, lane) {
		if best[x.size] > 0 {
			score[x.value] += x.series.Rate().Median / best[x.size]
			count[x.value]++
		}
	}

	chosen, top := s.normal, 0.0
	for _, v := range s.values {
		if count[v] == 0 {
			continue
		}
		if score[v] /= count[v]; score[v] > top {
			chosen, top = v, score[v]
		}
	}

	gain := Cell{}
	if score[s.normal] > 0 {
		if score[s.normal] >= top*(1-choiceMargin) {
			chosen = s.normal
		}
		gain = One(100 * (score[chosen]/score[s.normal] - 1))
	}
	return []Cell{Text("%s", s.name), Text("%s", lane.Name), Text("%s", s.label(chosen)), Text("%s", s.label(s.normal)), gain, Text("%s", strings.Join(sizes, ", "))}
}

// of returns the trials of a sweep on a lane that were run.
func (t *tuning) of(s *sweep, lane Lane) (all []trial) {
	for _, x := range t.trials {
		if x.sweep.name == s.name && x.lane == lane && x.series.Lacks == "" {
			all = append(all, x)
		}
	}
	return all
}

// costPerKB returns the processor time of all roles in microseconds for each 1,000 bytes.
func costPerKB(s Series) Figure {
	return s.Figure(func(x Sample) float64 {
		var us int64
		for _, r := range FerryRoles {
			us += x.CPU[r].Microseconds()
		}
		return float64(us) / max(1, float64(x.Bytes)/1000)
	})
}

func (t *tuning) chart(s *sweep, lane Lane, what, unit string, of func(Series) Figure) Chart {
	c := Chart{Title: fmt.Sprintf("%s by %s, %s", what, s.name, lane.Name), Kind: Lines, X: s.axis, Y: unit, LogX: s.log}
	if s.names != nil {
		c.Kind, c.Categories = Bars, s.names
	}

	line := map[int]int{}
	for _, x := range t.of(s, lane) {
		i, ok := line[x.size]
		if !ok {
			i = len(c.Lines)
			line[x.size] = i
			c.Lines = append(c.Lines, Line{Name: fmt.Sprintf("%d MB files", x.size)})
		}
		c.Lines[i].Points = append(c.Lines[i].Points, At(float64(x.value), of(x.series)))
	}
	return c
}

func (t *tuning) table(s *sweep) Table {
	tab := Table{Title: "Sweep of " + s.name, Columns: append([]Column{{Name: "lane"}, {Name: "files", Unit: "MB"}, {Name: s.axis}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"}}, useColumns()...)}
	for _, x := range t.trials {
		if x.sweep.name != s.name {
			continue
		}
		value := s.label(x.value)
		if !s.confined && x.value == s.normal {
			value += " (default)"
		}
		row := []Cell{Text("%s", x.lane.Name), One(float64(x.size)), Text("%s", value), x.series.Cell(x.series.Wall()), Of(x.series.Rate())}
		tab.Add(append(row, useCells(x.series)...)...)
	}
	return tab
}
