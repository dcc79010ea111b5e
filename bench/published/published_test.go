package published

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// near reports whether got differs from want by at most a part of want.
func near(got, want, part float64) bool { return math.Abs(got-want) <= math.Abs(want)*part }

func TestMatrixIsWhole(t *testing.T) {
	type key struct {
		source    Source
		mode      Mode
		text, md5 bool
		transfers int
		fileMB    int
		chunk     int
	}
	seen := map[key]Cell{}
	for _, c := range Matrix() {
		k := key{c.Source, c.Mode, c.Text, c.MD5, c.Transfers, c.FileMB, c.ChunkKiB}
		if _, twice := seen[k]; twice {
			t.Errorf("%+v is there twice", k)
		}
		seen[k] = c
	}
	counts := map[Source]int{}
	for _, source := range []Source{Linux, Windows} {
		for _, mode := range []Mode{Bindings, Client} {
			for _, transfers := range []int{Single, Ten} {
				for _, size := range []int{1, 10, 100} {
					for _, chunk := range []int{64, 128, 256, 512} {
						counts[source] += len(Find(Like{Source: source, Mode: mode, Transfers: transfers, FileMB: size, ChunkKiB: chunk}))
					}
				}
			}
		}
	}
	if counts[Linux] != 48 || counts[Windows] != 192 || len(seen) != 240 {
		t.Errorf("found %v of %d; want 48 and 192 of 240", counts, len(seen))
	}
}

func TestCellsAreInRange(t *testing.T) {
	for _, c := range Matrix() {
		if c.Seconds < 10 || c.Seconds > 150 || c.Page == 0 || c.Section == "" {
			t.Errorf("%+v", c)
		}
		for name, cpu := range map[string]float64{"sender": c.Sender, "receiver": c.Receiver, "manager": c.Manager, "coordinator": c.Coordinator} {
			absent := name == "manager" && c.Mode == Bindings || name == "coordinator" && c.Source == Linux
			if absent != (cpu == NotMeasured) || !absent && (cpu <= 0 || cpu > 100) {
				t.Errorf("the %s's CPU is %v in %+v", name, cpu, c)
			}
		}
	}
}

// Every rate of the Windows report is 2,048 MB over the time. That detects a wrong digit in either. The times have two
// digits after the point.
func TestRateIsSizeOverTime(t *testing.T) {
	for _, c := range Find(Like{Source: Windows}) {
		least, most := c.TotalMB*8/(c.Seconds+0.0051), c.TotalMB*8/(c.Seconds-0.0051)
		if c.Mbit < least-0.01 || c.Mbit > most+0.01 {
			t.Errorf("%s, %d MB, %d transfers: %v Mb is not 16384 over %v s", c.Section, c.FileMB, c.Transfers, c.Mbit, c.Seconds)
		}
	}
}

// The summaries were derived from the tables, so each must be the minimum of its table.
func TestSummariesAreTheBest(t *testing.T) {
	all := WindowsBest()
	if len(all) != 48 {
		t.Fatalf("%d rows in the summaries; want 48", len(all))
	}
	for _, b := range all {
		cells := Find(Like{Source: Windows, Mode: b.Mode, Kind: true, Text: b.Text, MD5: b.MD5, Transfers: b.Transfers, FileMB: b.FileMB})
		best := slices.MinFunc(cells, func(x, y Cell) int {
			if x.Seconds < y.Seconds {
				return -1
			}
			return 1
		})
		if best.Seconds != b.Seconds || best.ChunkKiB != b.ChunkKiB {
			t.Errorf("%s, %d MB, %d transfers: %v s at %d KiB; the tables have %v s at %d KiB",
				b.Section, b.FileMB, b.Transfers, b.Seconds, b.ChunkKiB, best.Seconds, best.ChunkKiB)
		}
	}
}

func TestAgentRows(t *testing.T) {
	rows := AgentRows()
	if len(rows) != 10 {
		t.Fatalf("%d rows; want 10", len(rows))
	}
	for i, r := range rows {
		if r.Agents != (i%5+1)*100 || r.FileMB != []int{1, 10}[i/5] {
			t.Errorf("row %d has %d agents and files of %d MB", i, r.Agents, r.FileMB)
		}
		if len(r.Sources) != r.Agents/100 || len(r.Destinations) != len(r.Sources) {
			t.Errorf("%s: %d agents on %d and %d machines of 50", r.Section, r.Agents, len(r.Sources), len(r.Destinations))
		}
		if r.TotalMB != r.Files*r.FileMB || r.Files != r.Transfers*10 || 2*r.Transfers != r.Agents {
			t.Errorf("%s: sums are wrong: %+v", r.Section, r)
		}
		if i%5 > 0 && (r.AverageSeconds <= rows[i-1].AverageSeconds || r.Manager <= rows[i-1].Manager || r.Coordinator < rows[i-1].Coordinator) {
			t.Errorf("%s: more agents took less than %s", r.Section, rows[i-1].Section)
		}
	}
	// "500 files of total size 500MB", "2500 files of total size 2.5GB", "5GB", "15GB"
	for section, total := range map[string]int{"2.1.1": 500, "2.1.5": 2500, "2.1.6": 5000, "2.1.8": 15000} {
		i := slices.IndexFunc(rows, func(r AgentRow) bool { return r.Section == section })
		if rows[i].TotalMB != total {
			t.Errorf("%s: %d MB in all; the report has %d", section, rows[i].TotalMB, total)
		}
	}
}

