package bench

import (
	"fmt"
	"slices"

	"ferry/bench/published"
)

func kindText(text, md5 bool) string {
	s := "binary mode"
	if text {
		s = "text mode"
	}
	if md5 {
		s += " with MD5 checksum"
	}
	return s
}

// windowsReport returns the chapters of the report for Windows: a section for each mode, chunk and kind of data, and the
// summaries.
func (d *drafter) windowsReport() (all []Chapter) {
	sections := []string{}
	of := map[string][]published.Cell{}
	for _, c := range published.Find(published.Like{Source: published.Windows}) {
		if of[c.Section] == nil {
			sections = append(sections, c.Section)
		}
		of[c.Section] = append(of[c.Section], c)
	}
	figure := 0
	for _, section := range sections {
		cells := of[section]
		first := cells[0]
		c := Chapter{Title: fmt.Sprintf("%s %s, chunk %d KiB, %s", section, first.Mode, first.ChunkKiB, kindText(first.Text, first.MD5))}
		title := "2048 MB"
		if first.Table != "" {
			title = first.Table + ": 2048 MB"
		}
		t := Table{Title: title, Columns: append([]Column{{Name: "transfers"}, {Name: "file", Unit: "MB"}}, append(cellColumns(), Column{Name: "coordination there", Unit: "%", Digits: 1}, Column{Name: "here", Unit: "%", Digits: 1})...)}
		var rows []string
		for _, x := range cells {
			row := append([]Cell{Text("%s", transfersText(x.Transfers == published.Ten)), One(float64(x.FileMB))}, d.cellRow(x)...)
			t.Add(append(row, theirs(x.Coordinator), d.share(d.of(workOf(x)), RoleCoordination))...)
			rows = append(rows, fmt.Sprintf("%s, %d MB", transfersText(x.Transfers == published.Ten), x.FileMB))
		}
		c.Tables = []Table{t}
		if first.Text && !first.MD5 { // the report has a figure for each size of chunk
			figure++
			c.Charts = []Chart{{Title: fmt.Sprintf("Figure %d: chunk %d KiB, %s mode, text", figure, first.ChunkKiB, first.Mode), Kind: Bars, X: "transfers and files", Y: "MB/s", Categories: rows, Lines: d.rateLines("", cells)}}
		}
		all = append(all, c)
	}
	all = append(all, d.windowsSummary(published.Bindings, "2.1.3 Test summary for bindings mode"), d.windowsSummary(published.Client, "2.2.5 Test summary for client mode"))
	return append(all, Chapter{Title: "3.3 Transfer recommendations", Conclusions: d.windowsAdvice()})
}

// windowsSummary returns the best chunk of each row, there and here.
func (d *drafter) windowsSummary(mode published.Mode, title string) Chapter {
	c := Chapter{Title: title}
	t := Table{Title: "The quickest size of chunk of each row", Columns: []Column{{Name: "data"}, {Name: "transfers"}, {Name: "file", Unit: "MB"}, {Name: "best chunk there", Unit: "KiB"}, {Name: "rate there", Unit: "MB/s", Digits: 1},
		{Name: "best chunk here", Unit: "KiB"}, {Name: "rate here", Unit: "MB/s"}, {Name: "ratio", Digits: 1}}}
	for _, b := range published.WindowsBest() {
		if b.Mode != mode {
			continue
		}
		there := 2048 / b.Seconds
		var most Series
		chunk := 0
		for _, k := range matrixChunks {
			s := d.of(workOf(published.Cell{Mode: mode, Text: b.Text, MD5: b.MD5, Transfers: b.Transfers, FileMB: b.FileMB, ChunkKiB: k}))
			if chunk == 0 || s.Lacks == "" && s.Rate().Median > most.Rate().Median {
				most, chunk = s, k
			}
		}
		here := Text(NotMeasured)
		if most.Lacks == "" {
			here = One(float64(chunk))
		}
		row := []Cell{Text("%s", kindText(b.Text, b.MD5)), Text("%s", transfersText(b.Transfers == published.Ten)), One(float64(b.FileMB)), One(float64(b.ChunkKiB)), One(there), here}
		t.Add(append(row, rateCells(most, there)...)...)
	}
	c.Tables, c.Conclusions = []Table{t}, d.windowsConclusions(mode)
	return c
}

