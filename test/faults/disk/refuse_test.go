//go:build linux

package disk_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignPermissions checks each refusal of the file system. Ferry answers with the right result code, the right
// kind of error and a sentence that names the object, and touches no other file. The agents run as an ordinary user.
func TestCampaignPermissions(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "permissions", What: "files and directories that may not be read, written, entered or replaced, that vanish or are something else, each alone and beside a file that arrives",
		Unit: "refusals", Full: 2 * (len(refusals) + len(rootRefusals)), Short: 20},
		func(t *testing.T, c *campaign.C) {
			w := newRefusing(t)
			rows := refusals
			if os.Geteuid() == 0 {
				rows = slices.Concat(rows, rootRefusals)
			}
			c.Loop(t, func(t *testing.T, seed uint64, _ *rand.Rand) {
				k := int((seed - 1) % uint64(2*len(rows)))
				row := &rows[k*37%len(rows)] // any twenty in a row are of all sorts
				beside := k >= len(rows) && !row.alone
				defer func() {
					if t.Failed() {
						t.Logf("seed %d was: %s; beside another file: %v", seed, row.name, beside)
					}
				}()
				w.try(t, seed, row, beside)
			})
			w.n.Stop("BETA") // the next run removes temporaries that could not be removed
			w.n.Start("BETA")
			w.n.NoTemporaries("BETA")
			w.n.Sound()
		})
}

// A refusal is a request that fails, and its required report. By default, the request sends f, of 3,000 bytes, into
// out, an empty directory. In its texts, SRC and DST are the directories of the case at the two agents, and BASE has
// their roots and the files outside.
type refusal struct {
	name    string
	sources []string // beneath SRC; unchanged after a /
	dest    string   // beneath DST; unchanged after a /; "": out/
	flags   []string
	prepare func(c *refused)
	during  func(c *refused, s *network.Sending)    // runs after the submission
	code    int                                     // of a single file; 40 becomes 20 beside a file that arrives
	kind    transfer.Kind                           // of each item that fails, or of the transfer; KindNone: success
	text    string                                  // the sentence, with the next step
	alone   bool                                    // not tried beside another file
	whole   bool                                    // the other file does not arrive either
	landed  []string                                // new paths beneath DST, except the other file
	warned  int                                     // warnings of a transfer that succeeds
	verdict func(c *refused, result network.Result) // further checks
}

// A refusing is the common network of all cases.
type refusing struct {
	n    *network.Network
	base string
	uid  int
}

// ordinary is the user ID of the agents if root runs the campaign, because permissions do not stop root.
const ordinary = 65534

func newRefusing(t *testing.T) *refusing {
	t.Helper()
	base, err := os.MkdirTemp("", "ferry-refusals-")
	must(t, err)
	base, err = filepath.EvalSymlinks(base)
	must(t, err)
	must(t, os.Chmod(base, 0o755))
	w := &refusing{base: base, uid: os.Geteuid()}
	t.Cleanup(func() { must(t, os.RemoveAll(base)) })
	agents := []string{"ALPHA", "BETA", "GAMMA"}
	s := network.Setup{Ferry: campaign.Ferry(t), Dir: base, States: map[string]string{}, Wrap: map[string][]string{}}
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
	s.States["GAMMA"] = base + "/gamma"
	must(t, os.Mkdir(base+"/gamma", 0o755))
	w.own(t, base+"/gamma")
	must(t, os.Mkdir(base+"/outside", 0o777))
	must(t, os.WriteFile(base+"/outside/f", []byte("outside"), 0o644))
	w.n = network.Up(t, s)
	for _, a := range agents { // an ordinary user's agent cannot read the network file of root
		w.n.Add(a)
		w.n.Setenv(a, "HOME="+s.States[a], "FERRY_JOIN="+w.n.Ferry("token", "create", "--agent", a).OK().Stdout)
		w.n.Start(a)
	}
	return w
}

func (w *refusing) own(t *testing.T, path string) {
	t.Helper()
	must(t, os.Lchown(path, w.uid, -1))
}

