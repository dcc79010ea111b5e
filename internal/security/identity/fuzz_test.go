package identity

import (
	_ "embed"
	"testing"
)

//go:embed testdata/roots.pem
var testRoots string

// FuzzRoots: accepted certificates of a network are written, and read again as the same.
func FuzzRoots(f *testing.F) {
	for _, s := range []string{"", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", testRoots} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadRoots(data)
		if err != nil {
			return
		}
		again, err := ReadRoots(r.PEM())
		if err != nil || again.Hash() != r.Hash() || len(again.Issuers) != len(r.Issuers) {
			t.Fatalf("%v", err)
		}
	})
}
