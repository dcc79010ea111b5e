package streams

import (
	"fmt"
	"time"
)

// Settled is the time for which a replicated queue must appear to have gone back before it counts as damaged. A new
// leader may for a moment not have read all agreed entries. A real loss stays visible.
const Settled = 10 * time.Second

// A Mark is the position of a stream.
type Mark struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"` // sequence of the newest message that it ever had
	Copies  int       `json:"copies,omitempty"`
}

func (m Mark) Equal(o Mark) bool { return m.Last == o.Last && m.Created.Equal(o.Created) }

// Lost describes the loss of a stream with the earlier mark was and the present mark now. It returns "" if there is
// none.
func (was Mark) Lost(stream string, now Mark) string {
	switch {
	case was.Last == 0: // it had nothing
	case !was.Created.IsZero() && !was.Created.Equal(now.Created):
		return fmt.Sprintf("stream %s was made anew: its earlier messages may be lost", stream)
	case now.Last < was.Last:
		return fmt.Sprintf("stream %s went back from message %d to message %d: the messages in between are lost", stream, was.Last, now.Last)
	}
	return ""
}
