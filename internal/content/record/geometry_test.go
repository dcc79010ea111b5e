package record

import (
	"math/rand/v2"
	"testing"
)

// IBM's table of a 3390's capacity (z/OS DFSMS Using Data Sets, and the storage reference): the longest block for each
// number of blocks on a track.
func TestBlocksOnATrack(t *testing.T) {
	for blocks, longest := range map[int]int{1: 56664, 2: 27998, 3: 18452, 4: 13682, 5: 10796, 6: 8906, 10: 5064} {
		if got := BlocksPerTrack(longest); got != blocks {
			t.Errorf("%d blocks of %d bytes fit on a track, want %d", got, longest, blocks)
		}
		if got := BlocksPerTrack(longest + 1); got != blocks-1 {
			t.Errorf("%d blocks of %d bytes fit on a track, want %d", got, longest+1, blocks-1)
		}
	}
}

func TestReportsExample(t *testing.T) {
	const records = (1<<20 + 79) / 80
	for _, c := range []struct {
		blksize int
		tracks  int64
		share   float64
	}{{27920, 19, 18.78}, {6400, 21, 20.48}} {
		s, err := Summarize(nil, records*80, Attributes{FB, false, 80, c.blksize})
		if err != nil || s.Records != records || s.Space.Tracks() != c.tracks || s.Space.Share() < c.share-0.005 || s.Space.Share() > c.share+0.005 {
			t.Errorf("BLKSIZE %d: %d records take %d tracks (%.2f), %v; want %d (%.2f)", c.blksize, s.Records, s.Space.Tracks(), s.Space.Share(), err, c.tracks, c.share)
		}
	}
}

func TestManyBlocksAreAsOneAfterTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for range 300 {
		var one, many Track
		for range 5 {
			block, n := 1+rng.IntN(MaxBLKSIZE), rng.IntN(300)
			for range n {
				one.Add(block)
			}
			many.AddMany(block, int64(n))
			if one.Tracks() != many.Tracks() || one.Share() != many.Share() {
				t.Fatalf("%d blocks of %d: %v and %v", n, block, one, many)
			}
		}
	}
	var none Track
	if none.Tracks() != 0 || none.Share() != 0 {
		t.Error("no blocks take room")
	}
}
