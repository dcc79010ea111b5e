package transfer

// An Intent is what the ledger holds of an item from just before it gets its name
// until its outcome is recorded.
type Intent struct {
	Outcome Outcome `json:"outcome"`         // the one that it will have if all goes well
	Place   []byte  `json:"place,omitempty"` // by which its place decides it after a crash; nobody else reads that
}
