package receiver

import (
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A place that cannot append refuses before data is sent, for a transfer and for one of its targets.
func TestPlaceThatCannotAppend(t *testing.T) {
	type without struct{ place.Target }
	appending := transfer.Options{IfExists: transfer.IfExistsAppend}
	if err := mayAppend(without{}, &appending); transfer.KindOf(err) != transfer.KindUsage {
		t.Error(err)
	}
	if err := mayAppend(without{}, &transfer.Options{IfExists: transfer.IfExistsOverwrite}); err != nil {
		t.Error(err)
	}
	g, err := resolveTarget(without{}, nil, transfer.Target{N: 1, Dest: transfer.File("x"), Options: appending})
	if err != nil || g.Error == nil || g.Error.Kind != transfer.KindUsage {
		t.Errorf("%v, %+v", err, g.Error)
	}
}
