//go:build linux

package disk_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A disk that is full makes what needs it wait, and say so; what does not need
// it goes on. Nothing is lost, nothing half-written has a final name, and
// everything ends when there is space again.
func TestCampaignDiskFull(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "disk-full", What: "disks full by blocks and by inodes at a random point: of the destination's data, of either ledger, of the queue manager's store, of the audit log",
		Unit: "full disks", Full: 120, Root: true},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				k := int(seed-1) % (len(fulls) * 2 * len(loads))
				f := &filling{t: t, r: r, disk: &fulls[k%len(fulls)], inodes: k/len(fulls)%2 == 1, load: &loads[k/len(fulls)/2]}
				f.run(seed)
			})
		})
}

// A load is what is sent while a disk is full.
type load struct {
	name  string
	files int
	size  int64
}

var loads = []load{
	{"one large file", 1, 40 * mib},
	{"many small files", 700, 6 << 10},
	{"files of some size", 8, 3 * mib},
}

// A disk is one that is full.
type disk struct {
	name  string
	size  int64
	at    func(n string) (who, below string) // the process whose state it has part of
	sees  func(f *filling, s *network.Sending)
	files int // inodes
}

var fulls = []disk{
	{name: "the destination's data", size: 64 * mib, files: 4000, sees: (*filling).dataIsFull},
	{name: "the destination's ledger", size: 24 * mib, files: 100, sees: (*filling).ledgerIsFull},
	{name: "the source's ledger", size: 24 * mib, files: 100, sees: (*filling).ledgerIsFull},
	{name: "the queue manager's store", size: 24 * mib, files: 400, sees: (*filling).ledgerIsFull},
	{name: "the audit log", size: 24 * mib, files: 100, sees: (*filling).ledgerIsFull},
}

// A filling is one case.
type filling struct {
	t      *testing.T
	r      *rand.Rand
	disk   *disk
	inodes bool
	load   *load
	n      *network.Network
	mount  string
	remove func()
}

func (f *filling) run(seed uint64) {
	f.t.Helper()
	how := "blocks"
	if f.inodes {
		how = "inodes"
	}
	fmt.Printf("## %s is full of %s: %s\n", f.disk.name, how, f.load.name)
	f.up()
	f.n.Files("ALPHA", "in", seed, f.load.files, f.load.size)
	f.disk.sees(f, nil)
}