// A refused is one case in progress.
type refused struct {
	t        *testing.T
	w        *refusing
	dir      string // the case's directory beneath the roots
	src, dst string // the same on this host
	to       string // the destination agent
	undo     []func()

	before map[string]string // state of both directories and of the files outside, before the transfer
}

func (w *refusing) try(t *testing.T, seed uint64, row *refusal, beside bool) {
	t.Helper()
	c := &refused{t: t, w: w, dir: fmt.Sprintf("c%d", seed), to: "BETA"}
	defer c.restoreModes()
	c.src, c.dst = w.n.Path("ALPHA", c.dir), w.n.Path("BETA", c.dir)
	for _, d := range []string{c.src, c.dst, c.dst + "/out"} {
		c.mkdir(d, 0o755)
	}
	c.file(c.src+"/f", 3000)
	if beside {
		c.file(c.src+"/other", 5000)
	}
	if row.prepare != nil {
		row.prepare(c)
	}
	args := append([]string{}, row.flags...)
	for _, s := range orElse(row.sources, "f") {
		args = append(args, "ALPHA:"+c.place(s))
	}
	if beside {
		args = append(args, "ALPHA:"+c.dir+"/other")
	}
	dest := "out/"
	if row.dest != "" {
		dest = row.dest
	}
	args = append(args, c.to+":"+c.place(dest))
	c.look()
	s := w.n.SendAsync(args...)
	if row.during != nil {
		row.during(c, s)
	}
	c.judge(row, beside, s.Wait(), strings.TrimPrefix(c.place(dest), c.dir+"/"))
}

func orElse(given []string, otherwise string) []string {
	if len(given) == 0 {
		return []string{otherwise}
	}
	return given
}

// place returns a path of a request: beneath the case's directory, or one of the host after a /.
func (c *refused) place(p string) string {
	if strings.HasPrefix(p, "/") {
		return c.words(p[1:])
	}
	return c.dir + "/" + p
}

func (c *refused) words(s string) string {
	return strings.NewReplacer("SRC", c.src, "DST", c.dst, "BASE", c.w.base, "DIR", c.dir).Replace(s)
}

// look records the state of all files that the transfer may not touch.
func (c *refused) look() {
	c.t.Helper()
	c.before = c.seen()
}

func (c *refused) seen() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, top := range []string{c.src, c.dst, c.w.base + "/outside"} {
		must(c.t, filepath.WalkDir(top, func(p string, d os.DirEntry, err error) error {
			if os.IsPermission(err) {
				return nil
			}
			if err != nil || strings.HasPrefix(d.Name(), ".ferry-") && strings.HasSuffix(d.Name(), ".part") {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			what := fmt.Sprint(info.Mode(), st.Uid, st.Ino)
			if !d.IsDir() {
				what += fmt.Sprint(info.Size(), info.ModTime().UnixNano())
			}
			all[p] = what
			return nil
		}))
	}
	return all
}

// judge compares the end of a case with its row.
func (c *refused) judge(row *refusal, beside bool, result network.Result, dest string) {
	c.t.Helper()
	code := row.code
	if beside && code == 40 && !row.whole {
		code = 20
	}
	state := map[int]string{0: "successful", 20: "partial", 40: "failed", 64: "failed", 69: "failed"}[code]
	if code == 64 && result.Summary.ID == "" {
		state = "" // it was refused before there was a transfer
	}
	if result.Summary.State != state || result.Code != code || result.Summary.Warnings != int64(row.warned) {
		c.t.Errorf("it ended %q with code %d and %d warnings, not %q with %d and %d\n%s",
			result.Summary.State, result.Code, result.Summary.Warnings, state, code, row.warned, result.Stderr)
	}
	if row.kind != transfer.KindNone {
		c.sentences(row, beside, result)
	}
	landed := map[string]bool{}
	for _, name := range row.landed {
		landed[c.dst+"/"+name] = true
	}
	if beside && !row.whole && (code == 0 || code == 20) {
		landed[filepath.Join(c.dst, dest, "other")] = true
	}
	c.untouched(landed)
	if row.verdict != nil {
		row.verdict(c, result)
	}
}

