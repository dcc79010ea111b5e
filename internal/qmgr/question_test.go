package qmgr

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
)

// An answer is whole with its last part. One that lacks a part is none, and the next answer is read from its first part on.
func TestPartsOfAnAnswer(t *testing.T) {
	data, other := qmgrtest.Noise(3*errands.PartSize+100), qmgrtest.Noise(2*errands.PartSize)
	first, second := errands.InParts("S", data), errands.InParts("S", other)
	if len(first) != 4 || len(second) != 2 {
		t.Fatalf("%d and %d parts", len(first), len(second))
	}
	for _, c := range []struct {
		name  string
		parts []*nats.Msg
		want  []byte // nil: it is not whole
	}{
		{"all", first, data},
		{"one part is lost", []*nats.Msg{first[0], first[2], first[3]}, nil},
		{"the first is lost", first[1:], nil},
		{"the last two have changed places", []*nats.Msg{first[0], first[1], first[3], first[2]}, nil},
		{"one came twice", []*nats.Msg{first[0], first[1], first[1], first[2], first[3]}, data},
		{"a part of another one is between", []*nats.Msg{first[0], first[1], second[1], first[2], first[3]}, data},
		{"another one follows a loss", []*nats.Msg{first[0], first[2], second[0], second[1]}, other},
	} {
		var g errands.AnswerAssembly
		whole := false
		for _, m := range c.parts {
			whole = g.Add(m)
		}
		if whole != (c.want != nil) || whole && !bytes.Equal(g.Data, c.want) {
			t.Errorf("%s: it is whole: %v, with %d bytes", c.name, whole, len(g.Data))
		}
	}
	if all := errands.InParts("S", make([]byte, errands.MaxAnswer)); len(all) > errands.PartsMost {
		t.Errorf("the largest answer has %d parts", len(all))
	}
}
