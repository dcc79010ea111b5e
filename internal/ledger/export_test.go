package ledger

// What the contract suite needs to see of the real store and the real files.
var OpenBolt = openBolt

type DirFiles = dirFiles

// DropReserve gives the reserve up, as a full disk makes it.
func (l *Ledger) DropReserve() { l.dropReserve() }