// untouched expects no change except at the landed paths.
func (c *refused) untouched(landed map[string]bool) {
	c.t.Helper()
	now := c.seen()
	for p, was := range c.before {
		if now[p] != was && !landed[p] {
			c.t.Errorf("%s was %q and is %q", p, was, now[p])
		}
	}
	for p := range now {
		if _, ok := c.before[p]; !ok && !landed[p] {
			c.t.Errorf("%s has appeared", p)
		}
	}
	for p := range landed {
		if _, ok := now[p]; !ok {
			c.t.Errorf("%s has not landed", p)
		}
	}
}

// sentences checks the sentence on the command's standard error and in the audit log.
func (c *refused) sentences(row *refusal, beside bool, result network.Result) {
	c.t.Helper()
	want := c.words(row.text)
	if !strings.Contains("\n"+result.Stderr, "\nferry: "+want+"\n") {
		c.t.Errorf("the command does not say %q but\n%s", want, result.Stderr)
	}
	if result.Summary.ID == "" {
		return
	}
	items, whole := c.recorded(result.Summary.ID)
	if len(items) == 0 {
		items = whole // no item has failed: the transfer has
	}
	found := false
	for _, r := range items {
		said := r.Text
		if r.Hint != "" {
			said += "; " + r.Hint
		}
		other := beside && row.whole && strings.Contains(said, "/other ")
		found = found || said == want
		if !other && (said != want || r.Kind != row.kind) {
			c.t.Errorf("the audit log has %s: %s\nand not %s: %s", r.Kind, said, row.kind, want)
		}
	}
	if !found {
		c.t.Errorf("the audit log does not have: %s", want)
	}
}

// recorded returns the errors in the source's audit records: those of a transfer's items, and those of the transfer
// itself.
func (c *refused) recorded(id string) (items, whole []network.Reason) {
	c.t.Helper()
	c.w.n.Until("the source's last word on "+id+" is on record", func() bool {
		items, whole = nil, nil
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
					items = append(items, *o.Error)
				}
			}
			if rec.Error != nil {
				whole = append(whole, *rec.Error)
			}
		}
		return ended
	})
	return items, whole
}

// restoreModes restores the modes of the case's directories, so that they can be removed.
func (c *refused) restoreModes() {
	for k := len(c.undo) - 1; k >= 0; k-- {
		c.undo[k]()
	}
}

func (c *refused) mkdir(path string, mode os.FileMode) {
	c.t.Helper()
	must(c.t, os.MkdirAll(path, 0o755))
	must(c.t, os.Chmod(path, mode))
	c.w.own(c.t, path)
}

// file makes a file of bytes that are not zero.
func (c *refused) file(path string, size int64) {
	c.t.Helper()
	f, err := os.Create(path)
	must(c.t, err)
	_, err = io.CopyN(struct{ io.Writer }{f}, network.Content(7, uint64(size)), size)
	must(c.t, err)
	must(c.t, f.Close())
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
	must(c.t, os.Symlink(c.words(to), path))
}

// paused freezes the destination while the file big arrives, then calls do and records the new state.
func (c *refused) paused(do func()) {
	c.t.Helper()
	c.w.n.Until("a file is in the middle of arriving", func() bool { return c.arriving() != "" })
	c.w.n.Freeze("BETA")
	if c.arriving() == "" {
		c.t.Fatal("the file has arrived before anything could happen to it")
	}
	do()
	c.look()
	c.w.n.Thaw("BETA")
}

// arriving returns the path of the case's temporary that has data, or "".
func (c *refused) arriving() string {
	for p, size := range c.w.n.Temporaries("BETA") {
		if filepath.Dir(p) == c.dst+"/out" && size > 0 {
			return p
		}
	}
	return ""
}
