//go:build linux

package power_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/faults/image"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

const (
	source      = "ALPHA"
	destination = "BETA"
)

// moment is the interval between two checks whether the time for a cut has come.
const moment = 500 * time.Microsecond

var everybody = []string{source, destination, network.QM}

func TestCampaignPowerSource(t *testing.T) {
	power(t, "power-source", "the source loses its power in the middle of several transfers", source)
}

func TestCampaignPowerDestination(t *testing.T) {
	power(t, "power-destination", "the destination loses its power in the middle of several transfers", destination)
}

func TestCampaignPowerQueueManager(t *testing.T) {
	power(t, "power-queue-manager", "the queue manager, coordination with it, loses its power in the middle of several transfers", network.QM)
}

func TestCampaignPowerAll(t *testing.T) {
	power(t, "power-all", "source, destination and queue manager lose their power together", everybody...)
}

func power(t *testing.T, name, what string, who ...string) {
	campaign.Run(t, campaign.Spec{Name: name, What: what, Unit: "power cuts", Full: 50, Root: true, Tools: []string{"mkfs.ext4"}},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) { tell(t, seed, r, who) })
		})
}

// A story is one case: transfers and a cut during them, sometimes with a second cut during the recovery from the first.
type story struct {
	t      *testing.T
	r      *rand.Rand
	n      *network.Network
	images map[string][]*image.Image // of each process: of its files and of its state, or one for both
	told   *told
	jobs   []*network.Job
	lively []*network.Job // small ones, sent one after another until the cut
	sent   []*sending
	cuts   int
	stood  map[string]string // identities of the files reported as arrived, at the first cut
	lost   int               // cuts that have removed the canary
	points int               // resume points compared with their temporaries
}

// A sending is a job with its running or ended command.
type sending struct {
	job     *network.Job
	command *network.Sending
	handed  bool // with --detach
}

func tell(t *testing.T, seed uint64, r *rand.Rand, who []string) {
	s := &story{t: t, r: r, images: map[string][]*image.Image{}}
	setup := network.Setup{Ferry: campaign.Ferry(t), Roots: map[string]string{}, States: map[string]string{}}
	for _, name := range everybody {
		s.images[name] = disks(t, r, name)
		setup.Roots[name] = s.images[name][0].Dir + "/root"
		setup.States[name] = s.images[name][len(s.images[name])-1].Dir + "/state"
	}
	s.n = network.Up(t, setup)
	s.begin(who)
	s.told = listen(t, s.n)
	s.make(seed)
	s.every(everybody, (*image.Image).Sync)
	for _, k := range r.Perm(len(s.jobs)) {
		s.send(s.jobs[k], r.IntN(2) == 0)
	}
	s.awaitMoment()
	s.cut(who)
	if r.IntN(3) == 0 {
		s.n.Launch(who...)
		pause(r, 300*time.Millisecond)
		s.cut(who)
	}
	s.n.Start(who...)
	s.end(who)
}

// begin starts the agents. Sometimes it cuts the power of the victims while they create their ledgers.
func (s *story) begin(who []string) {
	s.t.Helper()
	agents := []string{source, destination}
	for _, a := range agents {
		s.n.Add(a)
	}
	s.every(agents, (*image.Image).Sync)
	young := slices.DeleteFunc(slices.Clone(who), func(name string) bool { return name == network.QM })
	if len(young) > 0 && s.r.IntN(4) == 0 {
		s.n.Launch(young...)
		pause(s.r, 150*time.Millisecond)
		s.fall(young)
		s.cuts = 0 // no transfer was in flight
	}
	s.n.Start(agents...)
}

// disks makes the file systems of a process: one for its files and its state, or one for each. On one file system, a
// sync of the ledger also makes names of files durable. On two, each has to be synced by itself.
func disks(t *testing.T, r *rand.Rand, name string) []*image.Image {
	all := []*image.Image{image.New(t, name, image.Options(r))}
	if r.IntN(2) == 0 {
		all = append(all, image.New(t, name+"-state", image.Options(r)))
	}
	for _, im := range all {
		t.Logf("%s is mounted with %s", filepath.Base(im.Dir), im.Options)
	}
	return all
}

// every calls do with all file systems of processes.
func (s *story) every(who []string, do func(*image.Image)) {
	for _, name := range who {
		for _, im := range s.images[name] {
			do(im)
		}
	}
}

