package wire

import (
	"strings"
	"testing"
)

func TestStoredOfOpen(t *testing.T) {
	good := StoredState{Store: "2026-11-25T02:00:00Z", Epoch: 1, Last: 9, Ledger: "00000000000000ff.17"}
	if !good.fits() || !(*StoredState)(nil).fits() {
		t.Error("a valid value is refused")
	}
	for _, bad := range []StoredState{{}, {Store: "s"}, {Epoch: 1}, {Store: strings.Repeat("s", 65), Epoch: 1}, {Store: "s\n", Epoch: 1}, {Store: "s", Epoch: MaxEpoch}, {Store: "s", Epoch: 1, Last: MaxSeq + 1},
		{Store: "s", Epoch: 1, Ledger: strings.Repeat("l", 65)}, {Store: "s", Epoch: 1, Ledger: "l\n"}} {
		if bad.fits() {
			t.Errorf("%+v is taken", bad)
		}
	}
}
