package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ferry/bench/published"
)

// A Document has the chapters of IBM's five reports, in their order, with their tables and charts. Each table has IBM's
// figure, Ferry's and the ratio of both.
type Document struct {
	V        int       `json:"v"`
	Host     Host      `json:"host"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Commit   string    `json:"ferry"`    // version of the measured program
	Measured bool      `json:"measured"` // false in the short form: it has every table, and no figure of Ferry
	Rounds   int       `json:"rounds"`
	Parts    []Part    `json:"parts"`
}

// documentVersion is the version of a document in JSON.
const documentVersion = 1

// A Part is one report.
type Part struct {
	Title    string    `json:"title"`
	Chapters []Chapter `json:"chapters"`
}

// A Chapter is a section of a report under its number and name.
type Chapter struct {
	Title       string       `json:"title"`
	Tables      []Table      `json:"tables,omitempty"`
	Charts      []Chart      `json:"charts,omitempty"`
	Conclusions []Conclusion `json:"conclusions,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
}

// The verdicts about a conclusion of a report.
const (
	Holds       = "holds"
	HoldsNot    = "holds not"
	Reversed    = "reversed"
	NotMeasured = "not measured"
)

// A Conclusion is a statement of a report, with the verdict about it here and the figures of both.
type Conclusion struct {
	Statement string `json:"statement"`
	Theirs    string `json:"there"`
	Ours      string `json:"here"`
	Verdict   string `json:"verdict"`
}

// A work is one measurement that the document needs: data, and the way of its transfer. Equal works are measured
// once.
type work struct {
	shape      string // of the network
	flags      string // more flags of both agents
	processors int    // of all processes together; 0: all
	text       pages  // zero: binary
	route      string // of record files; empty: plain files
	prose      bool   // binary data that can be compressed
	checksum   string // empty: Ferry's default
	atOnce     int    // transfers
	spread     bool   // atOnce shares of all files, not one for each part
	fileMB     int
	chunkKiB   int // 0: the default, and so are the next three
	window     int
	frame      int
	checkpoint int
	compress   string
	stored     bool
	peer       string // the program of a peer in place of Ferry; "md5sum", "vsftpd + curl, get" …
}

// The shapes of networks.
const (
	shapeClient   = "client"
	shapeBindings = "bindings"
	shapeCluster  = "cluster"
)

func (w work) name() string {
	if w.peer != "" {
		return fmt.Sprintf("%s, %d MB files, %s", w.peer, w.fileMB, w.text.name())
	}
	all := []string{w.shape, w.text.name(), fmt.Sprintf("%d MB files", w.fileMB), fmt.Sprintf("%d at once", w.atOnce)}
	add := func(is bool, format string, value any) {
		if is {
			all = append(all, fmt.Sprintf(format, value))
		}
	}
	add(w.route != "", "%s", w.route)
	add(w.checksum != "", "%s", w.checksum)
	add(w.chunkKiB > 0, "chunk %d KiB", w.chunkKiB)
	add(w.window > 0, "window %d", w.window)
	add(w.frame > 0, "frame %d", w.frame)
	add(w.checkpoint > 0, "checkpoint %d", w.checkpoint)
	add(w.compress != "", "compress %s", w.compress)
	add(w.stored, "%s", "stored")
	add(w.processors > 0, "%d processors", w.processors)
	add(w.flags != "", "%s", w.flags)
	return strings.Join(all, ", ")
}

// A drafter makes the document. The first draft collects the works; the second one has their series.
type drafter struct {
	wanted   []work
	measured map[work]Series
	crowd    map[[2]int]Series // by number of agents and size of files
	stalls   []Series          // of the technote's exchange
	cores    int
}

// of returns the series of a work, and asks for it.
func (d *drafter) of(w work) Series {
	if w.atOnce == 0 {
		w.atOnce = 1
	}
	if !slices.Contains(d.wanted, w) {
		d.wanted = append(d.wanted, w)
	}
	if s, ok := d.measured[w]; ok {
		return s
	}
	return Series{Case: w.name(), Lacks: NotMeasured}
}

// rate returns the median rate of a work; 0: it was not measured.
func (d *drafter) rate(w work) float64 {
	if s := d.of(w); s.Lacks == "" {
		return s.Rate().Median
	}
	return 0
}

// cost returns the processor time of a work, of some roles together, in µs for each 1,000 bytes; 0: it was not measured.
func (d *drafter) cost(w work, roles ...Role) float64 {
	s := d.of(w)
	if s.Lacks != "" || len(s.Samples) == 0 {
		return 0
	}
	sum := 0.0
	for _, r := range roles {
		sum += s.CPUPerKB(r).Median
	}
	return sum
}