// The least and the greatest, from the tables: 2.1.1.2 over 2.1.1.4, 2.1.2.1 over 2.1.2.3, 2.2.3.2 over 2.2.3.4,
// 2.2.4.1 over 2.2.4.3.
func TestTextRatios(t *testing.T) {
	for m, want := range map[Mode][2]float64{Bindings: {19.2 / 22.54, 45.23 / 30.35}, Client: {118.48 / 138.64, 89.34 / 64.69}} {
		if least, greatest := TextRatios(m); !near(least, want[0], 1e-9) || !near(greatest, want[1], 1e-9) {
			t.Errorf("%s: text takes %v to %v times as long as binary; the tables have %v", m, least, greatest, want)
		}
	}
	if r := TextOverBinary(Find(Like{Source: Linux})[0]); r != 0 {
		t.Errorf("the Linux report has no binary times, and text takes %v times as long", r)
	}
}

func remark(t *testing.T, id string) float64 {
	t.Helper()
	r, ok := Lookup(id)
	if !ok {
		t.Fatalf("there is no remark %q", id)
	}
	return r.Value
}

// The figures in the reports' text must be consistent, too.
func TestRemarksAddUp(t *testing.T) {
	v := func(id string) float64 { return remark(t, id) }
	for _, c := range []struct {
		what      string
		got, want float64
		part      float64
	}{
		{"data for each checkpoint", v("default-chunk") * v("default-window") * v("default-frame") * v("default-checkpoint") / 1024, v("data-per-checkpoint"), 0},
		{"messages on DATA", v("default-window") * v("default-frame"), v("messages-on-data"), 0},
		{"buffers", v("messages-on-data") * v("default-chunk") / 1024, v("buffers-for-data"), 0},
		{"pages of 4 KB", v("buffers-for-data") / 4, v("pages-for-data"), 0},
		{"a frame of one window", v("default-chunk") * v("default-window") / (1 << 20), v("frame-1-checkpoint"), 0},
		{"the header", v("header") - v("header-compressed"), v("header-saved"), 0},
		{"space of 27920", v("tracks-27920") * 56664 / (1 << 20), v("space-27920"), 0.002},
		{"space of 6400", v("tracks-6400") * 56664 / (1 << 20), v("space-6400"), 0.002},
		{"more space", (v("tracks-6400")/v("tracks-27920") - 1) * 100, v("space-more"), 0.02},
		{"the stall", v("segment") / v("delay"), v("stalled-rate"), 0.1},
		{"one processor", (2.72 / 3) / (4.15 / 3), v("itr-ratio"), 0.001},
	} {
		if !near(c.got, c.want, c.part) {
			t.Errorf("%s: reckoned %v, printed %v", c.what, c.got, c.want)
		}
	}
	rate, _ := Lookup("rate-1MB")
	checkpoint, _ := Lookup("checkpoint-1-to-8")
	if checkpoint.High/checkpoint.Value != 8 || rate.High <= rate.Value {
		t.Errorf("ranges are wrong: %+v %+v", checkpoint, rate)
	}
}

func TestRemarksAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Remarks() {
		if seen[r.ID] || r.ID == "" || r.What == "" || r.Unit == "" || r.Section == "" || r.Value <= 0 {
			t.Errorf("%+v is incomplete or there twice", r)
		}
		seen[r.ID] = true
		if r.Source == ZOS && r.Page == 0 {
			t.Errorf("%s stands on no page: %q is no heading", r.ID, r.Section)
		}
	}
	if _, ok := Lookup("none"); ok {
		t.Error("an unknown remark is known")
	}
}

func TestMisprintsAreNotInTheData(t *testing.T) {
	for _, m := range Misprints() {
		if m.Printed == "" || m.Meant == "" || m.Why == "" || m.Section == "" || m.Printed == m.Meant || !slices.Contains([]Source{Linux, ZOS, Windows, Agents, Technote}, m.Source) {
			t.Errorf("%+v is incomplete", m)
		}
	}
	if !slices.ContainsFunc(Misprints(), func(m Misprint) bool { return strings.Contains(m.Printed, "42.46") }) {
		t.Error("the misprint in 2.1.3.8 is not noted")
	}
	for _, c := range Matrix() {
		if !slices.Contains([]int{64, 128, 256, 512}, c.ChunkKiB) {
			t.Errorf("a chunk of %d KiB", c.ChunkKiB)
		}
	}
}
