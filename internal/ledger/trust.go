package ledger

// A Document is one document of a network in the ledger: its trust document, as it was signed, or the entries that were
// seen in its audit log.
type Document struct {
	t   *Tx
	key []byte
}

// Trust returns the trust document of a network.
func (t *Tx) Trust(network string) Document { return Document{t, []byte("trust " + network)} }

// Get returns a copy of the document; nil: the ledger has none.
func (d Document) Get() []byte {
	return append([]byte(nil), d.t.tx.Bucket(bMeta).Get(d.key)...)
}

// Put replaces the document.
func (d Document) Put(doc []byte) error { return d.t.tx.Bucket(bMeta).Put(d.key, doc) }