// windowsPair returns the mean ratio of two kinds of cells, there and here. Here it is 0 unless all are measured.
func (d *drafter) windowsPair(like published.Like, other func(published.Cell) published.Cell) (there, over, under float64) {
	n := 0
	for _, c := range published.Find(like) {
		o := other(c)
		match := published.Find(published.Like{Source: published.Windows, Mode: o.Mode, Kind: true, Text: o.Text, MD5: o.MD5, Transfers: o.Transfers, FileMB: o.FileMB, ChunkKiB: o.ChunkKiB})
		if len(match) != 1 {
			continue
		}
		a, b := d.rate(workOf(c)), d.rate(workOf(match[0]))
		if there += match[0].Seconds / c.Seconds; a > 0 && b > 0 {
			over, under, n = over+a/b, under+1, n+1
		} else {
			n = -1 << 30
		}
	}
	if all := len(published.Find(like)); all > 0 {
		there /= float64(all)
	}
	if n <= 0 {
		return there, 0, 0
	}
	return there, over, under
}

func (d *drafter) windowsConclusions(mode published.Mode) (all []Conclusion) {
	add := func(statement string, like published.Like, other func(published.Cell) published.Cell) {
		like.Source, like.Mode = published.Windows, mode
		there, over, under := d.windowsPair(like, other)
		all = append(all, ratio(statement, there, over, under))
	}
	add("Binary mode over text mode, without a checksum, all rows", published.Like{Kind: true}, func(c published.Cell) published.Cell { c.Text = true; return c })
	add("Without a checksum over MD5, binary mode, all rows", published.Like{Kind: true}, func(c published.Cell) published.Cell { c.MD5 = true; return c })
	for _, size := range matrixSizes {
		add(fmt.Sprintf("Ten at once over a single transfer, binary mode, files of %d MB", size), published.Like{Kind: true, Transfers: published.Ten, FileMB: size}, func(c published.Cell) published.Cell {
			c.Transfers = published.Single
			return c
		})
	}
	add("Files of 100 MB over files of 1 MB, single, binary mode", published.Like{Kind: true, Transfers: published.Single, FileMB: 100}, func(c published.Cell) published.Cell { c.FileMB = 1; return c })
	if mode == published.Bindings {
		add("Bindings mode over client mode, binary mode, all rows", published.Like{Kind: true}, func(c published.Cell) published.Cell { c.Mode = published.Client; return c })
	}
	for _, b := range published.WindowsBest() {
		if b.Mode == mode && !b.Text && !b.MD5 && slices.Contains([]int{1, 100}, b.FileMB) {
			all = append(all, best(fmt.Sprintf("The best chunk, binary mode, %s, files of %d MB", transfersText(b.Transfers == published.Ten), b.FileMB), "KiB", b.ChunkKiB, matrixChunks, func(v int) float64 {
				return d.rate(workOf(published.Cell{Mode: mode, Transfers: b.Transfers, FileMB: b.FileMB, ChunkKiB: v}))
			}))
		}
	}
	return all
}

func (d *drafter) windowsAdvice() []Conclusion {
	there, over, under := d.windowsPair(published.Like{Source: published.Windows, Kind: true, Transfers: published.Ten, FileMB: 1}, func(c published.Cell) published.Cell { c.Transfers = published.Single; return c })
	return []Conclusion{ratio("Large numbers of files go quicker over several transfers than over one (files of 1 MB, binary, both modes)", there, over, under)}
}

