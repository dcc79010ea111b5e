package transfer

// An Intent is the ledger's record of an item, from just before the item gets its final name until its outcome is
// recorded.
type Intent struct {
	Outcome Outcome `json:"outcome"`         // the outcome if the commit succeeds
	Place   []byte  `json:"place,omitempty"` // the place's own data for recovery after a crash; opaque to other code
	// FileID is kept in memory until the transfer ends, if files of the transfer may replace others. It is not stored.
	FileID *FileID `json:"-"`
}

// A FileID distinguishes a file of an item from other files of its place.
type FileID struct {
	Volume uint64 // such as a device
	Number uint64 // such as an inode; neighbours were often made one after another
	Stamp  uint32 // a checksum of other facts of the file
}
