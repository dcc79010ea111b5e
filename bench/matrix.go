package bench

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"ferry/bench/published"
	"ferry/internal/transfer"
)

// matrixScenario measures the cells of IBM's reports about Linux and Windows.
func matrixScenario() Scenario {
	return Scenario{Name: "matrix", Run: runMatrix,
		What: "The cells of IBM's reports for Linux and Windows: binary and text, one transfer and ten at once, three sizes of file, three checksums, four sizes of chunk, the direct lane beside the queue lane."}
}

// A cell is one case of the matrix.
type cell struct {
	text     pages // zero: binary
	ten      bool
	size     int // of each file: 1, 10 or 100 units
	checksum string
	lane     Lane
	chunk    int // KiB
	at       int // number of its series
	bindings bool
}

func (c cell) name() string {
	mode := "client"
	if c.bindings {
		mode = "bindings"
	}
	return fmt.Sprintf("%s, %s, %s, %d MB files, %s, %s, chunk %d KiB", mode, c.text.name(), transfersText(c.ten), c.size, c.checksum, c.lane.Name, c.chunk)
}

func transfersText(ten bool) string {
	if ten {
		return "ten at once"
	}
	return "single"
}

// The values that the matrix combines.
var (
	matrixSizes     = []int{1, 10, 100}
	matrixChecksums = []string{"none", "md5", "xxh3"}
	matrixChunks    = []int{64, 128, 256, 512} // KiB
)

// defaultChunk is the agents' default size of a chunk in KiB. The direct lane is measured once, with that size.
const defaultChunk = 256

// matrixCells returns all cells. The short form has the default chunk only, and one checksum for text.
func matrixCells(short bool) []cell {
	return slices.Concat(binaryCells(short), textCells(short), bindingsCells(short))
}

func binaryCells(short bool) (all []cell) {
	chunks := matrixChunks
	if short {
		chunks = []int{defaultChunk}
	}

	for _, ten := range []bool{false, true} {
		for _, sum := range matrixChecksums {
			for _, size := range matrixSizes {
				for _, chunk := range chunks {
					all = append(all, cell{ten: ten, size: size, checksum: sum, lane: QueueLane, chunk: chunk})
				}
				all = append(all, cell{ten: ten, size: size, checksum: sum, lane: DirectPlain, chunk: defaultChunk})
			}
		}
	}
	return all
}

// A matrix is a run of the scenario.
type matrix struct {
	env    *Env
	pair   *Pair
	beside *Pair            // in bindings mode
	sets   map[int]*FileSet // by size
	texts  map[int]*Texts   // by size
	cells  []cell
	sums   map[int]int // number of the series of md5sum at both ends, by size
	series []Series
	r      *Report
}

func runMatrix(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("matrix")
	if err != nil {
		return nil, err
	}
	defer remove()

	m := &matrix{env: e, sets: map[int]*FileSet{}, texts: map[int]*Texts{}, cells: matrixCells(e.Short), sums: map[int]int{}, r: &Report{}}
	source := filepath.Join(dir, "source")
	unit, total, err := e.sizes()
	if err != nil {
		return nil, err
	}

	for _, size := range matrixSizes {
		bytes := int64(size) * unit
		if m.sets[size], err = MakeFiles(filepath.Join(source, fmt.Sprintf("files%d", size)), int(total/bytes), bytes, Random); err != nil {
			return nil, err
		}
		if m.texts[size], err = MakeTexts(filepath.Join(source, fmt.Sprintf("texts%d", size)), int(total/bytes), bytes, []Form{FormUTF8, FormEBCDIC}, nil); err != nil {
			return nil, err
		}
	}

	if m.pair, err = e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, "network"), SourceRoot: source, Lane: DirectPlain}); err != nil {
		return nil, err
	}
	defer m.pair.Close()
	if m.beside, err = e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, "beside"), SourceRoot: source, Lane: DirectPlain, Bindings: true}); err != nil {
		return nil, err
	}
	defer m.beside.Close()

	if m.series, err = e.Interleave(ctx, m.cases()); err != nil {
		return nil, err
	}

	m.report(unit)
	return m.r, nil
}

// sizes returns two sizes in bytes. The first is that of 1 MB: 2^20, or in the short form a 200th of the total, at
// least 1 KiB. The second is the size of one measurement: as many of the largest files as the total has room for, so
// that it is the same with all sizes.
func (e *Env) sizes() (unit, total int64, err error) {
	unit = 1 << 20
	if e.Short {
		unit = max(1<<10, e.Total/200)
	}
	largest := 100 * unit
	if total = e.Total - e.Total%largest; total == 0 {
		return 0, 0, transfer.Errorf(transfer.KindUsage, "--total %d is less than one file of 100 MB", e.Total).WithHint("give 100M or more")
	}
	return unit, total, nil
}

