//go:build linux

package disk_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignDiskFull fills a disk. Work that needs the disk waits and gives the reason; other work continues. No data
// are lost, no incomplete file has a final name, and all transfers end when there is space again.
func TestCampaignDiskFull(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "disk-full", What: "disks full by blocks and by inodes at a random point: of the destination's data, of either ledger, of the queue manager's store, of the audit log",
		Unit: "full disks", Full: 120, Short: 4, Root: true},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				k := int((seed - 1) % uint64(len(disks)*2*len(loads)))
				f := &filling{t: t, r: r, seed: seed, disk: &disks[k%len(disks)], inodes: k/len(disks)%2 == 1, load: &loads[k/len(disks)/2]}
				t.Logf("%s is full of %s; it is sent: %s", f.disk.name, map[bool]string{true: "inodes", false: "blocks"}[f.inodes], f.load.name)
				f.up()
				f.disk.try(f)
				f.n.NoTemporaries("ALPHA", "BETA")
				f.n.Sound()
			})
		})
}

// A load is a number of files of one size, sent by one transfer or by one transfer each.
type load struct {
	name  string
	files int
	size  int64
	each  bool
}

var loads = []load{
	{"one large file", 1, 40 * mib, false},
	{"many small files", 500, 6 << 10, false},
	{"files of some size", 8, 3 * mib, false},
	{"several files, each by itself", 8, 12 * mib, true},
}

// A disk is a disk that gets full: its name, its agent, and the test on it.
type disk struct {
	name   string
	size   int64
	inodes int
	of     string
	try    func(f *filling)
}

var disks = []disk{
	{"the disk of the destination's data", 64 * mib, 4000, "", (*filling).data},
	{"the disk of the destination's ledger", 24 * mib, 100, "BETA", (*filling).ledger},
	{"the disk of the source's ledger", 24 * mib, 100, "ALPHA", (*filling).ledger},
	{"the disk of the queue manager's store", 24 * mib, 400, "", (*filling).store},
	{"the disk of the audit log", 24 * mib, 100, "", (*filling).log},
}

// A filling is one case.
type filling struct {
	t      *testing.T
	r      *rand.Rand
	seed   uint64
	disk   *disk
	inodes bool
	load   *load
	n      *network.Network
	mount  string
	empty  func() // makes space again
	more   int
}

