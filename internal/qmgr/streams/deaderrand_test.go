package streams

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/wire"
)

// A letterSubjects is a stream that tells the subjects of its letters.
type letterSubjects struct {
	jetstream.Stream
	subjects map[string]uint64
}

func (s letterSubjects) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return &jetstream.StreamInfo{State: jetstream.StreamState{Subjects: s.subjects}}, nil
}

// A list reads the letters of other members only for those that may see one of them.
func TestListReadsOwnLetters(t *testing.T) {
	s := letterSubjects{subjects: map[string]uint64{"ferry.dead.request.ALPHA.eve.0011223344556677.9": 1, "ferry.dead.command.BETA.eve.1011223344556677.9": 1,
		"ferry.dead.request.ALPHA.ann.2011223344556677.9": 1}}
	for name, c := range map[string]struct {
		agent, administers, want string
	}{
		"a member":                            {"", "", "ferry.dead.*.*.ann.>"},
		"a member, of one agent":              {"BETA", "", "ferry.dead.*.BETA.ann.>"},
		"an administrator of one agent":       {"", "BETA", "ferry.dead.*.*.>"},
		"an administrator of a further agent": {"", "GAMMA", "ferry.dead.*.*.ann.>"},
	} {
		asked := 0
		task := DeadTask{Do: DeadList, Agent: c.agent, Asker: "ann", May: func(d *wire.DeadLetter) bool {
			asked++
			return d.From == "ann" || d.Agent == c.administers
		}}
		if got, err := task.filter(t.Context(), s); err != nil || got != c.want || asked > 2 {
			t.Errorf("%s reads %s after %d questions, %v; want %s", name, got, asked, err, c.want)
		}
	}
	task := DeadTask{Do: DeadList, Agent: "ALPHA"}
	if got, err := task.filter(t.Context(), s); err != nil || got != "ferry.dead.*.ALPHA.>" {
		t.Errorf("without an asker %s is read, %v", got, err)
	}
}
