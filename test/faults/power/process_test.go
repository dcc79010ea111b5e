//go:build linux

package power_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/faults/image"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

// TestCampaignPowerProcess cuts the power under --durability process. An outcome then survives a crash of the process,
// but not one of the host: files recorded as arrived may be lost with the power. All other promises hold. A file in the
// middle of its commit is sent again, because the boot ID has changed: zeros are never renamed (scenario 31). Files
// with sources to be deleted are durable all the same.
func TestCampaignPowerProcess(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "power-process", What: "with --durability process, the destination loses its power and comes back with another boot ID",
		Unit: "power cuts", Full: 20, Root: true, Tools: []string{"mkfs.ext4", "unshare", "mount", "sh"}},
		func(t *testing.T, c *campaign.C) { c.Cases(t, tellOfProcess) })
}

// steps are the failpoints of a commit. The destination kills itself at one of them, just before its power goes.
var steps = []string{"commit.after_committing", "commit.after_rename", "commit.before_dirsync", "commit.after_dirsync", "commit.after_committed"}

func tellOfProcess(t *testing.T, seed uint64, r *rand.Rand) {
	s := &story{t: t, r: r, images: map[string][]*image.Image{destination: disks(t, r, destination)}}
	disk := s.images[destination]
	boot := filepath.Join(t.TempDir(), "boot_id")
	newBoot(t, r, boot)
	setup := network.Setup{Ferry: campaign.Tagged(t, "failpoint"), Agents: []string{source, destination},
		Roots:  map[string]string{destination: disk[0].Dir + "/root"},
		States: map[string]string{destination: disk[len(disk)-1].Dir + "/state"},
		Wrap: map[string][]string{destination: {"unshare", "-m", "sh", "-c",
			`mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, boot}}}
	step := ""
	if r.IntN(4) > 0 {
		name := steps[r.IntN(len(steps))]
		step = fmt.Sprintf("FERRY_FAILPOINT=%s=kill@%d", name, 1+r.IntN(6))
		if name == "commit.after_rename" {
			step = fmt.Sprintf("FERRY_FAILPOINT=%s=kill@%d", name, 1+r.IntN(200))
		}
		setup.Env = map[string][]string{destination: {step}}
	}
	s.n = network.Up(t, setup)
	s.told = listen(t, s.n)
	s.makeProcess(seed)
	s.every([]string{destination}, (*image.Image).Sync)
	for _, j := range s.jobs {
		s.send(j, false)
	}
	if step == "" {
		s.lively = nil
		s.awaitMoment()
	} else {
		s.n.UntilEvery("the destination dies, or everything is over", moment, func() bool { return !s.n.Running(destination) || s.over() })
	}
	s.fall([]string{destination})
	excused, committing := s.recorded()
	newBoot(t, r, boot)
	s.n.Setenv(destination)
	s.n.Start(destination)
	s.endProcess(excused)
	t.Logf("%q, then the power cut (the canary was lost %d times); %d items were on record as arrived, %d as being committed", step, s.lost, len(excused), committing)
}

// newBoot gives the host of the destination another boot ID.
func newBoot(t *testing.T, r *rand.Rand, file string) {
	t.Helper()
	must(t, os.WriteFile(file, fmt.Appendf(nil, "%08x-%04x-4%03x-a%03x-%012x\n", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Uint64()>>16), 0o644))
}

// makeProcess makes jobs with --durability process, one of them with sources that are to be deleted.
func (s *story) makeProcess(seed uint64) {
	s.jobs = []*network.Job{
		{In: "in/small", Out: "out/small", Count: 600, Size: int64(s.r.IntN(32 << 10))},
		{In: "in/other", Out: "out/other", Count: 60, Size: int64(s.r.IntN(mib / 2)), Replace: true},
		{In: "in/moved", Out: "out/new/and/newer", Count: 30, Size: int64(1 + s.r.IntN(mib)), Delete: true, Deep: true},
		{In: "in/large", Out: "out/large", Count: 1, Size: int64(32+s.r.IntN(96)) * mib},
	}
	s.r.Shuffle(len(s.jobs), func(i, j int) { s.jobs[i], s.jobs[j] = s.jobs[j], s.jobs[i] })
	s.jobs = s.jobs[:1+s.r.IntN(3)]
	for k, j := range s.jobs {
		j.From, j.To, j.Seed, j.Flags = source, destination, seed*100+uint64(k), []string{"--durability", "process"}
		if s.r.IntN(2) == 0 { // then no digest tells zeros from the file
			j.Flags = append(j.Flags, "--checksum", "none")
		}
		s.n.Make(j)
	}
}

// recorded returns the files recorded as arrived at the power cut, and the number of files recorded as COMMITTING. It
// leaves out files with sources to be deleted: they must be present.
func (s *story) recorded() (excused map[string]bool, committing int) {
	s.t.Helper()
	excused = s.told.arrived() // outcomes that the source has acknowledged are no longer in the ledger
	readLedger(s.t, s.n.State(destination), func(l *onDisk) {
		l.items(func(_ transfer.ID, _ uint64, it *ledger.Item) {
			switch {
			case it.Outcome != nil && it.Outcome.OK():
				excused[string(it.Outcome.Path)] = true
			case it.Outcome == nil && it.Intent != nil:
				committing++
			}
		})
	})
	for _, j := range s.jobs {
		for _, c := range s.n.Copies(j) {
			if !j.Delete {
				continue
			}
			_, err := os.Lstat(c.Source)
			if gone := os.IsNotExist(err); gone || excused[c.Dest] {
				s.checkFile(c, true, gone)
			}
			delete(excused, c.Dest)
		}
	}
	return excused, committing
}

// endProcess waits for the end of all transfers and judges them. Of a file that may have been lost with the power it
// judges only the record.
func (s *story) endProcess(excused map[string]bool) {
	s.t.Helper()
	for _, x := range s.sent {
		x.job.ID = s.id(x)
	}
	s.n.Judge(func(f *judge.Facts) {
		for k := range f.Transfers {
			for i := range f.Transfers[k].Items {
				it := &f.Transfers[k].Items[i]
				it.Taken = excused[s.n.Path(destination, it.Dest[len(destination)+1:])]
			}
		}
	}, s.jobs...)
}
