//go:build linux

package paths_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/test/campaign"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

// Each case is one network with several transfers at once, and a total number of moves of their destinations.
const (
	moves     = 20
	transfers = 4
)

// TestCampaignMovedPaths moves directories of the destination while transfers with --delete-source run. It also covers
// them with mounts, puts links in their places, and swaps temporaries. A successful file is whole at its path, or was
// when its directory was moved. No source is deleted otherwise, and no file appears outside the root.
func TestCampaignMovedPaths(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "moved-paths", Unit: "moves", Full: 500, Short: 6,
		What: "directories and roots of real agents renamed, linked, mounted over and emptied, and temporaries swapped, under running transfers that delete their sources"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
					n := carry(t, seed, campaign.Rand(seed), min(moves, c.Count-done))
					done += n
					c.Add(n)
				})
				if !ok {
					t.Logf("this case again: make test-faults CAMPAIGN=moved-paths SEED=%d COUNT=%d", seed, moves)
					return
				}
			}
		})
}

// A carried is a directory that was moved, with the files that had arrived in it.
type carried struct {
	dir   *os.File  // stays the same directory after a move
	when  time.Time // time of the move
	under string    // former path beneath the root
}

// A carrier moves the destinations of one network's transfers.
type carrier struct {
	*network.Network
	t       *testing.T
	r       *rand.Rand
	outside string
	late    string // a root of BETA's, given as a mount point
	places  []carried
	mounts  []string             // mounts to be undone
	eaten   map[string]judge.Sum // files that a consumer has removed, by the path beneath the root
	moved   map[string]int       // number of moves by kind
	files   map[*network.Job]int // at the destination when the last move was made
}

func carry(t *testing.T, seed uint64, r *rand.Rand, moves int) int {
	c := &carrier{t: t, r: r, outside: t.TempDir(), late: t.TempDir(), eaten: map[string]judge.Sum{}, moved: map[string]int{}, files: map[*network.Job]int{}}
	c.Network = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"},
		Flags: map[string][]string{"BETA": {"--root", c.late + ",mounted"}}})
	t.Cleanup(c.uncover)
	if os.Geteuid() == 0 {
		c.mountLate(seed)
	}
	var jobs []*network.Job
	for k := range transfers {
		jobs = append(jobs, c.job(seed, k))
		c.Make(jobs[k])
	}
	running := map[*network.Job]*network.Sending{}
	for _, j := range jobs {
		running[j] = c.Resubmit(j)
	}
	done := 0
	for ; done < moves; done++ {
		left := slices.DeleteFunc(slices.Clone(jobs), func(j *network.Job) bool { return !running[j].Running() })
		if len(left) == 0 {
			break
		}
		j := left[r.IntN(len(left))]
		c.progress(j, running[j])
		c.move(j)
	}
	c.restore(jobs)
	for _, j := range jobs {
		sum := running[j].WaitFor(3 * time.Minute).Summary
		j.ID = sum.ID
		c.check(j, sum.State)
	}
	if names, err := os.ReadDir(c.outside); err != nil || len(names) > 0 {
		t.Errorf("outside the roots: %v %v", names, err)
	}
	c.Sound()
	t.Logf("%d moves: %v", done, c.moved)
	return done
}

// job returns a job of many small files, or of fewer large ones, flat or in directories.
func (c *carrier) job(seed uint64, k int) *network.Job {
	j := &network.Job{From: "ALPHA", To: "BETA", In: fmt.Sprint("in", k), Out: fmt.Sprint("out", k), Seed: seed<<3 + uint64(k),
		Count: 1200, Size: 1500, Delete: true, Deep: c.r.IntN(3) == 0}
	if c.r.IntN(3) == 0 {
		j.Count, j.Size = 40, 1<<20
	}
	if c.r.IntN(4) == 0 {
		j.Flags = []string{"--durability", "process"}
	}
	return j
}

// mountLate sends to a root and mounts its disk only after that.
func (c *carrier) mountLate(seed uint64) {
	c.File("ALPHA", "late", seed, 100_000)
	s := c.SendAsync("ALPHA:late", "BETA:"+c.late+"/in/")
	if p := c.WaitState(s.ID(), "waiting"); !strings.Contains(p.Reason.String(), c.late) {
		c.t.Errorf("the transfer waits for %v, and not for %s", p.Reason, c.late)
	}
	must(c.t, unix.Mount("ferry-paths", c.late, "tmpfs", 0, "size=1m"))
	s.Wait().Ends("successful", 0)
	_, err := os.Stat(c.late + "/in/late")
	must(c.t, err)
	must(c.t, unix.Unmount(c.late, unix.MNT_DETACH))
	if names, err := os.ReadDir(c.late); err != nil || len(names) > 0 {
		c.t.Errorf("beneath the mount point: %v %v", names, err)
	}
}

