package transfer

// IntentVersion is the version of Intent that this code writes.
const IntentVersion = 1

// An Intent is what the ledger holds of an item from just before its rename
// until its outcome: everything by which Recover decides it after a crash.
type Intent struct {
	V        int       `json:"v"`
	Outcome  Outcome   `json:"outcome"`
	Name     Path      `json:"name"`
	Temp     string    `json:"temp,omitempty"` // the temporary's name in its directory
	Ino      uint64    `json:"ino,omitempty"`
	Dev      uint64    `json:"dev,omitempty"`
	DirIno   uint64    `json:"dir_ino,omitempty"` // of the directory that holds the temporary
	DirDev   uint64    `json:"dir_dev,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Sum      string    `json:"sum,omitempty"`
	Boot     string    `json:"boot,omitempty"`
	Durable  bool      `json:"durable,omitempty"`
	Replaces *Identity `json:"replaces,omitempty"` // of the file that is overwritten
	Mode     uint32    `json:"mode"`
	Mtime    int64     `json:"mtime"`
	Beside   *Beside   `json:"beside,omitempty"`
}

// A Beside is a small file of Ferry's own that goes with an item, and says what
// the item's bytes do not. Without data there is to be none.
type Beside struct {
	Data  []byte `json:"data,omitempty"`
	Above bool   `json:"above,omitempty"` // it goes with the directory that the item is in, and holds for all that is there
	Was   []byte `json:"was,omitempty"`   // what lay there before, to be put back if the item does not get its name; nil: nothing
}
