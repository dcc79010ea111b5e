//go:build linux

package disk_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/faults/fuse"
	"ferry/test/flow/network"
)

// TestCampaignNames sends files with every kind of name and shape to file systems of three kinds and back. They must
// arrive unchanged and come back unchanged. An item that cannot be sent or created is reported, and no other file takes
// its place.
func TestCampaignNames(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "names", What: "names and shapes of files, there and back, on the file system of the temporary directory, on tmpfs and on one that folds case",
		Unit: "names and shapes", Full: 3 * len(shapes), Short: 80},
		func(t *testing.T, c *campaign.C) {
			z := &fileKinds{t: t, up: map[string]*network.Network{}}
			c.Loop(t, func(t *testing.T, seed uint64, _ *rand.Rand) {
				k := int((seed - 1) % uint64(3*len(shapes)))
				row := &shapes[k%len(shapes)]
				kind := kinds[k/len(shapes)]
				defer func() {
					if t.Failed() {
						t.Logf("seed %d was: %s on %s", seed, row.name, kind)
					}
				}()
				z.visit(t, seed, row, kind)
			})
			for _, n := range z.up {
				n.NoTemporaries("ALPHA", "BETA")
				n.Sound()
			}
		})
}

// kinds lists the file systems at the destination; all but the first need root.
var kinds = []string{"the temporary directory's file system", "tmpfs", "a file system that folds case"}

// A shape is a directory d to be sent as a whole. If it is a list of names, each is also sent alone, and a file is sent
// to it as DEST.
type shape struct {
	name  string
	names []string         // files in d
	build func(b *shaping) // creates further contents of d
	flags []string
	lacks []string               // names in d that do not arrive
	said  []said                 // their errors; the transfer is partial then
	fold  *shape                 // lacks and said where names fold
	check func(src, dst *shaped) // replaces the comparison of the trees
	whole bool                   // no name is sent alone
}

// said is an error of an item; SRC and DST are the two directories d.
type said struct {
	kind transfer.Kind
	text string
}

// A fileKinds has a network for each kind of file system.
type fileKinds struct {
	t  *testing.T
	up map[string]*network.Network
}

func (z *fileKinds) network(kind string) *network.Network {
	z.t.Helper()
	if n := z.up[kind]; n != nil {
		return n
	}
	s := network.Setup{Ferry: campaign.Ferry(z.t), Agents: []string{"ALPHA", "BETA"}, Roots: map[string]string{}}
	if kind != kinds[0] && os.Geteuid() != 0 {
		z.t.Fatalf("%s has to be mounted, which only root may do: run this as root", kind)
	}
	switch kind {
	case kinds[1]:
		s.Roots["BETA"] = z.t.TempDir()
		must(z.t, unix.Mount("ferry-faults", s.Roots["BETA"], "tmpfs", 0, "size=1g"))
		z.t.Cleanup(func() { unix.Unmount(s.Roots["BETA"], unix.MNT_DETACH) })
	case kinds[2]:
		s.Roots["BETA"] = fuse.Mount(z.t, z.t.TempDir(), fuse.Options{Fold: true}).Dir
	}
	z.up[kind] = network.Up(z.t, s)
	return z.up[kind]
}

// A shaped is one side of a case.
type shaped struct {
	t   *testing.T
	dir string // d
}

// A shaping builds the directory that is sent.
type shaping struct {
	shaped
	n    *network.Network
	at   string // the case's directory beneath the roots
	said []said // errors that follow from the build
	next uint64 // seed of the next file's content
	seed uint64
}

func (z *fileKinds) visit(t *testing.T, seed uint64, row *shape, kind string) {
	t.Helper()
	n := z.network(kind)
	b := &shaping{shaped: shaped{t, n.Path("ALPHA", fmt.Sprintf("c%d/d", seed))}, n: n, at: fmt.Sprintf("c%d", seed), seed: seed}
	must(t, os.MkdirAll(b.dir, 0o755))
	for _, name := range row.names {
		b.file(name, 1000)
	}
	if row.build != nil {
		row.build(b)
	}
	lacks, said := row.lacks, row.said
	if row.fold != nil && kind == kinds[2] {
		lacks, said = row.fold.lacks, row.fold.said
	}
	args := append(slices.Clone(row.flags), "-r", "--permissions", "preserve", "ALPHA:"+b.at+"/d")
	var named []*network.Sending
	if !row.whole && len(lacks) == 0 {
		n.FileK("ALPHA", b.at+"/plain", seed, 0, 700)
		for _, name := range row.names {
			args = append(args, "ALPHA:"+b.at+"/d/"+name)
			named = append(named, n.SendAsync("ALPHA:"+b.at+"/plain", "BETA:"+b.at+"/named/"+name))
		}
	}
	b.ended(n.Send(append(args, "BETA:"+b.at+"/out/")...), append(b.said, said...))
	b.arrived(row, &shaped{t, n.Path("BETA", b.at+"/out/d")}, lacks)
	for k, s := range named {
		s.Wait().Ends("successful", 0)
		network.SameTree(t, b.dir+"/"+row.names[k], n.Path("BETA", b.at+"/out/"+row.names[k]))
		network.SameTree(t, n.Path("ALPHA", b.at+"/plain"), n.Path("BETA", b.at+"/named/"+row.names[k]))
	}
	n.Send("-r", "--permissions", "preserve", "BETA:"+b.at+"/out/d", "ALPHA:"+b.at+"/back/").Ends("successful", 0)
	b.arrived(row, &shaped{t, n.Path("ALPHA", b.at+"/back/d")}, lacks)
	must(t, os.RemoveAll(n.Path("ALPHA", b.at)))
	must(t, os.RemoveAll(n.Path("BETA", b.at)))
}