// make makes one to three jobs of different shapes, and small ones to be sent beside them.
func (s *story) make(seed uint64) {
	shapes := []network.Job{
		{In: "in/large", Out: "out/large", Count: 1, Size: int64(64+s.r.IntN(160)) * mib},
		{In: "in/small", Out: "out/small", Count: 600, Size: int64(s.r.IntN(32 << 10))},
		{In: "in/moved", Out: "out/new/and/newer", Count: 30 + s.r.IntN(40), Size: int64(1 + s.r.IntN(mib)), Delete: true, Deep: true},
		{In: "in/other", Out: "out/other", Count: 60, Size: int64(s.r.IntN(mib / 2)), Replace: true},
		{In: "in/log", Out: "out/log", Count: 30, Size: int64(s.r.IntN(mib)), Append: true},
		{In: "in/set", Out: "out/set", Count: 60, Size: int64(s.r.IntN(mib / 2)), Flags: []string{"--together"}},
		{In: "in/filed", Out: "out/filed", Count: 30, Size: int64(s.r.IntN(mib)), Archive: true},
	}
	for n, k := range s.r.Perm(len(shapes))[:1+s.r.IntN(3)] {
		j := &shapes[k]
		j.From, j.To, j.Seed = source, destination, seed*100+uint64(n)
		switch s.r.IntN(4) {
		case 0:
			j.Flags = append(j.Flags, "--checksum", "sha256")
		case 1:
			j.Flags = append(j.Flags, "--checksum", "none")
		}
		s.n.Make(j)
		s.jobs = append(s.jobs, j)
	}
	for k := range 20 {
		j := &network.Job{From: source, To: destination, In: fmt.Sprintf("in/lively%d", k), Out: fmt.Sprintf("out/lively/%d", k%3),
			Seed: seed*100 + 50 + uint64(k), Count: 1 + k%3, Size: 2000, Delete: k%2 == 0}
		s.n.Make(j)
		s.lively = append(s.lively, j)
	}
}

// send sends a job. If the command hands it over, no command reminds a source that has forgotten it.
func (s *story) send(j *network.Job, hand bool) {
	x := &sending{job: j, handed: hand}
	if hand {
		x.command = s.n.Hand(j)
	} else {
		x.command = s.n.Resubmit(j)
	}
	s.sent = append(s.sent, x)
}

// awaitMoment waits for a random moment: a number of bytes carried, a number of items decided, a time since the
// beginning, or the end of all transfers. Meanwhile it sends small transfers one after another.
func (s *story) awaitMoment() {
	s.t.Helper()
	var bytes, items int64
	for _, j := range s.jobs {
		bytes += int64(j.Count) * j.Size
		items += int64(j.Count)
	}
	bytes, items = int64(s.r.Float64()*float64(bytes)), int64(s.r.Float64()*float64(items))
	early := time.Now().Add(time.Duration(s.r.IntN(400)) * time.Millisecond)
	how := s.r.IntN(5)
	s.n.UntilEvery("it is time for the cut", moment, func() bool {
		s.amuse()
		carried, decided := s.told.sofar()
		switch {
		case how == 0 && time.Now().After(early), how < 3 && carried > bytes, how >= 3 && int64(decided) > items:
			return true
		}
		return s.over()
	})
	pause(s.r, 40*time.Millisecond)
}

// over reports whether every command has ended.
func (s *story) over() bool {
	return !slices.ContainsFunc(s.sent, func(x *sending) bool { return x.command.Running() })
}

// amuse sends the next small job when the previous one has ended.
func (s *story) amuse() {
	if len(s.lively) == 0 {
		return
	}
	if last := s.sent[len(s.sent)-1]; last.job.Size == 2000 && last.command.Running() {
		return
	}
	s.jobs = append(s.jobs, s.lively[0])
	s.send(s.lively[0], false)
	s.lively = s.lively[1:]
}

// pause waits for a random time, so that a cut does not always hit the same step.
func pause(r *rand.Rand, most time.Duration) {
	//house:sleep because the moment of a cut is to be a random one
	time.Sleep(time.Duration(r.Int64N(int64(most))))
}

// cut cuts the power of processes, all at once, and checks the disks.
func (s *story) cut(who []string) {
	s.t.Helper()
	for _, x := range s.sent {
		p := x.command.Last()
		if id, err := transfer.ParseID(p.ID); err == nil {
			s.told.accept(id, transfer.State(p.State))
		}
	}
	s.fall(who)
	s.ledgersStand(who)
	s.filesStand(who)
	if s.stood == nil {
		s.stood = identities(s.told.arrived())
	}
}

// fall cuts the power of processes and mounts the remains of their disks.
func (s *story) fall(who []string) {
	s.t.Helper()
	s.cuts++
	canary := s.images[who[0]][0].Dir + "/canary"
	must(s.t, os.WriteFile(canary, make([]byte, 1<<16), 0o600))
	alive := map[string]int{}
	for _, name := range who {
		if s.n.Running(name) {
			alive[name] = s.n.Pid(name)
		}
	}
	if s.r.IntN(3) == 0 && !slices.Contains(who, source) {
		// The disks go first, the ledger's before the files'. A process that lives a little longer must not report
		// anything that the disk has lost. A source that cannot read is left out: its items fail.
		for _, name := range who {
			for _, im := range slices.Backward(s.images[name]) {
				im.Cut()
			}
		}
		pause(s.r, 50*time.Millisecond)
	} else {
		s.freeze(alive)
		s.every(who, (*image.Image).Cut)
	}
	for name, pid := range alive {
		if s.n.Running(name) { // without its disk a process may end by itself
			syscall.Kill(pid, syscall.SIGKILL)
		}
		s.n.Gone(name)
	}
	s.every(who, (*image.Image).Remount)
	if info, err := os.Stat(canary); err != nil || info.Size() == 0 {
		s.lost++
	}
	os.Remove(canary)
}

