package published

// Pages of the z/OS report by the heading of its table of contents.
var zosPages = map[string]int{
	"Performance Headlines":                           6,
	"Inbound to System Z":                             9,
	"System Z to System Z":                            12,
	"Tuning your Network (Stack)":                     21,
	"Does the number of processors affect MQFTE?":     22,
	"Will a zAAP processor save processing costs?":    24,
	"Optimising BLKSIZE":                              28,
	"WebSphere MQ Queue Manager Configuration":        30,
	"Queue Manager – Put to Waiting Getter":           31,
	"MQFTE's Queue Usage":                             32,
	"Channel Attribute NPMSPEED":                      33,
	"Channel Attributes COMPHDR and COMPMSG":          35,
	"MQFTE – Advanced Tuning Options":                 36,
	"agentChunkSize":                                  38,
	"agentWindowSize":                                 39,
	"agentFrameSize":                                  40,
	"agentCheckpointInterval":                         41,
	"Multiple Concurrent File Transfers":              42,
	"CPU Cost Calculations on other System Z Systems": 47,
}

func zos(section, chart string) Place {
	return Place{Source: ZOS, Page: zosPages[section], Section: section, Table: chart}
}

// Remarks returns the figures in the text of the reports.
func Remarks() []Remark {
	var all []Remark
	for _, part := range [][]Remark{headlines(), tuning(), queues(), processors(), records(), channel()} {
		all = append(all, part...)
	}
	return all
}

func headlines() []Remark {
	at := zos("Performance Headlines", "")
	return []Remark{
		{at, "rate-1MB", "files of 1 MB, 1 GB in all, default settings", 20, 25, "MB/s"},
		{at, "rate-1MB-tuned", "files of 1 MB after tuning", 30, 0, "MB/s"},
		{at, "rate-large", "files of 10 MB and more over one channel", 52, 0, "MB/s"},
		{at, "of-ftp", "binary rate over the rate of FTP", 0.5, 0, "times"},
		{at, "text-of-ftp", "text rate with several transfers at once over the rate of FTP, Linux to z/OS, at least", 1, 0, "times"},
		{zos("System Z to System Z", "Chart 6"), "rate-zos-to-zos", "greatest rate between two z/OS systems", 52, 0, "MB/s"},
		{zos("System Z to System Z", "Charts 8 and 9"), "text-receiver-cost", "CPU of the receiving system over that of the sending one, text mode", 2, 4, "times"},
		{zos("System Z to System Z", "Charts 8 and 9"), "binary-receiver-cost", "the same, binary mode: \"similar\"", 1, 0, "times"},
		{zos("Inbound to System Z", "Chart 3"), "enqueues-1MB", "enqueues on SYSZTIOT in a run with files of 1 MB", 1957, 0, "enqueues"},
		{zos("Inbound to System Z", "Chart 3"), "enqueues-10MB", "enqueues on SYSZTIOT in a run with files of 10 MB", 20, 0, "enqueues"},
		{zos("Inbound to System Z", "Chart 3"), "contention-1MB", "time waited for SYSZTIOT in an interval of 55.946 s, files of 1 MB", 12.139, 0, "s"},
	}
}

func tuning() []Remark {
	return []Remark{
		{zos("MQFTE – Advanced Tuning Options", ""), "default-chunk", "agentChunkSize by default", 262144, 0, "bytes"},
		{zos("MQFTE – Advanced Tuning Options", ""), "default-window", "agentWindowSize by default", 10, 0, "chunks"},
		{zos("MQFTE – Advanced Tuning Options", ""), "default-frame", "agentFrameSize by default", 5, 0, "windows"},
		{zos("MQFTE – Advanced Tuning Options", ""), "default-checkpoint", "agentCheckpointInterval by default", 1, 0, "frames"},
		{zos("MQFTE – Advanced Tuning Options", ""), "data-per-checkpoint", "data between two checkpoints by default", 12800, 0, "KB"},
		{zos("agentChunkSize", "Chart 27"), "chunk-512-small-files", "more rate with chunks of 512 KB than of 256 KB, files of 1 MB", 20, 0, "percent"},
		{zos("agentChunkSize", "Chart 27"), "chunk-best-large-files", "best agentChunkSize for large files", 128, 0, "KB"},
		{zos("agentWindowSize", "Chart 28"), "window-best-large-files", "best agentWindowSize for larger files", 10, 0, "chunks"},
		{zos("agentWindowSize", "Chart 28"), "window-best-small-files", "best agentWindowSize for smaller files", 40, 0, "chunks"},
		{zos("agentWindowSize", "Chart 28"), "window-40-small-files", "more rate with a window of 40 than of 10, smaller files", 25, 0, "percent"},
		{zos("agentFrameSize", "Chart 29"), "frame-best-large-files", "best agentFrameSize for files of 10 MB and larger", 5, 0, "windows"},
		{zos("agentFrameSize", "Chart 30"), "frame-1-checkpoint", "data between two checkpoints with agentFrameSize 1", 2.5, 0, "MB"},
		{zos("agentCheckpointInterval", "Chart 31"), "checkpoint-1-to-8", "data between two checkpoints with agentCheckpointInterval 1 to 8", 12.5, 100, "MB"},
		{zos("agentCheckpointInterval", "Chart 31"), "checkpoint-8-small-files", "CPU saved for each KB with agentCheckpointInterval 8, files of 1 MB", 4, 0, "µs"},
		{zos("Multiple Concurrent File Transfers", ""), "rate-single", "greatest rate of a single transfer on a network of 1 Gbit/s", 50, 0, "MB/s"},
		{zos("Multiple Concurrent File Transfers", "Chart 32"), "two-transfers-small-files", "more rate with two transfers at once than with one, smaller files", 30, 0, "percent"},
		{zos("Multiple Concurrent File Transfers", "Chart 33"), "two-transfers-text", "rate of text with two transfers at once over that of binary", 1, 0, "times"},
	}
}