// progress waits for further files since the last move, up to 1.5 s. A move while no file arrives tests little.
func (c *carrier) progress(j *network.Job, s *network.Sending) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 150 {
		if n := c.Count("BETA", j.Out); n > c.files[j]+c.r.IntN(20) || !s.Running() {
			return
		}
		<-tick.C
	}
}

// move uncovers the destination, and then changes a directory of a job, the root, or a temporary.
func (c *carrier) move(j *network.Job) {
	c.uncover()
	dirs := []string{j.Out, j.Out + "/" + filepath.Base(j.In)}
	rel := dirs[c.r.IntN(len(dirs))]
	if c.r.IntN(8) == 0 {
		rel = ""
	}
	p := strings.TrimSuffix(c.Path("BETA", rel), "/")
	ways := []string{"renamed, made anew", "renamed, made anew", "renamed", "link to another", "link out", "emptied", "temporary", "temporary"}
	if rel == "" {
		ways = ways[:2]
	}
	if os.Geteuid() == 0 {
		ways = append(ways, "covered", "covered")
	}
	way := ways[c.r.IntN(len(ways))]
	if rel == "" {
		c.moved["root "+way]++
	} else {
		c.moved[way]++
	}
	switch way {
	case "covered":
		c.cover(p)
	case "emptied":
		c.empty(p)
	case "temporary":
		c.swap(p)
	default:
		c.rename(p, rel, way)
	}
	c.files[j] = c.Count("BETA", j.Out)
}

// rename moves a directory within its root or out of it, and creates a replacement.
func (c *carrier) rename(p, rel, way string) {
	to := fmt.Sprintf("%s.carried%d", c.Root("BETA"), len(c.places))
	if rel != "" && c.r.IntN(2) == 0 {
		to = fmt.Sprintf("%s/carried%d", c.Root("BETA"), len(c.places))
	}
	dir, err := os.Open(p)
	if err != nil {
		return // it is away already
	}
	linked := c.linked(p, rel)
	if err := os.Rename(p, to); err != nil {
		dir.Close()
		c.t.Errorf("the strike could not be made: %v", err)
		return
	}
	c.away(dir, rel)
	for below, dir := range linked {
		c.away(dir, below)
	}
	switch way {
	case "renamed, made anew":
		err = os.MkdirAll(p, 0o755)
	case "link to another":
		// A link that moves with the root.
		other := strings.Repeat("../", strings.Count(rel, "/")) + fmt.Sprint("other", len(c.places))
		if err = os.Mkdir(filepath.Join(filepath.Dir(p), other), 0o755); err == nil {
			err = os.Symlink(other, p)
		}
	case "link out":
		err = os.Symlink(c.outside, p)
	}
	if err != nil && !os.IsExist(err) { // the agent makes missing directories
		c.t.Errorf("the strike could not be made: %v", err)
	}
}

// linked returns the target directories of the links in a directory, by their paths through these links. A relative
// link of an earlier move leads elsewhere after another move.
func (c *carrier) linked(p, rel string) map[string]*os.File {
	all := map[string]*os.File{}
	entries, err := os.ReadDir(p)
	if err != nil || rel == "" { // the contents of the root move with it
		return all
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		if dir, err := os.Open(filepath.Join(p, e.Name())); err == nil {
			all[filepath.Join(rel, e.Name())] = dir
		}
	}
	return all
}

// away records that a path has just ceased to lead to a directory.
func (c *carrier) away(dir *os.File, rel string) {
	c.places = append(c.places, carried{dir, time.Now(), rel})
	c.t.Cleanup(func() { dir.Close() })
}

func (c *carrier) cover(p string) {
	if unix.Mount("ferry-paths", p, "tmpfs", 0, "size=200m") == nil { // it may be away
		c.mounts = append(c.mounts, p)
	}
}

// uncover unmounts the mounts, with the files that have arrived there.
func (c *carrier) uncover() {
	for _, p := range c.mounts {
		dir, err := os.Open(p)
		must(c.t, err)
		must(c.t, unix.Unmount(p, unix.MNT_DETACH))
		c.away(dir, strings.Trim(strings.TrimPrefix(p, c.Root("BETA")), "/"))
	}
	c.mounts = nil
}

