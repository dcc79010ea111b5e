package audit

import (
	"testing"

	"ferry/internal/transfer"
)

// A log that another process has taken over appends nothing more, and its error is final. If ownership is unknown, the
// log appends nothing for now.
func TestALogThatIsTakenOver(t *testing.T) {
	l := open(t, t.TempDir())
	var why error
	l.Fence(func() error { return why })
	own := Record{Event: Warning, Text: "x"}
	if err := l.AppendOwn(own); err != nil {
		t.Fatal(err)
	}
	why = transfer.Errorf(transfer.KindBusy, "it cannot be read")
	if err := l.AppendOwn(own); transfer.KindOf(err) != transfer.KindBusy || l.Check() != nil && transfer.KindOf(l.Check()) == transfer.KindAlive {
		t.Errorf("while it cannot be told: %v", err)
	}
	why = nil
	if err := l.AppendOwn(own); err != nil {
		t.Fatal(err)
	}
	why = transfer.Errorf(transfer.KindAlive, "another one has it")
	size := l.Size()
	if err := l.AppendOwn(own); transfer.KindOf(err) != transfer.KindAlive || l.Size() != size {
		t.Errorf("after it was taken over: %v", err)
	}
	why = nil
	if err := l.Check(); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("that is not final: %v", err)
	}
}