// agentsReport returns the chapters of the report about many agents.
func (d *drafter) agentsReport() (all []Chapter) {
	machine := func(s Series, r Role) Cell { return d.share(s, r) }
	rows := published.AgentRows()
	for _, p := range rows {
		s := d.agents(p.Agents, p.FileMB)
		c := Chapter{Title: fmt.Sprintf("%s %d agents, each transfer %d MB", p.Section, p.Agents, 10*p.FileMB)}
		t := Table{Title: fmt.Sprintf("%d parallel transfers, %d files", p.Transfers, p.Files), Columns: []Column{{Name: "figure"}, {Name: "there", Digits: 2}, {Name: "here", Digits: 2}, {Name: "ratio", Digits: 3}}}
		add := func(name string, there float64, here Cell) {
			r := Text(NotMeasured)
			if here.Figure != nil && there > 0 {
				r = One(here.Figure.Median / there)
			}
			if s.Lacks != "" {
				here = Text(NotMeasured)
			}
			t.Add(Text("%s", name), One(there), here, r)
		}
		add("agents' queue manager, processors busy, %", p.Manager, machine(s, RoleManager))
		add("coordination queue manager, processors busy, %", p.Coordinator, machine(s, RoleCoordination))
		add("average time of a transfer, s", p.AverageSeconds, s.Cell(s.Extra(extraAverage)))
		for n, v := range p.Sources {
			add(fmt.Sprintf("source machine %d, processors busy, %% (here: all sources together)", n+1), v, machine(s, RoleSource))
		}
		for n, v := range p.Destinations {
			add(fmt.Sprintf("destination machine %d, processors busy, %% (here: all destinations together)", n+1), v, machine(s, RoleDestination))
		}
		c.Tables = []Table{t}
		all = append(all, c)
	}
	for n, size := range crowdSizes {
		all = append(all, d.agentsSummary(fmt.Sprintf("3.%d %d MB multiagent transfers", n+1, 10*size), size))
	}
	return all
}

// agents returns the series of a number of agents.
func (d *drafter) agents(n, fileMB int) Series {
	if s, ok := d.crowd[[2]int{n, fileMB}]; ok {
		return s
	}
	return Series{Lacks: NotMeasured}
}

func (d *drafter) agentsSummary(title string, size int) Chapter {
	c := Chapter{Title: title}
	t := Table{Title: title[4:], Columns: []Column{{Name: "agents"}, {Name: "queue manager there", Unit: "%", Digits: 1}, {Name: "here", Unit: "%", Digits: 1}, {Name: "coordination there", Unit: "%", Digits: 1}, {Name: "here", Unit: "%", Digits: 1},
		{Name: "average time there", Unit: "s", Digits: 2}, {Name: "here", Unit: "s", Digits: 2}, {Name: "ratio", Digits: 3}}}
	chart := Chart{Title: "Average time of a transfer, " + title[4:], Kind: Lines, X: "agents", Y: "s"}
	there, here := Line{Name: "IBM"}, Line{Name: "Ferry"}
	average := func(n int) float64 { return d.agents(n, size).Extra(extraAverage).Median }
	cpu := func(n int, r Role) float64 {
		if cell := d.share(d.agents(n, size), r); cell.Figure != nil {
			return cell.Figure.Median
		}
		return 0
	}
	rows := map[int]published.AgentRow{}
	for _, p := range published.AgentRows() {
		if p.FileMB != size {
			continue
		}
		rows[p.Agents] = p
		s := d.agents(p.Agents, size)
		there.Points = append(there.Points, Point{X: float64(p.Agents), Y: p.AverageSeconds})
		ratio := Text(NotMeasured)
		if s.Lacks == "" {
			here.Points = append(here.Points, At(float64(p.Agents), s.Extra(extraAverage)))
			ratio = One(average(p.Agents) / p.AverageSeconds)
		}
		t.Add(One(float64(p.Agents)), One(p.Manager), d.share(s, RoleManager), One(p.Coordinator), d.share(s, RoleCoordination), One(p.AverageSeconds), s.Cell(s.Extra(extraAverage)), ratio)
	}
	chart.Lines = []Line{there}
	if len(here.Points) > 0 {
		chart.Lines = append(chart.Lines, here)
	}
	few, many := rows[100], rows[500]
	c.Tables, c.Charts = []Table{t}, []Chart{chart}
	c.Conclusions = []Conclusion{
		ratio("The average time of a transfer grows with the number of agents (500 over 100)", many.AverageSeconds/few.AverageSeconds, average(500), average(100)),
		ratio("The agents' queue manager is a little busier with more agents (500 over 100)", many.Manager/few.Manager, cpu(500, RoleManager), cpu(100, RoleManager)),
		ratio("The coordination queue manager is busier with more agents (500 over 100)", many.Coordinator/few.Coordinator, cpu(500, RoleCoordination), cpu(100, RoleCoordination)),
		ratio("Coordination works less than the agents' queue manager (500 agents)", many.Coordinator/many.Manager, cpu(500, RoleCoordination), cpu(500, RoleManager)),
	}
	return c
}
