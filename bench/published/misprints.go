package published

// Misprints returns the errors of the reports, and their contradictions to themselves and to others, with the values in
// this package.
func Misprints() []Misprint {
	var all []Misprint
	for _, part := range [][]Misprint{misprintsOfWindows(), misprintsOfAgents(), misprintsOfZOS(), misprintsOfLinux()} {
		all = append(all, part...)
	}
	return all
}

func misprintsOfWindows() []Misprint {
	at := func(section, table string, page int) Place {
		return Place{Source: Windows, Page: page, Section: section, Table: table}
	}
	return []Misprint{
		{at("2.1.1, 2.2.1 and the summaries", "", 4), "65636", "65536",
			"chapter 2 lists the chunk sizes, and 65536 is 64 KiB"},
		{at("2.1.3 and 2.2.4", "", 15), "524228", "524288",
			"chapter 2 and the summaries have 524288, which is 512 KiB"},
		{at("2.1.3.8", "", 20), "100 MB, single transfer: 42.46 s", "45.55 s",
			"no such time was measured with 100 MB; 42.46 s is ten transfers of 1 MB files (2.1.2.4), while the quickest there is 45.55 s, also at 131072"},
		{at("2.1.1.4 and 2.1.3.8", "", 6), "1 MB multi before 100 MB single", "1, 10, 100 MB single, then multi",
			"every other table has that order; the times show that the names of the rows are right"},
		{at("2", "", 2), "2GB, 2000 files of 1 MB", "2048 MB",
			"every printed rate is 16384 megabits over the time; if 2000 MB were moved, the true rates are 2.3 percent lower"},
		{at("2.1.2.5 to 2.1.2.8", "", 11), "sections of 2.1.2, the chunk size 131072", "chunk size 262144",
			"the heading \"262144 ChunkSize\" lacks its number, so all that follow are numbered too low"},
		{at("2.1.3.5 to 2.1.3.8", "", 19), "sections of 2.1.3, the chunk size 524288", "the summary of bindings mode",
			"its heading lacks its number"},
		{at("title page", "", 0), "June 2018 on the title, First Edition, November 2018 behind it", "2018",
			"one of the two is wrong"},
		{at("3.1", "", 36), "DefaultPQBufferSize=1045876", "1048576",
			"two digits are exchanged: the other buffer is 1048576, 1 MiB (the Linux report and that on many agents have it too)"},
		{at("3.2", "", 36), "FTE_JVM_PROPERTIES=\"Xmx2048M Xms2048M\"", "\"-Xmx2048M -Xms2048M\"",
			"a Java virtual machine wants the hyphens, and the Linux report has them"},
	}
}

func misprintsOfAgents() []Misprint {
	at := func(section string, page int) Place { return Place{Source: Agents, Page: page, Section: section} }
	return []Misprint{
		{at("2.1.9", 0), "300 agents, 150 parallel transfers, 1500 files, 15GB", "400 agents, 200 transfers, 2000 files, 20 GB",
			"the sentence is that of 2.1.8; the heading, the four pairs of machines and table 3.2 have 400"},
		{at("2.1.10", 0), "300 agents, 150 parallel transfers, 1500 files, 15GB", "500 agents, 250 transfers, 2500 files, 25 GB",
			"the sentence is that of 2.1.8; the heading, the five pairs of machines and table 3.2 have 500"},
		{at("2.1.4", 7), "Source2 34.23%, Destination2 33.96%", "unknown",
			"the same two figures as in 2.1.3, to the last digit; they look copied. They stand here as printed"},
		{at("2", 2), "chapters 2.1 and 2.2", "2.1",
			"there is no chapter 2.2"},
	}
}

func misprintsOfZOS() []Misprint {
	cost := zos("CPU Cost Calculations on other System Z Systems", "")
	return []Misprint{
		{cost, "2094-703 used for the measurement", "2097-703",
			"the sentence before says that the measurement is for a 2097-703, and the conversion is to the 2094-703"},
		{cost, "2094-303, 2097-303", "2094-703, 2097-703",
			"no such model is spoken of elsewhere, and the figures are those of the 703s"},
		{Place{Source: ZOS, Page: 17, Section: "Cluster Channels or Sender-Receiver Channels?"},
			"chart 1 with chart 8, charts 2 and 9", "charts 10 and 11",
			"charts 8 and 9 are costs of z/OS to z/OS; rate and cost over cluster channels are charts 10 and 11"},
		{zos("Performance Headlines", ""), "messages of 1MB, messages of 10MB", "files of 1 MB, files of 10 MB",
			"a message is a chunk of 256 KB; the sizes measured are those of files"},
	}
}

func misprintsOfLinux() []Misprint {
	return []Misprint{
		{Place{Source: Linux, Page: 16, Section: "2.4 - 10MB Scenario Comparison"}, "2.4", "2.5", "the table of contents has 2.5"},
		{Place{Source: Linux, Page: 19, Section: "2.4 - 100MB Scenario Comparison"}, "2.4", "2.6", "the table of contents has 2.6"},
		{Place{Source: Linux, Page: 10, Section: "2.3"}, "Illustration 1: Figure 12", "Figure 12", "no other figure has a second name"},
	}
}