func (m *matrix) cases() (all []Case) {
	for i, c := range m.cells {
		m.cells[i].at = len(all)
		j := Job{Checksum: c.checksum, Durability: transfer.DurabilityProcess, Lane: c.lane.Lane, Settings: transfer.Settings{ChunkSize: c.chunk << 10}}
		set := m.sets[c.size]
		if c.text != binaryData {
			set, j = m.texts[c.size].Set(c.text.forms()), j.AsText(c.text.from, c.text.to)
		}
		pair := m.pair
		if c.bindings {
			pair = m.beside
		}
		all = append(all, pair.Case(c.name(), set, j, c.ten))
	}

	for _, size := range matrixSizes {
		m.sums[size] = len(all)
		all = append(all, md5sumBothEnds(m.sets[size], fmt.Sprintf("md5sum at both ends, %d MB files", size)))
	}
	return all
}

// md5sumBothEnds runs md5sum over the set twice at once, as the minimal work of both ends of a transfer.
func md5sumBothEnds(s *FileSet, name string) Case {
	c := Case{Name: name}
	tool, err := exec.LookPath("md5sum")
	if err != nil {
		c.Lacks = "not available: the program md5sum is not in the PATH"
		return c
	}

	var names []string
	for _, n := range s.Names {
		names = append(names, filepath.Join(s.Dir, n))
	}

	c.Run = func(ctx context.Context) (Sample, error) {
		start := time.Now()
		var ends [2]*exec.Cmd
		for i := range ends {
			ends[i] = exec.CommandContext(ctx, tool, names...)
			if err := ends[i].Start(); err != nil {
				return Sample{}, transfer.Errorf(transfer.KindInternal, "md5sum cannot be started: %w", err)
			}
		}
		var failed error
		for _, c := range ends {
			if err := c.Wait(); err != nil {
				failed = transfer.Errorf(transfer.KindInternal, "md5sum failed: %w", err)
			}
		}
		return Sample{Wall: time.Since(start), Bytes: s.Bytes(), Files: int64(len(s.Names))}, failed
	}
	return c
}

// of returns the series of a cell of binary data.
func (m *matrix) of(ten bool, size int, checksum string, lane Lane, chunk int) Series {
	return m.ofText(binaryData, ten, size, checksum, lane, chunk)
}

// ofText returns the series of any cell.
func (m *matrix) ofText(text pages, ten bool, size int, checksum string, lane Lane, chunk int) Series {
	for _, c := range m.cells {
		if !c.bindings && c.text == text && c.ten == ten && c.size == size && c.checksum == checksum && c.lane == lane && c.chunk == chunk {
			return m.series[c.at]
		}
	}
	return Series{Lacks: "not run in the short form"}
}

func (m *matrix) report(unit int64) {
	for _, ten := range []bool{false, true} {
		for _, sum := range matrixChecksums {
			m.r.Tables = append(m.r.Tables, m.table(ten, sum))
		}
		m.r.Charts = append(m.r.Charts, m.chunkChart(ten), m.sizeChart(ten))
	}

	m.reportText()
	m.r.Tables = append(m.r.Tables, m.bindingsTables()...)
	m.bars()
	m.r.Note("A file of 1 MB has %d bytes here. Each measurement moves %.0f MB (10^6 bytes) from one agent to another through a queue manager in client mode, or through two and a channel in bindings mode, all on memory, durability process; %d, %d and %d files.",
		unit, float64(m.sets[1].Bytes())/1e6, len(m.sets[1].Names), len(m.sets[10].Names), len(m.sets[100].Names))
	m.r.Note("Ten at once are as many transfers as there are files where there are fewer than ten. The time is from before the first request is handed over until the last transfer is known to have ended; the submitter is connected already.")
	for _, p := range published.Misprints() {
		if p.Source == published.Windows || p.Source == published.Linux {
			m.r.Note("%s, section %s, prints %q; meant is %s: %s.", p.Source, p.Section, p.Printed, p.Meant, p.Why)
		}
	}
}

// bars adds the bars that the matrix decides.
func (m *matrix) bars() {
	for _, lane := range []Lane{QueueLane, DirectPlain} {
		small, large := m.of(false, 1, "xxh3", lane, defaultChunk), m.of(false, 100, "xxh3", lane, defaultChunk)
		m.r.Bars = append(m.r.Bars, ratioBar("time for 1 MB files over time for 100 MB files, single, "+lane.Name, small, large, 1.3, 1.1))
	}

	for _, lane := range []Lane{QueueLane, DirectPlain} {
		for _, size := range matrixSizes {
			with, without := m.of(false, size, "md5", lane, defaultChunk), m.of(false, size, "none", lane, defaultChunk)
			if sums := m.series[m.sums[size]]; sums.Lacks != "" || sums.Wall().Median > without.Wall().Median && without.Lacks == "" {
				without = sums
			}
			m.r.Bars = append(m.r.Bars, ratioBar(fmt.Sprintf("MD5 over the larger of no checksum and md5sum at both ends, %d MB files, %s", size, lane.Name), with, without, 1.15, 0.8))
		}
	}

	apart := slices.Clone(m.series)
	for _, c := range m.cells {
		if c.bindings { // its agents include a queue manager
			apart[c.at] = Series{Lacks: "not an agent's process alone"}
		}
	}
	m.r.Bars = append(m.r.Bars, peakBar(apart))
}
