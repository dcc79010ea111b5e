// Package published has IBM's published figures about the product that Ferry re-creates, as data: the measurements,
// their report, page, section and table, and the errors of the reports. The benchmark scenarios show them beside their
// own.
//
// It only has figures that are printed as numbers. Most charts of the z/OS report exist only as pictures; Remarks has
// the statements of its text about them. For a misprint the data have the intended value, and Misprints has the printed
// one.
package published

import "slices"

// A Source is one of the five publications.
type Source string

// The publications.
const (
	// Linux is "WebSphere MQ File Transfer Edition for Linux V7.0.1,
	// Performance Evaluations", version 1.0, November 2009, by R. Cumbers.
	Linux Source = "Linux 7.0.1, 2009"
	// ZOS is "FP11: WebSphere MQ File Transfer Edition V7.0.1 for System Z,
	// Performance Evaluation", December 2009, by T. Sharkey.
	ZOS Source = "z/OS 7.0.1, 2009"
	// Windows is "IBM MQ 9.0.5 Managed File Transfer Performance Report for
	// Windows", V1.0, 2018.
	Windows Source = "Windows 9.0.5, 2018"
	// Agents is "IBM MQ 9.0.5 Managed File Transfer Performance Report for
	// Number of Agents connecting to Agent Queue Manager", August 2018.
	Agents Source = "Windows 9.0.5 agents, 2018"
	// Technote is IBM's "After upgrading WebSphere MQ on AIX, performance
	// decreases when sending messages between different hosts".
	Technote Source = "technote on TCP acknowledgements"
)

// A Place is the place of a statement in a publication. Page is the printed page number from the report's table of
// contents, or 0 if it has none. Table is empty for a table without a number and for running text.
type Place struct {
	Source  Source
	Page    int
	Section string
	Table   string
}

// A Mode is the kind of connection between the agents and their queue managers.
type Mode string

// The modes. Bindings is in the same process as a local queue manager, with two queue managers joined by channels.
// Client is over TCP to one remote queue manager.
const (
	Bindings Mode = "bindings"
	Client   Mode = "client"
)

// The numbers of transfers that share the work and begin together.
const (
	Single = 1
	Ten    = 10
)

// NotMeasured is the CPU of a machine without a part in the measurement.
const NotMeasured = -1

// A Cell is one measured row of the matrix: the same total in files of one size. CPU is the utilisation of a machine in
// percent of all its processors.
type Cell struct {
	Place
	Mode      Mode
	Text      bool // text mode; else binary
	MD5       bool // with MD5 checksum; the Linux report does not say whether its transfers had one
	Transfers int  // Single or Ten
	FileMB    int  // size of each file
	ChunkKiB  int  // agentChunkSize

	TotalMB     float64 // total that the rate refers to
	Seconds     float64
	Mbit        float64 // the printed rate in megabits a second; 0 where the report has none
	Sender      float64 // CPU
	Receiver    float64 // CPU
	Manager     float64 // CPU of the agents' queue manager in client mode, or NotMeasured
	Coordinator float64 // CPU of the coordination queue manager, or NotMeasured
}

// Rate returns the rate in megabytes a second, in the report's megabytes.
func (c Cell) Rate() float64 { return c.TotalMB / c.Seconds }

// Matrix returns every cell of the Linux and of the Windows report: 48 and 192.
func Matrix() []Cell { return append(linuxCells(), windowsCells()...) }

// A Like selects cells. A zero field matches any. Text and MD5 are compared only if Kind is set.
type Like struct {
	Source    Source
	Mode      Mode
	Kind      bool // compare Text and MD5
	Text      bool
	MD5       bool
	Transfers int
	FileMB    int
	ChunkKiB  int
}

// Find returns the matching cells of the matrix, in the order of the reports.
func Find(like Like) []Cell {
	return slices.DeleteFunc(Matrix(), func(c Cell) bool {
		switch {
		case like.Source != "" && like.Source != c.Source,
			like.Mode != "" && like.Mode != c.Mode,
			like.Kind && (like.Text != c.Text || like.MD5 != c.MD5),
			like.Transfers != 0 && like.Transfers != c.Transfers,
			like.FileMB != 0 && like.FileMB != c.FileMB,
			like.ChunkKiB != 0 && like.ChunkKiB != c.ChunkKiB:
			return true
		}
		return false
	})
}

// TextRatios returns the least and the greatest ratio of a mode in the Windows report: the time of a text transfer over
// that of the same binary one.
func TextRatios(m Mode) (least, greatest float64) {
	for _, c := range Find(Like{Source: Windows, Mode: m}) {
		r := TextOverBinary(c)
		if least == 0 || r < least {
			least = r
		}
		greatest = max(greatest, r)
	}
	return least, greatest
}

// TextOverBinary returns the time of a cell's work as text over its time as binary, with all else equal. It is 0 if the
// report has only one of them.
func TextOverBinary(c Cell) float64 {
	like := Like{Source: c.Source, Mode: c.Mode, Kind: true, MD5: c.MD5, Transfers: c.Transfers, FileMB: c.FileMB, ChunkKiB: c.ChunkKiB}
	binary := Find(like)
	like.Text = true
	text := Find(like)
	if len(binary) != 1 || len(text) != 1 {
		return 0
	}
	return text[0].Seconds / binary[0].Seconds
}

// A Best is a row of the Windows report's summaries: the quickest of the four chunk sizes.
type Best struct {
	Place
	Mode      Mode
	Text, MD5 bool
	Transfers int
	FileMB    int
	Seconds   float64
	ChunkKiB  int
}

// An AgentRow is one measured row of the report about many agents. Half of the agents were sources. Each pair ran one
// transfer of ten files in text mode, and all began together. AverageSeconds is the mean time of one transfer, and not
// the time until the last one ended. So it does not give an aggregate rate.
type AgentRow struct {
	Place
	Agents         int
	Transfers      int     // at once
	Files          int     // of all transfers
	FileMB         int     // size of each
	TotalMB        int     // of all transfers
	AverageSeconds float64 // of one transfer
	Manager        float64 // CPU of the agents' queue manager, percent
	Coordinator    float64 // CPU of the coordination queue manager, percent

	// CPU of the machines with 50 agents each, in percent.
	Sources, Destinations []float64
}

// A Remark is a figure in a report's running text, often about a chart. High is 0 unless the report gives a range from
// Value to High.
type Remark struct {
	Place
	ID    string // such as "window-40-small-files"
	What  string // the sentence, rephrased
	Value float64
	High  float64
	Unit  string // "MB/s", "µs", "percent", "times", "KB", …
}

// Lookup returns the remark with an ID. ok is false if there is none.
func Lookup(id string) (r Remark, ok bool) {
	all := Remarks()
	i := slices.IndexFunc(all, func(r Remark) bool { return r.ID == id })
	if i < 0 {
		return Remark{}, false
	}
	return all[i], true
}

// A Misprint is an error of a report, or a contradiction to itself.
type Misprint struct {
	Place
	Printed string
	Meant   string // value in this package, or "unknown"
	Why     string // the evidence
}