// freeze stops processes.
func (s *story) freeze(who map[string]int) {
	s.t.Helper()
	for name := range who {
		s.n.Signal(name, syscall.SIGSTOP)
	}
	for name, pid := range who {
		s.n.Until(name+" stands still", func() bool { return still(pid) })
	}
}

// still reports whether no thread of a process runs its own code: each has stopped, or is in the kernel and will stop
// before it returns.
func still(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range tasks {
		data, readErr := os.ReadFile(name)
		if readErr != nil {
			continue // the thread has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if rest == "" || !strings.ContainsRune("TtDZX", rune(rest[0])) {
			return false
		}
	}
	return err == nil && len(tasks) > 0
}

// identities returns the inode and change time of files, which differ from those of other files under the same names.
func identities(paths map[string]bool) map[string]string {
	all := map[string]string{}
	for path := range paths {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			all[path] = fmt.Sprint(st.Ino, st.Ctim)
		}
	}
	return all
}

// end waits for the end of all transfers and judges them.
func (s *story) end(who []string) {
	s.t.Helper()
	for _, x := range s.sent {
		x.job.ID = s.id(x)
	}
	s.n.Judge(func(f *judge.Facts) {
		s.told.mu.Lock()
		defer s.told.mu.Unlock()
		for k := range f.Transfers {
			id, err := transfer.ParseID(f.Transfers[k].ID)
			must(s.t, err)
			if said := s.told.of[id]; said != nil && said.final != "" {
				f.Transfers[k].Finals = append(f.Transfers[k].Finals, string(said.final))
			}
		}
	}, s.jobs...)
	for path, was := range s.stood {
		if now := identities(map[string]bool{path: true})[path]; now != was {
			s.t.Errorf("%s was told to have arrived, and was replaced or changed after the cut", path)
		}
	}
	var summary []string
	for _, x := range s.sent {
		summary = append(summary, s.account(x))
	}
	if s.t.Failed() {
		for _, x := range s.sent {
			s.t.Logf("the audit of %s:\n%s", x.job.In, s.n.Ferry("audit", "show", x.job.ID).Stdout)
		}
	} else {
		s.n.Sound()
	}
	s.t.Logf("%s cut %d times (the canary was lost %d times, %d resume points were looked at); %s", strings.Join(who, "+"), s.cuts, s.lost, s.points, strings.Join(summary, "; "))
}

// id waits for the ID of the transfer that a command has made.
func (s *story) id(x *sending) string {
	s.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for x.command.Last().ID == "" && x.command.Running() {
		select {
		case <-tick.C:
		case <-limit.C:
			s.t.Fatalf("the command that sends %s (handed over: %t) still has no ID:\n%s", x.job.In, x.handed, x.command.Abort())
		}
	}
	return x.command.ID()
}

// account checks the cost of one transfer, and that it was accepted once.
func (s *story) account(x *sending) string {
	s.t.Helper()
	j := x.job
	for _, c := range s.n.Copies(j) {
		if _, err := os.Lstat(c.Source); err == nil && (j.Delete || j.Archive) {
			s.t.Errorf("%s was to be removed and is still there", c.Source)
		}
	}
	p := s.n.Status(j.ID)
	id, err := transfer.ParseID(j.ID)
	must(s.t, err)
	s.told.mu.Lock()
	carried := s.told.about(id).carried
	s.told.mu.Unlock()
	plain := int64(j.Count) * (j.Size + 512)
	again := max(p.BytesResent, carried-plain-plain>>8)
	if most := int64(s.cuts) * p.MayResend(); again > most {
		s.t.Errorf("transfer %s has sent %d bytes again after %d cuts; %d may be", j.ID, again, s.cuts, most)
	}
	if accepted := s.accepted(j.ID); accepted != 1 {
		s.t.Errorf("transfer %s was accepted %d times", j.ID, accepted)
	}
	if j.Size == 2000 {
		return "lively"
	}
	return fmt.Sprintf("%s %d x %d, resumes %d, again %d KiB, run-ahead %d KiB", j.In, j.Count, j.Size, p.Resumes, again>>10, p.RunAhead>>10)
}

// accepted returns the number of audit records that the source accepted a transfer.
func (s *story) accepted(id string) (count int) {
	s.t.Helper()
	for _, r := range s.n.Records(id) {
		if r.Event == "accepted" {
			count++
		}
	}
	return count
}