func queues() []Remark {
	at := zos("WebSphere MQ Queue Manager Configuration", "")
	return []Remark{
		{at, "messages-on-data", "most messages on DATA when the receiving agent stops in mid-transfer", 50, 0, "messages"},
		{at, "buffers-for-data", "buffers that those messages fill", 12800, 0, "KB"},
		{at, "pages-for-data", "the same in pages", 3200, 0, "pages"},
		{zos("Queue Manager – Put to Waiting Getter", ""), "waiting-getter", "less CPU when a message goes straight to a waiting getter, messages of 4 MB", 40, 0, "percent"},
		{zos("MQFTE's Queue Usage", ""), "put-16KB", "cost of one persistent message of 16 KB", 138, 0, "µs"},
		{zos("MQFTE's Queue Usage", ""), "put-1MB", "cost of one persistent message of 1 MB", 2561, 0, "µs"},
		{zos("Channel Attribute NPMSPEED", "Chart 25"), "normal-private", "less rate with NPMSPEED(NORMAL), private queues", 20, 0, "percent"},
		{zos("Channel Attribute NPMSPEED", "Chart 25"), "normal-shared", "less rate with NPMSPEED(NORMAL), shared queues", 50, 0, "percent"},
		{zos("Channel Attributes COMPHDR and COMPMSG", ""), "header", "a message's header", 476, 0, "bytes"},
		{zos("Channel Attributes COMPHDR and COMPMSG", ""), "header-compressed", "the same with COMPHDR(SYSTEM)", 65, 0, "bytes"},
		{zos("Channel Attributes COMPHDR and COMPMSG", ""), "header-saved", "bytes saved on each message", 411, 0, "bytes"},
	}
}

func processors() []Remark {
	zaap := "Will a zAAP processor save processing costs?"
	at := zos("CPU Cost Calculations on other System Z Systems", "")
	return []Remark{
		{zos(zaap, "Chart 19"), "zaap-binary-small-files", "part of the CPU that a zAAP takes over, binary, small files", 1.0 / 2, 0, "times"},
		{zos(zaap, "Chart 19"), "zaap-binary-large-files", "part of the CPU that a zAAP takes over, binary, larger files", 1.0 / 3, 0, "times"},
		{zos(zaap, "Chart 21"), "zaap-text", "part of the CPU that a zAAP takes over, text", 2.0 / 3, 0, "times"},
		{at, "itr-2097-703", "Internal Throughput Ratio of a 2097-703 with 3 processors, mixed workload", 4.15, 0, "ITR"},
		{at, "itr-2094-703", "Internal Throughput Ratio of a 2094-703 with 3 processors, mixed workload", 2.72, 0, "ITR"},
		{at, "itr-ratio", "one processor of the second over one of the first", 0.655, 0, "times"},
		{at, "busy-example", "640 ms of CPU in a second on 3 processors", 21.33, 0, "percent"},
	}
}

func records() []Remark {
	at := zos("Optimising BLKSIZE", "")
	return []Remark{
		{at, "tracks-27920", "3390 tracks for a file of 1 MB, LRECL 80, BLKSIZE 27920", 18.9, 0, "tracks"},
		{at, "space-27920", "the same in megabytes", 1.02, 0, "MB"},
		{at, "tracks-6400", "3390 tracks for a file of 1 MB, LRECL 80, BLKSIZE 6400", 21.0, 0, "tracks"},
		{at, "space-6400", "the same in megabytes", 1.135, 0, "MB"},
		{at, "space-more", "more space with BLKSIZE 6400 than with 27920", 11, 0, "percent"},
	}
}

func channel() []Remark {
	at := Place{Source: Technote, Section: "Cause"}
	return []Remark{
		{at, "segment", "bytes written at once, and size of the send buffer", 32766, 0, "bytes"},
		{at, "delay", "time between two writes, \"mostly over\"", 200, 0, "ms"},
		{at, "stalled-rate", "greatest rate because of that", 150, 0, "KB/s"},
	}
}
