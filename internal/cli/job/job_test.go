package job

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/job"
	"ferry/internal/cli/follow"
	"ferry/internal/transfer"
)

func child(n int, to string, state transfer.State) job.Child {
	return job.Child{N: n, Destination: transfer.AgentName(to), Dest: transfer.File("in/"), Transfer: transfer.NewID(time.Now()), State: state}
}

// The wait for a job ends when the job has ended, or when all of its transfers have ended or are parked.
func TestJobIsOver(t *testing.T) {
	for _, c := range []struct {
		of           []job.Child
		ended        time.Time
		over, parked bool
	}{
		{[]job.Child{child(1, "BETA", transfer.Successful), child(2, "CHI", transfer.Failed)}, time.Now(), true, false},
		{[]job.Child{child(1, "BETA", transfer.Successful), child(2, "CHI", transfer.Failed)}, time.Time{}, false, false}, // about to be written down
		{[]job.Child{child(1, "BETA", transfer.Parked), child(2, "CHI", transfer.Failed)}, time.Time{}, true, true},
		{[]job.Child{child(1, "BETA", transfer.Parked), child(2, "CHI", transfer.Running)}, time.Time{}, false, false},
		{[]job.Child{child(1, "BETA", transfer.Parked), child(2, "CHI", transfer.Queued)}, time.Time{}, false, false},
		{[]job.Child{child(1, "BETA", transfer.Parked), {N: 2, State: transfer.Queued}}, time.Time{}, true, true},
		{[]job.Child{child(1, "BETA", transfer.Successful), {N: 2, State: transfer.Queued}}, time.Time{}, false, false},
	} {
		if over, parked := ended(&job.Shown{Job: job.Job{Ended: c.ended}, Of: c.of}); over != c.over || parked != c.parked {
			t.Errorf("%+v: %t %t", c, over, parked)
		}
	}
}

// TestSourcesThatAJobLeaves: the end of a job names each transfer that left sources undeleted, as the end of
// that transfer would, with the result code of the job.
func TestSourcesThatAJobLeaves(t *testing.T) {
	of := []job.Child{child(1, "BETA", transfer.Successful), child(2, "CHI", transfer.Successful)}
	of[1].Counts = transfer.Counts{Files: 2, Warnings: 1, TimesNotKept: 2}
	for _, quiet := range []bool{false, true} {
		var stderr strings.Builder
		cmd := &cobra.Command{}
		cmd.SetOut(io.Discard)
		cmd.SetErr(&stderr)
		w := &jobWatch{cmd: cmd, view: follow.NewView(cmd, false, quiet)}
		if err := w.finish(&job.Shown{Job: job.Job{State: transfer.Successful}, Of: of}, false); err != nil {
			t.Errorf("the command ends with %v", err)
		}
		id := of[1].Transfer.String()
		want := "ferry: could not delete 1 source; `ferry audit show " + id + "` says why\n" +
			"ferry: 2 items with a modification time before 1677 or after 2262 got the time of arrival; `ferry audit show " + id + "` names them\n"
		if stderr.String() != want {
			t.Errorf("the command says %q, want %q", stderr.String(), want)
		}
	}
}
