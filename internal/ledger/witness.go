package ledger

// WitnessOf is where it is kept what an agent has seen of a network's audit log.
func WitnessOf(t *Tx, network string) Document { return Document{t, []byte("witness " + network)} }