// ended expects a transfer to have reported the given errors and no others.
func (b *shaping) ended(r network.Result, all []said) {
	b.t.Helper()
	state, code := "successful", 0
	if len(all) > 0 {
		state, code = "partial", 20
	}
	r.Ends(state, code)
	if len(all) == 0 {
		return
	}
	words := strings.NewReplacer("SRC", transfer.Path(b.dir).String(), "DST", transfer.Path(b.n.Path("BETA", b.at+"/out/d")).String())
	var want, got []string
	for _, s := range all {
		want = append(want, fmt.Sprintf("%s: %s", s.kind, words.Replace(s.text)))
	}
	for _, o := range b.n.Outcomes(b.n.Audit(r.Summary.ID), "source") {
		if e := o.Error; e != nil {
			text := e.Text
			if e.Hint != "" {
				text += "; " + e.Hint
			}
			got = append(got, fmt.Sprintf("%s: %s", e.Kind, text))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		b.t.Errorf("the items that failed said\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// arrived compares the arrived tree with the sent one, except for the names in lacks.
func (b *shaping) arrived(row *shape, at *shaped, lacks []string) {
	b.t.Helper()
	for _, name := range lacks {
		if _, ok := at.names()[name]; ok {
			b.t.Errorf("%q has arrived in %s", name, at.dir)
		}
	}
	if row.check != nil {
		row.check(&b.shaped, at)
		return
	}
	if len(lacks) == 0 {
		network.SameTree(b.t, b.dir, at.dir)
		return
	}
	// Move the files that may be lacking aside during the comparison.
	aside := b.dir + "-aside"
	must(b.t, os.MkdirAll(aside, 0o755))
	for k, name := range lacks {
		must(b.t, os.Rename(filepath.Join(b.dir, name), fmt.Sprint(aside, "/", k)))
	}
	network.SameTree(b.t, b.dir, at.dir)
	for k, name := range lacks {
		must(b.t, os.Rename(fmt.Sprint(aside, "/", k), filepath.Join(b.dir, name)))
	}
}

// names returns the names of all files in a directory, in their spelling there.
func (s *shaped) names() map[string]os.FileInfo {
	s.t.Helper()
	all := map[string]os.FileInfo{}
	must(s.t, filepath.WalkDir(s.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(s.dir, p)
		all[rel] = info
		return err
	}))
	return all
}

func (s *shaped) stat(name string) unix.Stat_t {
	s.t.Helper()
	var st unix.Stat_t
	must(s.t, unix.Lstat(s.dir+"/"+name, &st))
	return st
}

// file makes a file in d, and the directories above it.
func (b *shaping) file(name string, size int64) {
	b.t.Helper()
	b.next++
	b.n.FileK("ALPHA", b.at+"/d/"+name, b.seed, b.next, size)
}

func (b *shaping) mkdir(name string, mode os.FileMode) {
	b.t.Helper()
	must(b.t, os.MkdirAll(b.dir+"/"+name, 0o755))
	must(b.t, os.Chmod(b.dir+"/"+name, mode))
}

// open makes an empty file and passes it to do.
func (b *shaping) open(name string, do func(f *os.File) error) {
	b.t.Helper()
	f, err := os.Create(b.dir + "/" + name)
	must(b.t, err)
	must(b.t, do(f))
	must(b.t, f.Close())
}

// kept expects exactly these names to have arrived.
func kept(want ...string) func(src, dst *shaped) {
	return func(_, dst *shaped) {
		dst.t.Helper()
		got := slices.Sorted(maps.Keys(dst.names()))
		all := append(slices.Clone(want), ".") // the next file system asks again
		slices.Sort(all)
		if !slices.Equal(got, slices.Compact(all)) {
			dst.t.Errorf("%s has %q, not %q", dst.dir, got, want)
		}
	}
}