// empty acts as a consumer that removes files and then the empty directories.
func (c *carrier) empty(p string) {
	var dirs []string
	filepath.WalkDir(p, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
		case d.IsDir():
			dirs = append(dirs, name)
		case strings.HasPrefix(d.Name(), ".ferry-"):
			os.Remove(name)
		case d.Type().IsRegular():
			if f, err := os.Open(name); err == nil {
				sum, err := judge.Of(f)
				f.Close()
				must(c.t, err)
				if os.Remove(name) == nil {
					c.eaten[c.rel(name)] = sum
				}
			}
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		os.Remove(d)
	}
}

func (c *carrier) rel(p string) string { return strings.TrimPrefix(p, c.Root("BETA")+"/") }

// swap changes or replaces temporaries.
func (c *carrier) swap(p string) {
	filepath.WalkDir(p, func(name string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".part") || c.r.IntN(3) == 0 {
			return nil
		}
		switch c.r.IntN(5) { // the temporary may have gone meanwhile
		case 0:
			if os.WriteFile(name+".new", []byte("junk"), 0o600) == nil && os.Rename(name+".new", name) != nil {
				os.Remove(name + ".new")
			}
		case 1:
			if os.Remove(name) == nil {
				os.Symlink("/etc/passwd", name)
			}
		case 2:
			os.Truncate(name, c.r.Int64N(1000))
		default:
			os.Remove(name)
		}
		return nil
	})
}

// restore makes every destination a writable directory, so that all transfers can end.
func (c *carrier) restore(jobs []*network.Job) {
	c.uncover()
	for _, j := range jobs {
		for _, rel := range []string{j.Out, j.Out + "/" + filepath.Base(j.In)} {
			if st, err := os.Lstat(c.Path("BETA", rel)); err == nil && !st.IsDir() {
				c.rename(c.Path("BETA", rel), rel, "renamed, made anew")
			}
		}
	}
}

// slack is the maximum time from a file's change time to its rename: the kernel's clock of files ticks.
const slack = 20 * time.Millisecond

// check compares every file of a job with its reported outcome.
func (c *carrier) check(j *network.Job, state string) {
	if state != "successful" && state != "partial" && state != "failed" {
		c.t.Errorf("transfer %s is %s", j.ID, state)
	}
	reported := map[string]network.Outcome{}
	for _, o := range c.Outcomes(c.Audit(j.ID), "source") {
		reported[o.Path] = o
	}
	good := 0
	for _, f := range c.Copies(j) {
		o, known := reported[f.Dest]
		ok := known && o.Error == nil
		src, err := sumOf(f.Source)
		switch {
		case err != nil && !ok:
			c.t.Errorf("the source of %s is gone, and it is not successful: %v", f.Dest, o.Error)
		case err != nil && o.Taken == "presumed":
			c.t.Errorf("the source of %s is gone, and it was taken before anybody could look at it", f.Dest)
		case err == nil && src != f.Sum:
			c.t.Errorf("source %s has been changed", f.Source)
		}
		if ok {
			good++
			if why := c.lost(f, o.Taken != ""); why != "" {
				c.t.Errorf("%s is successful, and %s", f.Dest, why)
			}
		}
	}
	c.moved["successful files"] += good
	c.moved["failed files"] += j.Count - good
}

func sumOf(p string) (judge.Sum, error) {
	f, err := os.Open(p)
	if err != nil {
		return judge.Sum{}, err
	}
	defer f.Close()
	return judge.Of(f)
}

// held describes the file at a path.
func held(path string) string {
	st, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("at its path there is %s of %d bytes, of %s", st.Mode(), st.Size(), st.ModTime().Format("15:04:05.000"))
}

// lost looks for a successful file at its path and in the moved directories. It returns "" if it has found the file.
func (c *carrier) lost(f network.Copy, taken bool) string {
	if sum, err := sumOf(f.Dest); err == nil && sum == f.Sum {
		return ""
	}
	rel := c.rel(f.Dest)
	if sum, ok := c.eaten[rel]; ok {
		if sum == f.Sum {
			return ""
		}
		return "its consumer has found something else"
	}
	why := "is nowhere; " + held(f.Dest)
	for _, p := range c.places {
		below, ok := strings.CutPrefix("/"+rel, strings.TrimSuffix("/"+p.under, "/")+"/")
		if !ok {
			continue
		}
		name := fmt.Sprintf("/proc/self/fd/%d/%s", p.dir.Fd(), below)
		var st unix.Stat_t
		if sum, err := sumOf(name); err != nil || sum != f.Sum || unix.Stat(name, &st) != nil {
			continue
		}
		late := time.Unix(st.Ctim.Unix()).Sub(p.when)
		if late <= slack || taken {
			return ""
		}
		why = fmt.Sprintf("got its name %s after its directory had been carried away", late)
	}
	return why
}
