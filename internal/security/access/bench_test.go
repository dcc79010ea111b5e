package access_test

import (
	"testing"

	"ferry/internal/security/access"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// BenchmarkPermit measures one decision about a file by the rules that a network begins with.
func BenchmarkPermit(b *testing.B) {
	j := access.NewJudge(network, nil, false)
	if err := j.Take(&trust.Document{Network: network, Number: 1, Policy: policy.Default, Users: map[string]string{"ann": "admin"}}); err != nil {
		b.Fatal(err)
	}
	may := j.For("ann", "ALPHA")
	b.ReportAllocs()
	for b.Loop() {
		if err := may(transfer.AuthSource, "/srv/data/out/2026/11/orders-000123.csv"); err != nil {
			b.Fatal(err)
		}
	}
}
