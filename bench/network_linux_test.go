package bench

import (
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/transfer"
)

// pairOf starts a pair on a set of small files.
func pairOf(t *testing.T, e *Env, count int, size int64) (*Pair, *FileSet) {
	t.Helper()
	src := filepath.Join(e.Dir, "src")
	set, err := MakeFiles(filepath.Join(src, "set"), count, size, Random)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.StartPair(t.Context(), PairConfig{Dir: filepath.Join(e.Dir, "net"), SourceRoot: src, Lane: QueueLane})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, set
}

func TestPairMovesAndMeasures(t *testing.T) {
	e := newEnv(t)
	p, set := pairOf(t, e, 12, 5000)
	for _, parts := range []bool{false, true} {
		s, err := p.Move(t.Context(), set, Job{Lane: transfer.LaneQueue}, parts)
		if err != nil {
			t.Fatal(err)
		}
		if s.Files != 12 || s.Bytes != 60_000 || s.Lane != transfer.LaneQueue || s.Wall <= 0 {
			t.Errorf("parts %v: the sample is %+v", parts, s)
		}
		for _, r := range FerryRoles {
			if s.Peak[r] < 1<<20 || s.CPU[r] < 0 {
				t.Errorf("parts %v: the %s used %d bytes and %s", parts, r, s.Peak[r], s.CPU[r])
			}
		}
		if left, err := os.ReadDir(p.DestRoot); err != nil || len(left) != 0 {
			t.Errorf("parts %v: %d entries are left at the destination, %v", parts, len(left), err)
		}
	}
	sum, wall, err := p.Send(t.Context(), "-r", "SOURCE:set", "DEST:sent/")
	if err != nil || sum.Files != 12 || wall <= 0 {
		t.Errorf("send: %+v, %s, %v", sum, wall, err)
	}
	if err := set.Verify(filepath.Join(p.DestRoot, "sent", "set")); err != nil {
		t.Error(err)
	}
}

func TestFailureOfATransferIsAnError(t *testing.T) {
	e := newEnv(t)
	p, set := pairOf(t, e, 1, 10)
	if _, err := p.Transfer(t.Context(), Job{Source: SourceAgent, Dest: DestAgent, Sources: []transfer.Path{"none"}, To: "x"}); err == nil {
		t.Error("a transfer of a file that is not there has succeeded")
	}
	if _, _, err := p.Send(t.Context(), "SOURCE:none", "DEST:x"); err == nil {
		t.Error("a send of a file that is not there has succeeded")
	}
	p.procs[len(p.procs)-1].cmd.Process.Kill()
	<-p.procs[len(p.procs)-1].ended
	if err := p.Alive(); err == nil {
		t.Error("the end of a killed agent was not detected")
	}
	if _, err := p.Move(t.Context(), set, Job{}, false); err == nil {
		t.Error("a dead agent was measured")
	}
}
