package bench

import (
	"fmt"

	"ferry/bench/published"
)

// A claim is a figure in the z/OS report's text about a setting, with the computation of the same figure here.
type claim struct {
	id string // for published.Lookup
	of func(t *tuning, lane Lane) (v float64, ok bool)
}

// claims are those that can be computed from the sweeps. Small files have 1 MB and large ones 100 MB.
var claims = []claim{
	{"chunk-512-small-files", gain("chunk", 1, 512, 256)},
	{"chunk-best-large-files", quickest("chunk", 100)},
	{"window-40-small-files", gain("window", 1, 40, 10)},
	{"window-best-small-files", quickest("window", 1)},
	{"window-best-large-files", quickest("window", 100)},
	{"frame-best-large-files", quickest("frame", 100)},
	{"checkpoint-8-small-files", saved("checkpoint", 1, 8, 1)},
	{"two-transfers-small-files", gain("transfers at once", 1, 2, 1)},
	{"two-transfers-text", func(t *tuning, lane Lane) (float64, bool) {
		text, ok := t.find("transfers at once, text", lane, 10, 2)
		binary, there := t.find("transfers at once", lane, 10, 1)
		if !ok || !there || binary.Rate().Median == 0 {
			return 0, false
		}
		return text.Rate().Median / binary.Rate().Median, true
	}},
	{"rate-single", func(t *tuning, lane Lane) (most float64, ok bool) {
		for _, x := range t.trials {
			if x.lane == lane && !x.sweep.atOnce && !x.sweep.confined && !x.sweep.text && x.sweep.names == nil && x.series.Rate().Rounds > 0 {
				most, ok = max(most, x.series.Rate().Median), true
			}
		}
		return most, ok
	}},
}

// find returns the series of one trial.
func (t *tuning) find(name string, lane Lane, size, value int) (Series, bool) {
	for _, x := range t.trials {
		if x.sweep.name == name && x.lane == lane && x.size == size && x.value == value && len(x.series.Samples) > 0 {
			return x.series, true
		}
	}
	return Series{}, false
}

// gain returns the advantage in rate of one value over another, in percent.
func gain(name string, size, value, than int) func(*tuning, Lane) (float64, bool) {
	return func(t *tuning, lane Lane) (float64, bool) {
		a, ok := t.find(name, lane, size, value)
		b, there := t.find(name, lane, size, than)
		if !ok || !there || b.Rate().Median == 0 {
			return 0, false
		}
		return 100 * (a.Rate().Median/b.Rate().Median - 1), true
	}
}

// saved returns the processor time that one value saves over another, in microseconds for each 1,000 bytes.
func saved(name string, size, value, than int) func(*tuning, Lane) (float64, bool) {
	return func(t *tuning, lane Lane) (float64, bool) {
		a, ok := t.find(name, lane, size, value)
		b, there := t.find(name, lane, size, than)
		return costPerKB(b).Median - costPerKB(a).Median, ok && there
	}
}

// quickest returns the value with the highest rate. There must be at least two.
func quickest(name string, size int) func(*tuning, Lane) (float64, bool) {
	return func(t *tuning, lane Lane) (best float64, ok bool) {
		most, values := 0.0, 0
		for _, x := range t.trials {
			if x.sweep.name != name || x.lane != lane || x.size != size || len(x.series.Samples) == 0 {
				continue
			}
			values++
			if r := x.series.Rate().Median; r > most {
				best, most = float64(x.value), r
			}
		}
		return best, values > 1
	}
}

// beside returns the z/OS report's statements about settings in its text, beside the figures here.
func (t *tuning) beside() Table {
	tab := Table{Title: "Statements of the z/OS report about its settings, and the same here",
		Columns: []Column{{Name: "statement"}, {Name: "unit"}, {Name: "published", Digits: 1}}}
	for _, lane := range tuningLanes {
		tab.Columns = append(tab.Columns, Column{Name: lane.Name, Digits: 1})
	}

	for _, c := range claims {
		r, ok := published.Lookup(c.id)
		if !ok {
			continue
		}
		row := []Cell{Text("%s", placed(r)), Text("%s", r.Unit), One(r.Value)}
		for _, lane := range tuningLanes {
			if v, ok := c.of(t, lane); ok {
				row = append(row, One(v))
			} else {
				row = append(row, Text("not measured"))
			}
		}
		tab.Add(row...)
	}
	return tab
}

// placed returns a remark with its place.
func placed(r published.Remark) string {
	at := fmt.Sprintf("page %d", r.Page)
	if r.Table != "" {
		at = r.Table + ", " + at
	}
	return r.What + " (" + at + ")"
}
