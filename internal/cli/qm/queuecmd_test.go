package qm

import (
	"errors"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// A message that was put without an answer may be in the queue. One that was refused is not.
func TestPutWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		err    error
		unsure bool
	}{
		{transfer.Errorf(transfer.KindTimeout, "coordination has not answered within 5s"), true},
		{transfer.Errorf(transfer.KindNoManager, "the connection is lost"), true},
		{transfer.Errorf(transfer.KindUnreachable, "coordination does not answer"), false},
		{transfer.Errorf(transfer.KindNoSpace, "the queue Q is full"), false},
		{transfer.Errorf(transfer.KindDenied, "bob may not operate"), false},
	} {
		err := unanswered("Q", c.err)
		unsure := strings.Contains(err.Error(), "may have been stored")
		if unsure != c.unsure || unsure && transfer.KindOf(err).Code() != transfer.CodeNoManager || !errors.Is(err, c.err) {
			t.Errorf("%v becomes %v, code %d", c.err, err, transfer.KindOf(err).Code())
		}
	}
	if err := unanswered("Q", nil); err != nil {
		t.Error(err)
	}
}
