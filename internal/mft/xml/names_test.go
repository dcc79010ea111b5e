package xml

import (
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// A request that names files is the same request again after XML, or is not written. No name becomes a pattern, a data
// set or a queue.
func TestHostileNames(t *testing.T) {
	written := 0
	for _, name := range transfertest.Hostile() {
		q, err := parsed(t, []byte(plain())).Request(someID)
		if err != nil {
			t.Fatal(err)
		}
		q.Items[0].Source, q.Dest = transfer.File(transfer.Path(name)), transfer.File(transfer.Path("in/"+name))
		text, err := Write(q)
		if transfer.KindOf(err) == transfer.KindUsage {
			continue // it has bytes that XML cannot have
		}
		d, perr := Parse(text)
		if err != nil || perr != nil {
			t.Errorf("%q: %v, %v", name, err, perr)
			continue
		}
		again, err := d.Request(someID)
		if err != nil || again.Items[0].Source != q.Items[0].Source || again.Dest != q.Dest {
			t.Errorf("%q: %+v, %v", name, again, err)
		}
		written++
	}
	if written < 200 {
		t.Errorf("%d names were written", written)
	}
}
