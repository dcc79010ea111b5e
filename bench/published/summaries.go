package published

// A bestRow is a time in seconds, and the chunk size in KiB of that measurement.
type bestRow struct {
	seconds  float64
	chunkKiB int
}

// A bestTable has a row for each file size, with a single transfer and with ten: 1, 10, 100 MB, and again.
type bestTable struct {
	section   string
	table     string
	page      int
	mode      Mode
	text, md5 bool
	rows      [6]bestRow
}

// WindowsBest returns the quickest rows of the Windows report's summaries, with one misprint corrected (see Misprints).
func WindowsBest() []Best {
	var all []Best
	for _, t := range windowsBest {
		for i, r := range t.rows {
			all = append(all, Best{
				Place: Place{Source: Windows, Page: t.page, Section: t.section, Table: t.table},
				Mode:  t.mode, Text: t.text, MD5: t.md5,
				Transfers: transfersOf(i), FileMB: sizeOf(i),
				Seconds: r.seconds, ChunkKiB: r.chunkKiB,
			})
		}
	}
	return all
}

var windowsBest = []bestTable{
	{"2.1.3.5", "", 19, Bindings, true, false, [6]bestRow{{106.68, 128}, {49.49, 64}, {41.68, 128}, {35.91, 64}, {18.4, 128}, {16.35, 128}}},
	{"2.1.3.6", "", 19, Bindings, true, true, [6]bestRow{{114.87, 64}, {53.92, 128}, {40.8, 512}, {41.44, 512}, {19.2, 64}, {16.45, 512}}},
	{"2.1.3.7", "", 19, Bindings, false, false, [6]bestRow{{86.56, 512}, {41.61, 512}, {30.98, 512}, {28.38, 64}, {15.43, 128}, {15.5, 256}}},
	{"2.1.3.8", "", 20, Bindings, false, true, [6]bestRow{{110.25, 128}, {57.89, 512}, {45.55, 128}, {35.33, 64}, {20.2, 128}, {17.48, 256}}},
	{"2.2.5.1", "Table 11", 35, Client, true, false, [6]bestRow{{114.99, 128}, {84.68, 64}, {82.97, 256}, {87.71, 256}, {87.68, 64}, {85.71, 64}}},
	{"2.2.5.2", "", 35, Client, true, true, [6]bestRow{{118.48, 256}, {81.9, 128}, {79.63, 256}, {81.99, 64}, {80.74, 256}, {80.67, 512}}},
	{"2.2.5.3", "", 35, Client, false, false, [6]bestRow{{103.75, 64}, {64.91, 512}, {65.16, 512}, {66.41, 512}, {64.69, 512}, {63.96, 512}}},
	{"2.2.5.4", "", 35, Client, false, true, [6]bestRow{{125.15, 512}, {79.38, 512}, {80.37, 256}, {80.97, 512}, {80.42, 512}, {79.99, 256}}},
}

// AgentRows returns the ten measurements of the report about many agents, and its tables 3.1 and 3.2.
func AgentRows() []AgentRow {
	return []AgentRow{
		agentRow("2.1.1", 4, 100, 1, 2.42, 20.70, 5.01, []float64{84.13}, []float64{54.74}),
		agentRow("2.1.2", 5, 200, 1, 5.49, 22.56, 5.02, []float64{69.04, 35.90}, []float64{41.32, 35.01}),
		agentRow("2.1.3", 6, 300, 1, 12.28, 24.25, 6.86, []float64{63.30, 34.23, 36.99}, []float64{39.74, 33.96, 34.82}),
		agentRow("2.1.4", 7, 400, 1, 17.58, 26.02, 8.22, []float64{59.44, 34.23, 38.22, 36.72}, []float64{35.19, 33.96, 32.11, 29.39}),
		agentRow("2.1.5", 9, 500, 1, 19.46, 28.46, 12.22, []float64{60.22, 28.74, 23.81, 28.35, 34.99}, []float64{48.03, 25.30, 22.47, 26.06, 30.34}),
		agentRow("2.1.6", 11, 100, 10, 69.44, 19.48, 8.88, []float64{77.97}, []float64{62.04}),
		agentRow("2.1.7", 12, 200, 10, 125.91, 25.87, 12.19, []float64{60.47, 51.33}, []float64{56.83, 54.02}),
		agentRow("2.1.8", 13, 300, 10, 179.02, 29.97, 14.22, []float64{51.37, 49.12, 40.71}, []float64{45.58, 40.56, 43.41}),
		agentRow("2.1.9", 0, 400, 10, 219.28, 30.84, 15.00, []float64{47.76, 33.78, 41.76, 32.36}, []float64{39.37, 34.77, 40.56, 35.72}),
		agentRow("2.1.10", 0, 500, 10, 338.80, 35.99, 20.47, []float64{48.02, 34.21, 30.71, 36.70, 39.49}, []float64{40.57, 35.95, 29.42, 35.31, 35.45}),
	}
}

// agentRow makes a row. It computes the values that depend on the number of agents, because the report prints them
// wrongly twice.
func agentRow(section string, page, agents, fileMB int, seconds, manager, coordination float64, sources, destinations []float64) AgentRow {
	return AgentRow{
		Place:          Place{Source: Agents, Page: page, Section: section},
		Agents:         agents,
		Transfers:      agents / 2,
		Files:          agents / 2 * 10,
		FileMB:         fileMB,
		TotalMB:        agents / 2 * 10 * fileMB,
		AverageSeconds: seconds,
		Manager:        manager,
		Coordinator:    coordination,
		Sources:        sources,
		Destinations:   destinations,
	}
}
