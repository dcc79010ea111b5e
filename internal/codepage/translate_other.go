//go:build !amd64

package codepage

// blocks are the blockwise translations: none.
func blocks() []blockwise { return nil }
