package ledger

// TrustOf is the trust document of a network as it was signed; nil: none is kept.
func (t *Tx) TrustOf(network string) []byte {
	return append([]byte(nil), t.tx.Bucket(bMeta).Get([]byte("trust "+network))...)
}

// PutTrust keeps the trust document of a network, in place of the one before.
func (t *Tx) PutTrust(network string, doc []byte) error {
	return t.tx.Bucket(bMeta).Put([]byte("trust "+network), doc)
}
