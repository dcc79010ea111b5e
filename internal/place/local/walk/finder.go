package walk

import "ferry/internal/place/local/disk"

// A Finder finds files beneath an agent's roots: it walks sources, scans directories and lists names. It is safe for
// concurrent use.
type Finder struct {
	roots       *disk.Roots
	optional    *disk.OptionalFiles // for the directories of deep walks
	recordRoot  string              // the directory of data sets
	scratch     string              // a directory for names that are too many for memory; empty: they stay in memory
	namesMemory int64               // of a walk for names, in bytes
}

// NewFinder returns a Finder. recordRoot is the directory of data sets. scratch is a directory for names that are too
// many for memory; with an empty one they stay in memory. memory is the memory of a walk for names, in bytes; 0 is 2 MiB.
func NewFinder(roots *disk.Roots, optional *disk.OptionalFiles, recordRoot, scratch string, memory int64) *Finder {
	if memory == 0 {
		memory = namesMemory
	}
	return &Finder{roots: roots, optional: optional, recordRoot: recordRoot, scratch: scratch, namesMemory: memory}
}
