package published

// A linuxRow has the Linux report's values for one measurement: seconds, and CPUs in percent. server is the machine of
// the agents' queue manager.
type linuxRow struct {
	seconds, sender, receiver, server float64
}

// A linuxTable has a row for each chunk size: 64, 128, 256, 512 KiB.
type linuxTable struct {
	section   string
	table     string
	page      int
	mode      Mode
	transfers int
	fileMB    int
	rows      [4]linuxRow
}

// linuxTotal is the total of every measurement in megabytes (chapter 2).
const linuxTotal = 1000

func linuxCells() []Cell {
	var cells []Cell
	for _, t := range linuxTables {
		for i, r := range t.rows {
			cells = append(cells, Cell{
				Place:       Place{Source: Linux, Page: t.page, Section: t.section, Table: t.table},
				Mode:        t.mode,
				Text:        true, // "All files were transferred using text mode"
				Transfers:   t.transfers,
				FileMB:      t.fileMB,
				ChunkKiB:    64 << i,
				TotalMB:     linuxTotal,
				Seconds:     r.seconds,
				Sender:      r.sender,
				Receiver:    r.receiver,
				Manager:     r.server,
				Coordinator: NotMeasured,
			})
		}
	}
	return cells
}

// linuxTables are tables 1 to 3 of the report. Tables 4 to 6 have the same figures in another order.
var linuxTables = []linuxTable{
	{"2.1", "Table 1", 4, Bindings, Single, 1, [4]linuxRow{
		{108.94, 11.15, 16.64, NotMeasured},
		{90.07, 8.69, 17.49, NotMeasured},
		{82.5, 7.11, 17.13, NotMeasured},
		{79.44, 6.66, 16.64, NotMeasured},
	}},
	{"2.1", "Table 1", 4, Bindings, Ten, 1, [4]linuxRow{
		{74.35, 8.64, 41.92, NotMeasured},
		{69.6, 9.48, 45.26, NotMeasured},
		{59.35, 13.94, 46.15, NotMeasured},
		{54.25, 13.77, 44.93, NotMeasured},
	}},
	{"2.1", "Table 1", 4, Client, Single, 1, [4]linuxRow{
		{127.28, 5.47, 13.37, 13.22},
		{92.13, 4.93, 14.78, 10.83},
		{86.87, 4.1, 14.97, 10.83},
		{83.51, 3.72, 14.97, 8.01},
	}},
	{"2.1", "Table 1", 4, Client, Ten, 1, [4]linuxRow{
		{60.83, 8.21, 45.3, 15.25},
		{52.19, 8.87, 43.52, 16.22},
		{50.7, 8.14, 45.48, 15.99},
		{60.75, 14.41, 44.03, 20.92},
	}},
	{"2.2", "Table 2", 7, Bindings, Single, 10, [4]linuxRow{
		{59.47, 8.65, 18.2, NotMeasured},
		{52.29, 6.41, 18.64, NotMeasured},
		{50.26, 7.28, 19.04, NotMeasured},
		{51.36, 7.84, 18.92, NotMeasured},
	}},
	{"2.2", "Table 2", 7, Bindings, Ten, 10, [4]linuxRow{
		{53.34, 8.04, 37.59, NotMeasured},
		{47.22, 9.48, 42.77, NotMeasured},
		{44.95, 13.94, 50.01, NotMeasured},
		{37.14, 28.15, 47.34, NotMeasured},
	}},
	{"2.2", "Table 2", 7, Client, Single, 10, [4]linuxRow{
		{61.48, 4.17, 15.68, 11.02},
		{59.13, 3.81, 15.66, 9.57},
		{54.62, 3.82, 15.52, 9.55},
		{52.87, 4.38, 15.38, 10.44},
	}},
	{"2.2", "Table 2", 7, Client, Ten, 10, [4]linuxRow{
		{32.67, 8.54, 39.98, 25.21},
		{30.31, 10.78, 46.64, 26.91},
		{29.59, 17.89, 44.79, 31.22},
		{32.63, 18.55, 36.5, 35.9},
	}},
	{"2.3", "Table 3", 10, Bindings, Single, 100, [4]linuxRow{
		{55.99, 6.53, 18.42, NotMeasured},
		{49.73, 5.9, 18.68, NotMeasured},
		{46.69, 7.67, 18.6, NotMeasured},
		{47.44, 7.68, 19.02, NotMeasured},
	}},
	{"2.3", "Table 3", 10, Bindings, Ten, 100, [4]linuxRow{
		{45.07, 9.28, 38.97, NotMeasured},
		{42.24, 10.88, 33.62, NotMeasured},
		{39.43, 12.62, 51.76, NotMeasured},
		{31.11, 28.07, 51.38, NotMeasured},
	}},
	{"2.3", "Table 3", 10, Client, Single, 100, [4]linuxRow{
		{56.86, 3.93, 15.76, 10.89},
		{50.47, 4.09, 15.86, 10.39},
		{48.85, 4.18, 15.84, 10.31},
		{48.12, 5.12, 15.49, 12.78},
	}},
	{"2.3", "Table 3", 10, Client, Ten, 100, [4]linuxRow{
		{30.11, 9.64, 43.2, 27.51},
		{29.09, 12.92, 47.16, 28.17},
		{29.37, 16.2, 38.04, 32},
		{31.49, 25.73, 35.17, 36.39},
	}},
}
