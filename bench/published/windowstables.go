package published

// A windowsRow has the Windows report's values for one measurement. rate is in megabits a second, the CPUs in percent.
type windowsRow struct {
	seconds, rate                           float64
	manager, coordination, sender, receiver float64
}

// A windowsTable has a row for each file size, with a single transfer and with
// ten: 1, 10, 100 MB, and again.
type windowsTable struct {
	section   string
	table     string
	page      int
	mode      Mode
	text, md5 bool
	chunkKiB  int
	rows      [6]windowsRow
}

// windowsTotal is the total of every measurement in megabytes. The text says 2 GB and 2,000 files of 1 MB. But every
// printed rate is 16,384 megabits over the time, so it was computed from 2,048.
const windowsTotal = 2048

func windowsCells() []Cell {
	var cells []Cell
	for _, t := range windowsTables {
		for i, r := range t.rows {
			cells = append(cells, Cell{
				Place:       Place{Source: Windows, Page: t.page, Section: t.section, Table: t.table},
				Mode:        t.mode,
				Text:        t.text,
				MD5:         t.md5,
				Transfers:   transfersOf(i),
				FileMB:      sizeOf(i),
				ChunkKiB:    t.chunkKiB,
				TotalMB:     windowsTotal,
				Seconds:     r.seconds,
				Mbit:        r.rate,
				Sender:      r.sender,
				Receiver:    r.receiver,
				Manager:     r.manager,
				Coordinator: r.coordination,
			})
		}
	}
	return cells
}

func transfersOf(row int) int {
	if row < 3 {
		return Single
	}
	return Ten
}

func sizeOf(row int) int { return [3]int{1, 10, 100}[row%3] }

