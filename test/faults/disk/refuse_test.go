//go:build linux

package disk_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// Whatever the file system refuses is answered with the right result code, the
// right kind of error and a sentence that names the thing, and nothing else is
// touched. The agents are an ordinary user's.
func TestCampaignPermissions(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "permissions", What: "directories and files that may not be read, written, entered or replaced, that vanish, or are something else, each alone and beside a file that arrives",
		Unit: "refusals", Full: 2 * len(refusals), Short: 20},
		func(t *testing.T, c *campaign.C) {
			w := newRefusing(t)
			c.Loop(t, func(t *testing.T, seed uint64, _ *rand.Rand) {
				row := &refusals[int(seed-1)%len(refusals)]
				beside := (int(seed-1)/len(refusals)+int(seed))%2 == 0
				defer func() {
					if t.Failed() {
						t.Logf("seed %d: %s, beside another: %v", seed, row.name, beside)
					}
				}()
				w.try(t, seed, row, beside && !row.alone)
			})
		})
}

// A refusal is something that cannot be had, and what must be said of it. SRC
// and DST in its texts are the directories of the case at the two agents; the
// request is made of c/f, where nothing else is said.
type refusal struct {
	name    string
	prepare func(c *refused)
	during  func(c *refused, s *network.Sending) // while it runs
	sources []string                             // beneath SRC; nil: f
	dest    string                               // beneath DST; "": out/
	flags   []string
	code    int // alone; 40 is 20 beside a file that arrives
	alone   bool
	kind    transfer.Kind // KindNone where all is well
	text    string
	hint    string
	whole   bool     // the whole transfer is refused, so that nothing else arrives
	made    []string // what has appeared in DST beside the other file
	warned  bool     // a successful end with a warning
}

// A refusing is the network on which all cases run.
type refusing struct {
	n    *network.Network
	base string
	uid  int
}

// ordinary is the user of the agents when the campaign is run by root, whom no
// permission stops.
const ordinary = 65534

func newRefusing(t *testing.T) *refusing {
	t.Helper()
	base, err := os.MkdirTemp("", "ferry-refusals-")
	must(t, err)
	base, err = filepath.EvalSymlinks(base)
	must(t, err)
	must(t, os.Chmod(base, 0o755))
	w := &refusing{base: base, uid: os.Geteuid()}
	t.Cleanup(func() { w.tidy(t) })
	agents := []string{"ALPHA", "BETA"}
	s := network.Setup{Ferry: campaign.Ferry(t), Agents: agents, Dir: base, States: map[string]string{}, Wrap: map[string][]string{}}
	if w.uid == 0 {
		w.uid = ordinary
	}
	for _, a := range agents {
		root := filepath.Join(base, "roots", a)
		must(t, os.MkdirAll(root, 0o755))
		w.own(t, root)
		s.States[a] = root + "/state"
		if os.Geteuid() == 0 {
			id := fmt.Sprint(ordinary)
			s.Wrap[a] = []string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "--"}
		}
	}
	must(t, os.Mkdir(base+"/outside", 0o777))
	must(t, os.WriteFile(base+"/outside/f", []byte("outside"), 0o644))
	w.n = network.Up(t, s)
	return w
}

func (w *refusing) own(t *testing.T, path string) {
	t.Helper()
	must(t, os.Lchown(path, w.uid, -1))
}

