// Package published has the figures that IBM published about the product that
// Ferry re-creates, as data: what was measured, the report, page, section and
// table that say so, and the places where a report is wrong or contradicts
// itself. The benchmark scenarios show them beside their own.
//
// Only figures that are printed as numbers are here. Most charts of the z/OS
// report exist as pictures alone; what its text says about them is in Remarks.
// Where a report has a misprint, the data have what is meant, and Misprints has
// what is printed.
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

// A Place is where a publication says something. Page is the printed page
// number, taken from the report's table of contents, 0 where it has none;
// Table is empty for a table without a number and for running text.
type Place struct {
	Source  Source
	Page    int
	Section string
	Table   string
}

// A Mode is how the agents reached their queue managers.
type Mode string

// The modes: Bindings is in the same process as a local queue manager, two of
// which are joined by channels; Client is over TCP to one remote queue manager.
const (
	Bindings Mode = "bindings"
	Client   Mode = "client"
)

// The numbers of transfers that shared the work and began together.
const (
	Single = 1
	Ten    = 10
)

// NotMeasured is the CPU of a machine that took no part.
const NotMeasured = -1

// A Cell is one measured row of the matrix: the same total in files of one
// size. CPU is the utilisation of a machine in percent of all its processors.
type Cell struct {
	Place
	Mode      Mode
	Text      bool // text mode; else binary
	MD5       bool // with MD5 checksum; the Linux report does not say whether its transfers had one
	Transfers int  // Single or Ten
	FileMB    int  // size of each file
	ChunkKiB  int  // agentChunkSize

	TotalMB     float64 // what the rate is reckoned from
	Seconds     float64
	Mbit        float64 // the printed rate in megabits a second; 0 where the report has none
	Sender      float64 // CPU
	Receiver    float64 // CPU
	Manager     float64 // CPU of the agents' queue manager in client mode, or NotMeasured
	Coordinator float64 // CPU of the coordination queue manager, or NotMeasured
}

// Rate is in megabytes a second, in the report's megabytes.
func (c Cell) Rate() float64 { return c.TotalMB / c.Seconds }

// Matrix is every cell of the Linux and of the Windows report: 48 and 192.
func Matrix() []Cell { return append(linuxCells(), windowsCells()...) }

// Like says which cells are wanted; a zero field is any. Text and MD5 are
// always compared where Kind is set.
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

// Find gives the cells of the matrix that are like something, in the order of
// the reports.
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

// TextRatios are the times of text transfers over those of binary ones in the
// Windows report, all else alike: the least and the greatest of a mode.
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

// TextOverBinary is the time of a cell's work as text over its time as binary,
// all else alike; 0 where the report has only one of them.
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

// Best is a row of the Windows report's summaries: the quickest of the four
// chunk sizes.
type Best struct {
	Place
	Mode      Mode
	Text, MD5 bool
	Transfers int
	FileMB    int
	Seconds   float64
	ChunkKiB  int
}

// An AgentRow is one measured row of the report about many agents. Half of the
// agents were sources; each pair ran one transfer of ten files in text mode,
// and all began together. AverageSeconds is the mean time of one transfer, not
// the time until the last had ended, so an aggregate rate does not follow from
// it.
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

	// CPU of the machines that held 50 agents each, in percent.
	Sources, Destinations []float64
}

// A Remark is a figure that a report gives in running text, often about a
// chart. High is 0 unless the report gives a range from Value to High.
type Remark struct {
	Place
	ID    string // such as "window-40-small-files"
	What  string // the sentence, in our words
	Value float64
	High  float64
	Unit  string // "MB/s", "µs", "percent", "times", "KB", …
}

// Lookup is the remark of an ID; ok is false if there is none.
func Lookup(id string) (r Remark, ok bool) {
	all := Remarks()
	i := slices.IndexFunc(all, func(r Remark) bool { return r.ID == id })
	if i < 0 {
		return Remark{}, false
	}
	return all[i], true
}

// A Misprint is a place where a report is wrong or contradicts itself.
type Misprint struct {
	Place
	Printed string
	Meant   string // what the data here have, or "unknown"
	Why     string // how it shows
}