// share returns the processor time of a role as a part of all processors of the host while a work ran, in percent.
func (d *drafter) share(s Series, r Role) Cell {
	if s.Lacks != "" {
		return Cell{}
	}
	return Of(s.Figure(func(x Sample) float64 {
		b, _ := Busy(x.CPU[r], x.Wall, max(d.cores, 1))
		return b
	}))
}

// theirs returns a cell with a published percentage.
func theirs(v float64) Cell {
	if v == published.NotMeasured {
		return Text("none")
	}
	return One(v)
}

// rateCells returns Ferry's rate, and its ratio to a published one.
func rateCells(s Series, publishedRate float64) []Cell {
	ours := s.Cell(s.Rate())
	if s.Lacks != "" || publishedRate <= 0 || len(s.Samples) == 0 {
		return []Cell{ours, Text("%s", orNone(s.Lacks))}
	}
	return []Cell{ours, One(s.Rate().Median / publishedRate)}
}

func orNone(lacks string) string {
	if lacks == "" {
		return "none"
	}
	return NotMeasured
}

// verdict compares two effects, each a ratio: 1 is no effect. ours is 0 if it was not measured.
func verdict(theirs, ours float64) string {
	if ours <= 0 || math.IsNaN(ours) || math.IsInf(ours, 0) {
		return NotMeasured
	}
	t, o := math.Log(theirs), math.Log(ours)
	const small, near, none = 0.1, 0.15, 0.05
	switch {
	case math.Abs(t) < small && math.Abs(o) < near:
		return Holds
	case math.Abs(t) < small:
		return HoldsNot
	case t*o > 0 && math.Abs(o) >= math.Abs(t)/2:
		return Holds
	case t*o < 0 && math.Abs(o) > none:
		return Reversed
	}
	return HoldsNot
}

// ratio returns the conclusion about an effect that is a ratio of two figures.
func ratio(statement string, theirs, over, under float64) Conclusion {
	ours := 0.0
	if over > 0 && under > 0 {
		ours = over / under
	}
	c := Conclusion{Statement: statement, Theirs: fmt.Sprintf("%.2f times", theirs), Ours: NotMeasured, Verdict: verdict(theirs, ours)}
	if c.Verdict != NotMeasured {
		c.Ours = fmt.Sprintf("%.2f times", ours)
	}
	return c
}

// best returns the conclusion about the value of a setting that moves most. It holds if the best value here is at most
// twice and at least half of theirs, or no more than 3 percent slower there.
func best(statement, unit string, theirs int, values []int, rate func(int) float64) Conclusion {
	c := Conclusion{Statement: statement, Theirs: fmt.Sprintf("%d %s", theirs, unit), Ours: NotMeasured, Verdict: NotMeasured}
	most, at := 0.0, 0
	for _, v := range values {
		r := rate(v)
		if r <= 0 {
			return c
		}
		if r > most {
			most, at = r, v
		}
	}
	c.Ours = fmt.Sprintf("%d %s", at, unit)
	c.Verdict = HoldsNot
	if near := rate(theirs); at >= (theirs+1)/2 && at <= 2*theirs || near >= 0.97*most {
		c.Verdict = Holds
		c.Ours += fmt.Sprintf(", with %.2f of that rate at %d", near/most, theirs)
	}
	return c
}

// absent returns the conclusion about a function that has no counterpart here.
func absent(statement, theirs string) Conclusion {
	return Conclusion{Statement: statement, Theirs: theirs, Ours: NoCounterpart, Verdict: NotMeasured}
}

// draft makes the whole document.
func (d *drafter) draft() []Part {
	return []Part{
		{"WebSphere MQ File Transfer Edition for Linux V7.0.1, 2009", d.linuxReport()},
		{"WebSphere MQ File Transfer Edition V7.0.1 for System z, 2009", d.zosReport()},
		{"IBM MQ 9.0.5 Managed File Transfer for Windows, 2018", d.windowsReport()},
		{"IBM MQ 9.0.5 Managed File Transfer, number of agents, 2018", d.agentsReport()},
		{"Technote: performance after an upgrade on AIX", d.technote()},
	}
}

// newDrafter returns a drafter without measurements.
func newDrafter(cores int) *drafter {
	return &drafter{measured: map[work]Series{}, crowd: map[[2]int]Series{}, cores: cores}
}

// ShortDocument returns the document with every table, and without any figure of Ferry.
func ShortDocument(host Host, now time.Time) *Document {
	return &Document{V: documentVersion, Host: host, Started: now.UTC(), Commit: host.Version, Parts: newDrafter(host.Cores).draft()}
}

// Tables returns the number of tables, charts and conclusions.
func (doc *Document) Tables() (tables, charts, conclusions int) {
	for _, p := range doc.Parts {
		for _, c := range p.Chapters {
			tables, charts, conclusions = tables+len(c.Tables), charts+len(c.Charts), conclusions+len(c.Conclusions)
		}
	}
	return tables, charts, conclusions
}