func (w *refusing) tidy(t *testing.T) {
	filepath.WalkDir(w.base, func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && os.Geteuid() != 0 {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	must(t, os.RemoveAll(w.base))
}

// A refused is one case on its way.
type refused struct {
	t        *testing.T
	w        *refusing
	src, dst string // directories of the case on this host
	dir      string // their name beneath the roots
	undo     []func()
}

func (w *refusing) try(t *testing.T, seed uint64, row *refusal, beside bool) {
	c := &refused{t: t, w: w, dir: fmt.Sprintf("c%d", seed)}
	c.src, c.dst = w.n.Path("ALPHA", c.dir), w.n.Path("BETA", c.dir)
	for _, d := range []string{c.src, c.dst, c.dst + "/out"} {
		c.mkdir(d, 0o755)
	}
	c.file(c.src+"/f", 3000)
	if row.prepare != nil {
		row.prepare(c)
	}
	args := append([]string{}, row.flags...)
	if len(row.sources) == 0 {
		row.sources = []string{"f"}
	}
	for _, s := range row.sources {
		args = append(args, "ALPHA:"+c.place(s, c.src))
	}
	if beside {
		c.file(c.src+"/other", 5000)
		args = append(args, "ALPHA:"+c.dir+"/other")
	}
	dest := row.dest
	if dest == "" {
		dest = "out/"
	}
	args = append(args, "BETA:"+c.place(dest, c.dst))
	source, target := tree(t, c.src), tree(t, c.dst)
	s := w.n.SendAsync(args...)
	if row.during != nil {
		row.during(c, s)
	}
	result := s.Wait()
	c.judge(row, beside, result, source, target)
	for k := len(c.undo) - 1; k >= 0; k-- {
		c.undo[k]()
	}
}

// place is a path of a request beneath the case's directory; one that begins
// with / is meant as it is.
func (c *refused) place(p, dir string) string {
	if strings.HasPrefix(p, "/") {
		return strings.NewReplacer("SRC", c.src, "DST", c.dst, "BASE", c.w.base).Replace(p[1:])
	}
	return c.dir + "/" + p
}

func (c *refused) expand(s string) string {
	return strings.NewReplacer("SRC", c.src, "DST", c.dst, "BASE", c.w.base).Replace(s)
}

// judge holds how a case ended against its row.
func (c *refused) judge(row *refusal, beside bool, result network.Result, source, target map[string]string) {
	c.t.Helper()
	code := row.code
	if beside && code == 40 && !row.whole {
		code = 20
	}
	state := map[int]string{0: "successful", 20: "partial", 40: "failed", 64: "failed"}[code]
	if result.Summary.State != state || result.Code != code {
		fmt.Printf("!! %s: it ended %q with code %d, not %q with %d\n%s\n", row.name, result.Summary.State, result.Code, state, code, result.Stderr)
	}
	var errs []network.Reason
	if code == 64 && result.Summary.ID == "" {
		errs = append(errs, network.Reason{Kind: transfer.KindUsage, Text: result.Stderr})
	} else {
		errs = c.errors(result.Summary.ID)
	}
	fmt.Printf("## %s [%v]: %d %s %v warnings %d\n", row.name, beside, result.Code, result.Summary.State, errs, result.Summary.Warnings)
	if after := tree(c.t, c.dst); !maps.Equal(after, target) {
		for k := range after {
			if target[k] != after[k] {
				fmt.Println("   dst", k, after[k], "was", target[k])
			}
		}
		for k := range target {
			if _, ok := after[k]; !ok {
				fmt.Println("   dst", k, "gone")
			}
		}
	}
	if after := tree(c.t, c.src); !maps.Equal(after, source) {
		fmt.Println("   src", after, "was", source)
	}
}

// errors are the errors of a transfer that the source has on record: those of
// its items and its own.
func (c *refused) errors(id string) (all []network.Reason) {
	c.t.Helper()
	c.w.n.Until("the source's last word on "+id+" is on record", func() bool {
		all = nil
		ended := false
		r := c.w.n.Ferry("audit", "show", "--json", id)
		if r.Code != 0 {
			return false
		}
		for line := range strings.Lines(r.Stdout) {
			var rec network.Record
			must(c.t, json.Unmarshal([]byte(line), &rec))
			if rec.Role != "source" {
				continue
			}
			ended = ended || rec.Event == "completed" || rec.Event == "failed"
			for _, o := range rec.Items {
				if o.Error != nil {
					all = append(all, *o.Error)
				}
			}
			if rec.Error != nil {
				all = append(all, *rec.Error)
			}
		}
		return ended
	})
	return all
}

// tree is everything there is beneath a directory: type, mode, size and inode of
// each name.
func tree(t *testing.T, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(top, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			if os.IsPermission(err) {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		what := fmt.Sprint(info.Mode(), " ", st.Ino)
		if !d.IsDir() {
			what += fmt.Sprint(" ", info.Size(), " ", info.ModTime().UnixNano())
		}
		all[strings.TrimPrefix(p, top)] = what
		return nil
	}))
	return all
}

func (c *refused) mkdir(path string, mode os.FileMode) {
	c.t.Helper()
	must(c.t, os.MkdirAll(path, 0o755))
	must(c.t, os.Chmod(path, mode))
	c.w.own(c.t, path)
}

func (c *refused) file(path string, size int) {
	c.t.Helper()
	must(c.t, os.WriteFile(path, make([]byte, size), 0o644))
	c.w.own(c.t, path)
}

func (c *refused) chmod(path string, mode os.FileMode) {
	c.t.Helper()
	must(c.t, os.Chmod(path, mode))
	c.undo = append(c.undo, func() { os.Chmod(path, 0o755) })
}

func (c *refused) remove(path string) {
	c.t.Helper()
	must(c.t, os.RemoveAll(path))
}

func (c *refused) link(to, path string) {
	c.t.Helper()
	must(c.t, os.Symlink(c.expand(to), path))
}
