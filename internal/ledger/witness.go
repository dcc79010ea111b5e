package ledger

// WitnessOf returns the document of the entries that an agent has seen in a network's audit log.
func WitnessOf(t *Tx, network string) Document { return Document{t, []byte("witness " + network)} }
