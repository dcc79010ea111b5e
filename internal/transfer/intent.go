package transfer

// An Intent is what the ledger holds of an item from just before it gets its name
// until its outcome is recorded.
type Intent struct {
	Outcome Outcome `json:"outcome"`         // the one that it will have if all goes well
	Place   []byte  `json:"place,omitempty"` // by which its place decides it after a crash; nobody else reads that
	// Mark is kept until the transfer ends, where files of the transfer may replace others. It is no part of the record.
	Mark *Mark `json:"-"`
}

// A Mark tells a file that an item has brought from other files of its place.
type Mark struct {
	Volume uint64 // such as a device
	Number uint64 // such as an inode; neighbours were often made one after another
	Stamp  uint32 // a checksum of other facts of the file
}
