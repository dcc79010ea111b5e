package receiver

import (
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// An appender is a host with files.
type appender struct{ place.Host }

func (appender) Appends() {}

// A place that cannot append refuses before data is sent, for a transfer and for one of its targets.
func TestPlaceThatCannotAppend(t *testing.T) {
	type without struct{ place.Target }
	appending := transfer.Options{IfExists: transfer.IfExistsAppend}
	if err := mayAppend(without{}, transfer.Files, &appending); transfer.KindOf(err) != transfer.KindUsage {
		t.Error(err)
	}
	if err := mayAppend(without{}, transfer.Files, &transfer.Options{IfExists: transfer.IfExistsOverwrite}); err != nil {
		t.Error(err)
	}
	routed := place.NewRouter(appender{}, place.Route{Of: transfer.Queues, Target: without{}})
	if err := mayAppend(routed, transfer.Files, &appending); err != nil {
		t.Error(err)
	}
	if err := mayAppend(routed, transfer.Queues, &appending); transfer.KindOf(err) != transfer.KindUsage {
		t.Error(err)
	}
	g, err := resolveTarget(without{}, nil, transfer.Target{N: 1, Dest: transfer.File("x"), Options: appending})
	if err != nil || g.Error == nil || g.Error.Kind != transfer.KindUsage {
		t.Errorf("%v, %+v", err, g.Error)
	}
}