// up starts a network with the disk in its place and sends once, so that all permanent files exist.
func (f *filling) up() {
	f.t.Helper()
	f.mount = f.t.TempDir()
	must(f.t, unix.Mount("ferry-faults", f.mount, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", f.disk.size, f.disk.inodes)))
	f.t.Cleanup(func() { unix.Unmount(f.mount, unix.MNT_DETACH) })
	s := network.Setup{Ferry: campaign.Ferry(f.t), Agents: []string{"ALPHA", "BETA"}, Dir: f.t.TempDir(), Roots: map[string]string{}, States: map[string]string{}}
	below := map[string]string{"the disk of the queue manager's store": "qm", "the disk of the audit log": "coordination"}[f.disk.name]
	switch {
	case below != "":
		must(f.t, os.MkdirAll(s.Dir+"/state/"+network.QM, 0o755))
		must(f.t, os.Symlink(f.mount, s.Dir+"/state/"+network.QM+"/"+below))
	case f.disk.of != "":
		s.States[f.disk.of] = f.mount
	default:
		s.Roots["BETA"] = f.mount
	}
	f.n = network.Up(f.t, s)
	f.n.Files("ALPHA", "more", 77, 100, 100)
	f.another().Wait().Ends("successful", 0)
	f.n.Files("ALPHA", "in", f.seed, f.load.files, f.load.size)
	must(f.t, os.Chmod(f.n.Path("ALPHA", "in"), 0o777)) // as a new directory at the destination, where there is no umask
}

// another starts a transfer of a few small files.
func (f *filling) another() *network.Sending {
	f.t.Helper()
	f.more++
	return f.n.SendAsync("-r", "ALPHA:more", fmt.Sprint("BETA:more", f.more))
}

// fill uses up the disk except for leave bytes or inodes.
func (f *filling) fill(leave int64) {
	f.t.Helper()
	dir := f.mount + "/ballast"
	must(f.t, os.Mkdir(dir, 0o755))
	f.empty = func() { must(f.t, os.RemoveAll(dir)) }
	var st unix.Statfs_t
	if f.inodes {
		must(f.t, unix.Statfs(f.mount, &st))
		for k := range int64(st.Ffree) - leave {
			if err := os.WriteFile(fmt.Sprint(dir, "/", k), nil, 0o600); !errors.Is(err, unix.ENOSPC) { // another program was quicker
				must(f.t, err)
			}
		}
		return
	}
	b, err := os.Create(dir + "/blocks")
	must(f.t, err)
	defer b.Close()
	for { // the used space may grow between the two calls
		must(f.t, unix.Statfs(f.mount, &st))
		size := int64(st.Bavail)*int64(st.Bsize) - leave
		if size <= 0 {
			return
		}
		if err := unix.Fallocate(int(b.Fd()), 0, 0, size); err != unix.ENOSPC {
			must(f.t, err)
			return
		}
	}
}

// nearly fills the disk except for at most two pages or inodes.
func (f *filling) nearly() {
	f.t.Helper()
	leave := f.r.Int64N(3)
	if !f.inodes {
		leave *= 4096
	}
	f.fill(leave)
}

// send starts the load.
func (f *filling) send() (all []*network.Sending) {
	f.t.Helper()
	if !f.load.each {
		return []*network.Sending{f.n.SendAsync("-r", "ALPHA:in", "BETA:out/")}
	}
	for k := range f.load.files {
		all = append(all, f.n.SendAsync(fmt.Sprintf("ALPHA:in/%06d", k), "BETA:out/in/"))
	}
	return all
}

// underWay starts the load and freezes the agent while files arrive.
func (f *filling) underWay(agent string) []*network.Sending {
	f.t.Helper()
	all := f.send()
	f.n.UntilEvery("files are arriving", 1e6, func() bool {
		return len(f.n.Temporaries("BETA")) > 0 || len(f.n.Landed("BETA", "out/in")) > 0
	})
	f.n.Freeze(agent)
	return all
}

// arrived expects the load to have ended successfully, with equal files and audit records.
func (f *filling) arrived(all []*network.Sending) {
	f.t.Helper()
	items := 0
	for _, s := range all {
		sum := s.Wait().Ends("successful", 0).Summary
		items += len(f.n.Outcomes(f.n.Audit(sum.ID), "destination"))
	}
	f.n.Same("ALPHA", "in", "BETA", "out/in")
	want := f.load.files
	if !f.load.each {
		want++ // the directory
	}
	if items != want {
		f.t.Errorf("the destination has %d items on record, not %d", items, want)
	}
}

// data fills the destination's disk.
func (f *filling) data() {
	f.t.Helper()
	if f.load.each {
		f.consumed()
		return
	}
	need := int64(f.load.files)
	if !f.inodes {
		need *= f.load.size
	}
	f.fill(f.r.Int64N(need))
	all := f.send()
	p := f.n.WaitState(all[0].ID(), "waiting")
	f.saysNoSpace(p)
	for name := range f.n.Landed("BETA", "out/in") {
		network.SameTree(f.t, f.n.Path("ALPHA", "in/"+name), f.n.Path("BETA", "out/in/"+name))
	}
	if kept := len(f.n.Landed("ALPHA", "in")); kept != f.load.files {
		f.t.Errorf("of %d sources %d are left", f.load.files, kept)
	}
	if a := f.n.AgentOf("BETA"); a.State != "READY" && a.State != "ACTIVE" {
		f.t.Errorf("BETA is %s while its disk is full", a.State)
	}
	f.empty()
	f.arrived(all)
}

// saysNoSpace expects a transfer to wait for space and to name the reason.
func (f *filling) saysNoSpace(p network.Progress) {
	f.t.Helper()
	if p.Reason == nil || p.Reason.Kind != transfer.KindNoSpace {
		f.t.Fatalf("it waits for %v", p.Reason)
	}
	if inodes := strings.HasPrefix(p.Reason.Text, "no inodes"); inodes != f.inodes && !strings.HasPrefix(p.Reason.Text, "no space at ") {
		f.t.Errorf("it is full of inodes: %v; it says %q", f.inodes, p.Reason.Text)
	}
	file := regexp.QuoteMeta(f.n.Path("BETA", "out")) + `(/in(/\d{6})?)?`
	for _, text := range []string{
		"^" + file + ` needs [\d.]+ \w+, and [\d.]+ \w+ are free$`,
		"^no space is left for " + file + ": no space left on device$",
		"^no inodes are left for " + file + "$",
		"^no space at BETA: " + file + ` needs [\d.]+ \w+ more, and [\d.]+ \w+ are free$`,
	} {
		if regexp.MustCompile(text).MatchString(p.Reason.Text) {
			return
		}
	}
	f.t.Errorf("it waits, and says %q (%q)", p.Reason.Text, p.Reason.Hint)
}

// consumed sends files that do not fit together, and removes arrived ones. No transfer may reserve so much that all of
// them wait (scenario 35).
func (f *filling) consumed() {
	f.t.Helper()
	leave := 3 * f.load.size
	if f.inodes {
		leave = 4
	}
	f.fill(leave + f.r.Int64N(leave))
	all := f.send()
	f.n.Until("a transfer waits for space", func() bool {
		for _, s := range all {
			if p, ok := s.Saw(func(p network.Progress) bool { return p.State == "waiting" && p.Reason != nil }); ok {
				f.saysNoSpace(p)
				return true
			}
		}
		return false
	})
	for left := len(all); left > 0; {
		f.n.Arrived("BETA", "out/in", 1)
		for name := range f.n.Landed("BETA", "out/in") {
			network.SameTree(f.t, f.n.Path("ALPHA", "in/"+name), f.n.Path("BETA", "out/in/"+name))
			must(f.t, os.Remove(f.n.Path("BETA", "out/in/"+name)))
			left--
		}
	}
	for _, s := range all {
		s.Wait().Ends("successful", 0)
	}
}

// ledger fills the disk of an agent's ledger. Running transfers end with the reserve. The agent accepts no new transfer
// and reports the reason (scenario 28).
func (f *filling) ledger() {
	f.t.Helper()
	var all []*network.Sending
	if f.r.IntN(3) == 0 {
		f.nearly()
		all = f.send()
	} else {
		all = f.underWay(f.disk.of)
		f.nearly()
		f.n.Thaw(f.disk.of)
		if !f.load.each { // otherwise some may not have been accepted before, and are not accepted now
			f.arrived(all)
			all = nil
		}
	}
	var waiting *network.Sending
	if !f.inodes { // the reserve is an inode that comes back; blocks are used up
		all = append(all, f.untilLow()...)
		for waiting = f.another(); !f.notAccepted(waiting); waiting = f.another() {
			// The end of the previous transfer gave back enough space for the reserve.
			if all = append(all, waiting); len(all) > 100 {
				f.t.Fatalf("%s is full, and everything is accepted", f.disk.name)
			}
		}
	}
	f.empty()
	if waiting != nil {
		all = append(all, waiting)
	}
	for _, s := range all {
		s.Wait().Ends("successful", 0)
	}
	f.n.Same("ALPHA", "in", "BETA", "out/in")
	f.n.Until("the ledger is no longer said to be full", func() bool { return f.n.AgentOf(f.disk.of).Reason == "" })
}

// untilLow sends until the agent reports that its ledger's disk is full.
func (f *filling) untilLow() (all []*network.Sending) {
	f.t.Helper()
	for range 50 {
		s := f.another()
		all = append(all, s)
		low := false
		f.n.UntilEvery("a transfer ends, or the ledger is low", 1e8, func() bool {
			why := f.n.AgentOf(f.disk.of).Reason
			low = strings.Contains(why, "ledger") && strings.Contains(why, "full")
			return low || !s.Running()
		})
		if low {
			return all
		}
	}
	f.t.Fatalf("%s has no space left, and 50 transfers have not noticed", f.disk.name)
	return nil
}

// notAccepted expects a transfer to wait because the disk of a ledger is full and it was not accepted. It returns false
// if the transfer was accepted after all; such a transfer may wait for space like the others.
func (f *filling) notAccepted(s *network.Sending) bool {
	f.t.Helper()
	over := false
	if f.disk.of == "BETA" {
		id := s.ID()
		p := f.n.Status(id)
		f.n.UntilEvery("it waits, or has ended", 1e8, func() bool {
			p = f.n.Status(id)
			return p.State == "waiting" || p.Final()
		})
		if p.Final() {
			return false
		}
		if p.Reason == nil || p.Reason.Kind != transfer.KindNoSpace || p.Reason.Text != "the disk of BETA's ledger is full; nothing new is accepted" {
			f.t.Errorf("it waits, and the reason is %v", p.Reason)
		}
		return true
	}
	refused := func() bool { return strings.Contains(s.Errors(), "the disk of ALPHA's ledger is full") }
	f.n.Until("the command says that ALPHA's disk is full, or was taken", func() bool {
		state := s.Last().State // a receipt may have come when there was space for a moment
		over = !s.Running() || state != "" && state != "queued"
		return over || refused()
	})
	return refused()
}

// store fills the disk of the queue manager's store. Running transfers continue without it. A request that cannot be
// stored yet says so, and continues once it can be stored.
func (f *filling) store() {
	f.t.Helper()
	all := f.underWay("BETA")
	f.nearly()
	f.n.Thaw("BETA")
	taken := func(s *network.Sending) (yes bool) {
		f.n.Until("a transfer ends, or the command says that its request cannot be stored", func() bool {
			yes = !strings.Contains(s.Errors(), "cannot be stored yet")
			return !yes || !s.Running()
		})
		if !yes {
			if why, _ := f.n.Degraded(); why == "" {
				f.t.Error("the queue manager's store is full, and ferry ready does not say so")
			}
		}
		return yes
	}
	for _, s := range all { // of several, the last may have come too late for the store
		if taken(s) {
			s.Wait().Ends("successful", 0)
		}
	}
	var late []*network.Sending
	for range 20 {
		s := f.another()
		late = append(late, s)
		if !taken(s) {
			break
		}
	}
	f.empty()
	for _, s := range late {
		s.Wait().Ends("successful", 0)
	}
	f.arrived(all)
}

// log fills the disk of the audit log. Transfers continue, and their records arrive later.
func (f *filling) log() {
	f.t.Helper()
	all := f.underWay("BETA")
	f.nearly()
	f.n.Thaw("BETA")
	for _, s := range all {
		s.Wait().Ends("successful", 0)
	}
	extra := f.another()
	extra.Wait().Ends("successful", 0)
	f.empty()
	f.arrived(all)
	f.n.Audit(extra.Last().ID)
}