func (f *filling) up() {
	f.t.Helper()
	f.mount = f.t.TempDir()
	must(f.t, unix.Mount("ferry-faults", f.mount, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", f.disk.size, f.disk.files)))
	f.t.Cleanup(func() { unix.Unmount(f.mount, unix.MNT_DETACH) })
	s := network.Setup{Ferry: campaign.Ferry(f.t), Agents: []string{"ALPHA", "BETA"}, Dir: f.t.TempDir(), Roots: map[string]string{}, States: map[string]string{}}
	switch f.disk.name {
	case "the destination's data":
		s.Roots["BETA"] = f.mount
	case "the destination's ledger":
		s.States["BETA"] = f.mount
	case "the source's ledger":
		s.States["ALPHA"] = f.mount
	case "the queue manager's store":
		must(f.t, os.MkdirAll(s.Dir+"/state/QM", 0o755))
		must(f.t, os.Symlink(f.mount, s.Dir+"/state/QM/qm"))
	case "the audit log":
		must(f.t, os.MkdirAll(s.Dir+"/state/QM", 0o755))
		must(f.t, os.Symlink(f.mount, s.Dir+"/state/QM/coordination"))
	}
	f.n = network.Up(f.t, s)
	f.n.File("ALPHA", "first", 1, 10)
	f.n.Send("ALPHA:first", "BETA:first").Ends("successful", 0)
}

// fill takes all but some blocks or inodes of the disk.
func (f *filling) fill(leave int64) {
	f.t.Helper()
	dir := f.mount + "/ballast"
	must(f.t, os.Mkdir(dir, 0o755))
	f.remove = func() { must(f.t, os.RemoveAll(dir)) }
	var st unix.Statfs_t
	must(f.t, unix.Statfs(f.mount, &st))
	if !f.inodes {
		b, err := os.Create(dir + "/blocks")
		must(f.t, err)
		defer b.Close()
		must(f.t, unix.Statfs(f.mount, &st))
		must(f.t, unix.Fallocate(int(b.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-leave))
		return
	}
	for k := range int64(st.Ffree) - leave {
		must(f.t, os.WriteFile(fmt.Sprint(dir, "/", k), nil, 0o600))
	}
}

func (f *filling) dataIsFull(*network.Sending) {
	f.t.Helper()
	need := f.load.size * int64(f.load.files)
	if f.inodes {
		need = int64(f.load.files)
	}
	f.fill(f.r.Int64N(need))
	s := f.n.SendAsync("-r", "ALPHA:in", "BETA:out/")
	p := f.n.WaitState(s.ID(), "waiting")
	fmt.Printf("waits: %v %q %q\n", p.Reason.Kind, p.Reason.Text, p.Reason.Hint)
	_ = transfer.KindNoSpace
	fmt.Println("landed", len(f.n.Landed("BETA", "out/in")), "temporaries", len(f.n.Temporaries("BETA")))
	f.remove()
	r := s.Wait().Ends("successful", 0)
	f.n.Same("ALPHA", "in", "BETA", "out/in")
	fmt.Println("stderr:", r.Stderr)
	f.n.NoTemporaries("BETA")
}

func (f *filling) ledgerIsFull(*network.Sending) {
	f.t.Helper()
	leave := f.r.Int64N(3) * 4096 / map[bool]int64{true: 4096, false: 1}[f.inodes]
	var s *network.Sending
	if os.Getenv("WHEN") == "before" {
		fmt.Println("before, leaves", leave)
		f.fill(leave)
		s = f.n.SendAsync("-r", "ALPHA:in", "BETA:out/")
	} else {
		s = f.n.SendAsync("-r", "ALPHA:in", "BETA:out/")
		f.n.Until("files are arriving", func() bool { return len(f.n.Temporaries("BETA")) > 0 || len(f.n.Landed("BETA", "out/in")) > 0 })
		f.n.Freeze("BETA")
		fmt.Println("at full: landed", len(f.n.Landed("BETA", "out/in")), "running", s.Running(), "leaves", leave)
		f.fill(leave)
		f.n.Thaw("BETA")
	}
	f.n.File("ALPHA", "second", 1, 10)
	second := f.n.SendAsync("ALPHA:second", "BETA:second")
	tries := 0
	f.n.UntilEvery("ended or long", 100_000_000, func() bool { tries++; return tries > 300 || !s.Running() || s.Last().State == "waiting" })
	fmt.Println("first:", s.Last().State, s.Last().Code, s.Last().Reason, "running", s.Running())
	tries = 0
	f.n.UntilEvery("x", 500_000_000, func() bool { tries++; return tries > 16 || !second.Running() })
	fmt.Println("second:", second.Last().State, second.Last().Code, second.Last().Reason, second.Running(), "err:", second.Errors())
	for _, a := range []string{"ALPHA", "BETA"} {
		fmt.Printf("%+v\n", f.n.AgentOf(a))
	}
	fmt.Println("first err:", s.Errors())
	f.remove()
	second.Wait().Ends("successful", 0)
	s.Wait().Ends("successful", 0)
	f.n.Same("ALPHA", "in", "BETA", "out/in")
	f.n.NoTemporaries("BETA")
	f.n.Audit(s.Last().ID)
	f.n.Sound()
	for _, p := range []string{"ALPHA", "BETA", "QM"} {
		_ = p
	}
	_ = filepath.Join
	_ = strings.Contains
}