// windowsTables are tables 1 to 10 of the report and those without a number.
// Each row is seconds, megabits a second, and the CPU of the agents' queue
// manager, the coordination queue manager, the source and the destination.
var windowsTables = []windowsTable{
	{"2.1.1.1", "Table 1", 4, Bindings, true, false, 64, [6]windowsRow{
		{113.61, 144.21, NotMeasured, 2, 15, 14},
		{49.49, 331.08, NotMeasured, 2, 15, 15},
		{44, 372.34, NotMeasured, 2, 18, 15},
		{35.91, 456.23, NotMeasured, 2, 30, 33},
		{19.65, 833.75, NotMeasured, 3, 39, 42},
		{16.89, 970.25, NotMeasured, 2, 43, 44},
	}},
	{"2.1.1.2", "", 4, Bindings, true, true, 64, [6]windowsRow{
		{114.87, 142.63, NotMeasured, 2, 15, 13},
		{60.35, 271.47, NotMeasured, 2, 17, 16},
		{42.9, 381.89, NotMeasured, 2, 21, 20},
		{48.78, 335.87, NotMeasured, 2, 28, 27},
		{19.2, 853.19, NotMeasured, 2, 50, 51},
		{16.58, 987.96, NotMeasured, 12, 56, 59},
	}},
	{"2.1.1.3", "Table 2", 6, Bindings, false, false, 64, [6]windowsRow{
		{86.93, 188.47, NotMeasured, 2, 15, 15},
		{43.06, 380.5, NotMeasured, 2, 19, 19},
		{32.66, 501.71, NotMeasured, 2, 20, 20},
		{28.38, 577.27, NotMeasured, 2, 35, 42},
		{16.66, 983.3, NotMeasured, 10, 47, 52},
		{15.94, 1027.7, NotMeasured, 2, 47, 50},
	}},
	{"2.1.1.4", "", 6, Bindings, false, true, 64, [6]windowsRow{
		{116.68, 140.42, NotMeasured, 2, 16, 15},
		{61.64, 265.8, NotMeasured, 2, 20, 17},
		{46.66, 351.12, NotMeasured, 2, 33, 32},
		{35.33, 463.69, NotMeasured, 2, 40, 39},
		{22.54, 726.96, NotMeasured, 2, 47, 48},
		{18.81, 871.2, NotMeasured, 2, 55, 58},
	}},
	{"2.1.2.1", "Table 3", 8, Bindings, true, false, 128, [6]windowsRow{
		{106.68, 153.58, NotMeasured, 2, 13, 11},
		{53.72, 304.96, NotMeasured, 2, 16, 14},
		{41.68, 393.07, NotMeasured, 2, 17, 15},
		{45.23, 362.22, NotMeasured, 2, 23, 25},
		{18.4, 890.61, NotMeasured, 2, 39, 40},
		{16.35, 1001.92, NotMeasured, 2, 43, 43},
	}},
	{"2.1.2.2", "", 9, Bindings, true, true, 128, [6]windowsRow{
		{118.1, 138.73, NotMeasured, 2, 13, 14},
		{53.92, 303.85, NotMeasured, 2, 18, 17},
		{46.81, 350.03, NotMeasured, 2, 21, 19},
		{41.64, 393.46, NotMeasured, 2, 29, 31},
		{20.27, 808.23, NotMeasured, 2, 50, 49},
		{17.77, 921.95, NotMeasured, 3, 52, 53},
	}},
	{"2.1.2.3", "", 9, Bindings, false, false, 128, [6]windowsRow{
		{93.19, 175.81, NotMeasured, 2, 14, 14},
		{43.67, 375.16, NotMeasured, 2, 17, 29},
		{33.48, 489.39, NotMeasured, 2, 21, 24},
		{30.35, 539.91, NotMeasured, 2, 31, 39},
		{15.43, 1062.03, NotMeasured, 2, 49, 71},
		{16.1, 1017.68, NotMeasured, 2, 44, 49},
	}},
	{"2.1.2.4", "", 10, Bindings, false, true, 128, [6]windowsRow{
		{110.25, 148.61, NotMeasured, 2, 14, 15},
		{58.97, 277.84, NotMeasured, 2, 18, 18},
		{45.55, 359.68, NotMeasured, 2, 21, 21},
		{42.46, 385.88, NotMeasured, 2, 30, 34},
		{20.2, 811.17, NotMeasured, 2, 45, 55},
		{19.32, 848.02, NotMeasured, 2, 50, 55},
	}},
	{"2.1.2.5", "Table 4", 11, Bindings, true, false, 256, [6]windowsRow{
		{109.46, 149.68, NotMeasured, 2, 13, 12},
		{56.87, 288.08, NotMeasured, 2, 15, 13},
		{44.48, 368.36, NotMeasured, 2, 17, 14},
		{43.62, 375.58, NotMeasured, 2, 24, 25},
		{20.14, 813.42, NotMeasured, 4, 37, 37},
		{17.58, 931.74, NotMeasured, 2, 43, 40},
	}},
	{"2.1.2.6", "", 12, Bindings, true, true, 256, [6]windowsRow{
		{125.35, 130.7, NotMeasured, 2, 16, 13},
		{70.49, 232.43, NotMeasured, 2, 18, 14},
		{48.5, 337.84, NotMeasured, 3, 21, 18},
		{41.75, 392.45, NotMeasured, 2, 32, 30},
		{23.3, 703.07, NotMeasured, 2, 47, 45},
		{18.09, 905.86, NotMeasured, 2, 55, 53},
	}},
	{"2.1.2.7", "", 13, Bindings, false, false, 256, [6]windowsRow{
		{89.44, 183.18, NotMeasured, 2, 14, 15},
		{43.59, 375.85, NotMeasured, 2, 18, 17},
		{35.65, 459.57, NotMeasured, 2, 21, 20},
		{29.28, 559.53, NotMeasured, 2, 35, 40},
		{17.02, 962.37, NotMeasured, 4, 43, 50},
		{15.5, 1056.8, NotMeasured, 2, 47, 55},
	}},
	{"2.1.2.8", "", 13, Bindings, false, true, 256, [6]windowsRow{
		{122.3, 133.97, NotMeasured, 2, 13, 14},
		{63.86, 256.56, NotMeasured, 2, 17, 17},
		{46.89, 349.38, NotMeasured, 2, 19, 22},
		{48.29, 339.31, NotMeasured, 2, 28, 32},
		{20.82, 786.92, NotMeasured, 2, 47, 52},
		{17.48, 937.05, NotMeasured, 2, 52, 59},
	}},
	{"2.1.3.1", "Table 5", 15, Bindings, true, false, 512, [6]windowsRow{
		{113.01, 144.98, NotMeasured, 3, 13, 11},
		{51.78, 316.42, NotMeasured, 2, 16, 16},
		{45.76, 358.07, NotMeasured, 2, 17, 15},
		{42.22, 388.04, NotMeasured, 2, 26, 26},
		{20.23, 809.91, NotMeasured, 3, 36, 36},
		{19.65, 833.99, NotMeasured, 2, 36, 39},
	}},
	{"2.1.3.2", "", 15, Bindings, true, true, 512, [6]windowsRow{
		{122.08, 134.2, NotMeasured, 2, 14, 13},
		{58.6, 279.61, NotMeasured, 2, 18, 17},
		{40.8, 401.58, NotMeasured, 2, 21, 20},
		{41.44, 395.34, NotMeasured, 2, 32, 31},
		{20.77, 789.02, NotMeasured, 2, 45, 47},
		{16.45, 996.09, NotMeasured, 2, 57, 59},
	}},
	{"2.1.3.3", "", 17, Bindings, false, false, 512, [6]windowsRow{
		{86.56, 189.28, NotMeasured, 2, 19, 15},
		{41.61, 393.76, NotMeasured, 2, 32, 21},
		{30.98, 528.92, NotMeasured, 2, 21, 21},
		{29.38, 557.72, NotMeasured, 2, 52, 41},
		{16.55, 990.23, NotMeasured, 2, 49, 49},
		{16.12, 1016.1, NotMeasured, 2, 43, 51},
	}},
	{"2.1.3.4", "", 17, Bindings, false, true, 512, [6]windowsRow{
		{120.42, 136.05, NotMeasured, 3, 16, 13},
		{57.89, 283.02, NotMeasured, 2, 17, 17},
		{46.02, 356.05, NotMeasured, 2, 22, 21},
		{44.35, 369.44, NotMeasured, 2, 28, 32},
		{21.95, 746.55, NotMeasured, 2, 44, 49},
		{18.94, 864.93, NotMeasured, 2, 51, 58},
	}},
	{"2.2.1.1", "Table 6", 20, Client, true, false, 64, [6]windowsRow{
		{119.01, 137.67, 7, 2, 10, 9},
		{84.68, 193.49, 9, 2, 10, 8},
		{87, 188.32, 9, 2, 10, 8},
		{88.57, 184.98, 10, 2, 11, 12},
		{87.68, 186.86, 10, 2, 10, 9},
		{85.71, 191.17, 10, 2, 13, 10},
	}},
	{"2.2.1.2", "", 21, Client, true, true, 64, [6]windowsRow{
		{118.84, 137.86, 7, 3, 13, 12},
		{82.12, 199.51, 7, 2, 12, 12},
		{80.53, 203.45, 7, 2, 11, 12},
		{81.99, 199.83, 8, 2, 15, 16},
		{82.61, 198.32, 8, 2, 12, 13},
		{82.2, 199.31, 7, 2, 11, 13},
	}},
	{"2.2.1.3", "", 22, Client, false, false, 64, [6]windowsRow{
		{103.75, 157.92, 5, 2, 10, 11},
		{71.21, 230.08, 6, 2, 9, 10},
		{66.83, 245.17, 7, 2, 9, 9},
		{68.67, 238.59, 7, 2, 12, 14},
		{67.77, 241.75, 7, 2, 9, 10},
		{66.82, 245.19, 7, 2, 9, 9},
	}},
	{"2.2.1.4", "", 23, Client, false, true, 64, [6]windowsRow{
		{131.85, 124.26, 6, 2, 16, 16},
		{81.7, 200.53, 8, 2, 12, 13},
		{83.21, 196.89, 9, 2, 12, 12},
		{81.52, 200.99, 8, 2, 16, 19},
		{84.1, 194.81, 9, 2, 13, 13},
		{80.48, 203.57, 9, 2, 12, 13},
	}},
	{"2.2.2.1", "Table 7", 24, Client, true, false, 128, [6]windowsRow{
		{114.99, 142.49, 8, 2, 12, 11},
		{85.96, 190.6, 8, 2, 9, 9},
		{84.09, 194.83, 8, 2, 9, 9},
		{91.84, 178.39, 10, 5, 12, 12},
		{89.85, 182.35, 9, 2, 10, 9},
		{87.56, 187.12, 11, 3, 12, 9},
	}},
	{"2.2.2.2", "", 25, Client, true, true, 128, [6]windowsRow{
		{121.22, 135.16, 6, 2, 12, 13},
		{81.9, 200.05, 7, 2, 11, 12},
		{81.11, 202, 7, 2, 11, 12},
		{83.17, 196.99, 8, 2, 14, 17},
		{80.81, 202.74, 7, 3, 12, 14},
		{80.9, 202.52, 7, 2, 13, 12},
	}},
	{"2.2.2.3", "", 26, Client, false, false, 128, [6]windowsRow{
		{113.11, 144.85, 5, 2, 10, 10},
		{70.49, 232.43, 7, 2, 9, 9},
		{66.22, 247.41, 6, 2, 10, 9},
		{68.91, 237.77, 7, 2, 12, 15},
		{66.97, 244.66, 7, 2, 10, 10},
		{65.85, 248.83, 8, 2, 10, 9},
	}},
	{"2.2.2.4", "", 27, Client, false, true, 128, [6]windowsRow{
		{128.12, 127.88, 6, 2, 12, 12},
		{83.23, 196.85, 8, 3, 12, 13},
		{81.16, 201.88, 7, 2, 11, 13},
		{85.73, 191.11, 9, 2, 14, 17},
		{81.22, 201.71, 8, 2, 12, 14},
		{81.11, 202, 8, 2, 13, 13},
	}},
	{"2.2.3.1", "Table 8", 28, Client, true, false, 256, [6]windowsRow{
		{116.61, 140.5, 8, 2, 12, 11},
		{85.97, 190.58, 7, 2, 12, 9},
		{82.97, 197.46, 8, 2, 10, 9},
		{87.71, 186.79, 8, 2, 13, 13},
		{90.62, 180.8, 9, 2, 11, 10},
		{86.96, 188.42, 9, 2, 11, 8},
	}},
	{"2.2.3.2", "", 29, Client, true, true, 256, [6]windowsRow{
		{118.48, 138.29, 6, 2, 12, 13},
		{83.05, 197.29, 7, 2, 12, 13},
		{79.63, 205.74, 7, 2, 12, 12},
		{84.35, 194.24, 7, 2, 14, 18},
		{80.74, 202.92, 7, 2, 12, 14},
		{80.93, 202.44, 7, 2, 11, 13},
	}},
	{"2.2.3.3", "", 29, Client, false, false, 256, [6]windowsRow{
		{110.1, 148.8, 5, 2, 11, 11},
		{66.72, 245.55, 6, 3, 10, 9},
		{65.42, 250.43, 6, 2, 10, 9},
		{67.6, 242.37, 7, 2, 12, 15},
		{67.17, 243.93, 7, 3, 10, 11},
		{65.4, 250.53, 7, 2, 9, 9},
	}},
	{"2.2.3.4", "", 30, Client, false, true, 256, [6]windowsRow{
		{138.64, 118.18, 6, 2, 11, 12},
		{82.93, 197.56, 7, 2, 11, 12},
		{80.37, 203.85, 7, 2, 11, 12},
		{83.64, 195.89, 8, 2, 14, 17},
		{81.76, 200.39, 8, 2, 12, 13},
		{79.99, 204.83, 7, 2, 12, 12},
	}},
	{"2.2.4.1", "Table 9", 31, Client, true, false, 512, [6]windowsRow{
		{121.33, 135.04, 8, 2, 13, 11},
		{86.22, 190.02, 8, 2, 10, 9},
		{86.12, 190.25, 9, 2, 10, 8},
		{88.34, 185.46, 9, 2, 13, 13},
		{89.34, 183.38, 10, 2, 11, 9},
		{86.76, 188.85, 10, 2, 12, 8},
	}},
	{"2.2.4.2", "", 32, Client, true, true, 512, [6]windowsRow{
		{126.52, 129.5, 6, 2, 12, 13},
		{85.37, 191.92, 7, 3, 11, 12},
		{81.63, 200.7, 7, 2, 11, 12},
		{84.26, 194.44, 8, 2, 14, 17},
		{81.55, 200.92, 8, 3, 12, 15},
		{80.67, 203.11, 8, 2, 13, 12},
	}},
	{"2.2.4.3", "Table 10", 33, Client, false, false, 512, [6]windowsRow{
		{107.8, 151.98, 5, 2, 10, 11},
		{64.91, 252.4, 6, 2, 10, 9},
		{65.16, 251.43, 7, 2, 9, 9},
		{66.41, 246.7, 7, 2, 12, 15},
		{64.69, 253.28, 7, 2, 10, 10},
		{63.96, 256.14, 7, 2, 10, 10},
	}},
	{"2.2.4.4", "", 34, Client, false, true, 512, [6]windowsRow{
		{125.15, 130.91, 6, 2, 12, 12},
		{79.38, 206.4, 6, 3, 12, 13},
		{81.03, 202.21, 7, 2, 11, 12},
		{80.97, 202.35, 8, 2, 15, 17},
		{80.42, 203.74, 8, 2, 12, 13},
		{82.07, 199.64, 8, 2, 13, 13},
	}},
}
