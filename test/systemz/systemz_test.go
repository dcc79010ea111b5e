//go:build linux

// Package systemz_test runs Ferry of System z, with its other byte order, beside the one of this host: agents and
// coordination of linux/s390x under an emulator, in one network with those of the host's own architecture. Messages and
// audit records must mean the same to both. It is run by make test-s390x, which also runs there the tests of the
// packages with formats of their own.
package systemz_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

const mib = 1 << 20

// Names of the agents: one of System z, one of this host.
const (
	onZ  = "SYSZ"
	here = "HERE"
)

// The programs under test: the host's own, and the command that runs that of System z.
var (
	ferry  string
	ferryZ []string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("SYSTEMZ") == "" {
		fmt.Println("System z is tried under make test-s390x, and nothing was tried here")
		return 0
	}
	dir, err := os.MkdirTemp("", "ferry-systemz-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds both programs, and finds the emulator.
func build(dir string) (err error) {
	emulator, err := findEmulator()
	if err != nil {
		return err
	}
	if ferry, err = network.Build(dir); err != nil {
		return err
	}
	program := filepath.Join(dir, "ferry-s390x")
	c := exec.Command("go", "build", "-o", program, "ferry/cmd/ferry")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=s390x")
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("ferry cannot be built for linux/s390x: %w\n%s", err, text)
	}
	ferryZ = []string{emulator, program}
	// A program of the host's own would pass every test here.
	head := make([]byte, 20)
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	if head[5] != 2 || head[18] != 0 || head[19] != 22 { // ELF: most significant byte first, EM_S390
		return fmt.Errorf("%s is not of System z: it begins with % x", program, head)
	}
	return nil
}

func findEmulator() (string, error) {
	for _, name := range []string{"qemu-s390x-static", "qemu-s390x"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no emulator of System z is in the PATH (qemu-s390x-static, qemu-s390x); on Debian and Ubuntu: sudo apt-get install qemu-user-static")
}

// up starts a queue manager of this host, and an agent of each architecture.
func up(t *testing.T, direct string) *network.Network {
	t.Helper()
	return network.Up(t, network.Setup{Ferry: ferry, Agents: []string{here, onZ}, Direct: direct, Other: map[string][]string{onZ: ferryZ}})
}

// ways are the two directions, by name.
var ways = []struct{ name, from, to string }{
	{"from System z", onZ, here},
	{"to System z", here, onZ},
}

// lanes are the lanes for the data, by the value of the agents' --direct.
var lanes = []string{"tls", "plain", "off"}

// Files of all sizes arrive whole in both directions, over every lane, under
// every checksum; both sides have the same on record, and the log is sound.
func TestFilesArrive(t *testing.T) {
	for _, direct := range lanes {
		t.Run(direct, func(t *testing.T) {
			n := up(t, direct)
			for _, w := range ways {
				n.Files(w.from, "many", 1, 40, 3000)
				n.File(w.from, "many/large", 2, 5*mib+1)
				n.File(w.from, "many/empty", 3, 0)
				wholeSeconds(t, n.Root(w.from))
				for _, sum := range []string{"xxh3", "md5", "sha256"} {
					s := n.Send("-r", "--checksum", sum, "--compress", "auto", w.from+":many", w.to+":from-"+w.from+"/"+sum+"/").Ends("successful", 0).Summary
					n.Same(w.from, "many", w.to, "from-"+w.from+"/"+sum+"/many")
					once(t, n, s.ID, 43)
					if want := map[string]string{"off": "queue"}[direct]; want != "" && s.Lane != want || want == "" && s.Lane != "direct" {
						t.Errorf("%s, %s: the data took the %s lane", w.name, sum, s.Lane)
					}
				}
			}
		})
	}
}

// The agent of System z is killed in the middle of a large file, as its source
// and as its destination: the file goes on from its last safe point and is whole.
func TestKilledInTheMiddleOfAFile(t *testing.T) {
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			n := up(t, lanes[i+1]) // plain from there, the queue lane to it
			n.File(w.from, "big", 4, 192*mib)
			wholeSeconds(t, n.Root(w.from))

			s := n.SendAsync(w.from+":big", w.to+":out/")
			n.Growing(w.to, 32*mib)
			n.Kill(onZ)
			if n.Exists(w.to, "out/big") {
				t.Error("the file has its final name before it is whole")
			}
			n.Start(onZ)
			sum := s.Wait().Ends("successful", 0).Summary

			n.Same(w.from, "big", w.to, "out/big")
			once(t, n, sum.ID, 1)
			p := n.Status(sum.ID)
			if most := p.MayResend(); sum.Resumes == 0 || sum.BytesResent > most {
				t.Errorf("%d resumes, and %d bytes sent again; one interruption may cost %d", sum.Resumes, sum.BytesResent, most)
			}
		})
	}
}

// An audit log that coordination of one architecture has written is sound to the
// other, which can go on with it.
func TestAuditLogIsRead(t *testing.T) {
	const theirs, ours = "COORDINATION-Z", "COORDINATION"
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{here, onZ}, Direct: "plain",
		Flags: map[string][]string{network.QM: {"--coordination", "none"}},
		Other: map[string][]string{onZ: ferryZ, theirs: ferryZ}})
	log := n.State(ours) // one directory for both, one after the other
	for _, name := range []string{theirs, ours} {
		n.AddOther(name, "coordination ready", "coordination", "run", "--network", n.URL(), "--dir", log)
	}
	for _, w := range ways {
		n.Files(w.from, "many", 5, 20, 500)
		wholeSeconds(t, n.Root(w.from))
	}
	var sent []string
	for _, name := range []string{theirs, ours, theirs} {
		n.Start(name)
		for _, w := range ways {
			dir := fmt.Sprintf("copy%d", len(sent))
			s := n.Send("-r", w.from+":many", w.to+":"+dir+"/").Ends("successful", 0).Summary
			n.Same(w.from, "many", w.to, dir+"/many")
			sent = append(sent, s.ID)
		}
		for _, id := range sent {
			once(t, n, id, 21)
		}
		n.Stop(name)
		for _, program := range [][]string{{ferry}, ferryZ} {
			verified(t, program, log, sent)
		}
	}
}

// A ledger stays on its architecture: the other one refuses it, says why, and
// leaves it as it is.
func TestLedgerStaysWhereItIs(t *testing.T) {
	n := up(t, "plain")
	n.Stop(here, onZ)
	for _, c := range []struct {
		ledger  string
		program []string
	}{{here, ferryZ}, {onZ, []string{ferry}}} {
		argv := append(append([]string{}, c.program...), "agent", "run", c.ledger, "--network", n.URL(), "--dir", n.State(c.ledger), "--root", n.Root(c.ledger))
		text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), "with the other byte order") {
			t.Errorf("%s takes the ledger of %s: %v, %s", filepath.Base(c.program[len(c.program)-1]), c.ledger, err, text)
		}
	}
	n.Start(here, onZ)
}

// wholeSeconds drops the fraction of the times of all files of a tree: QEMU 7
// does not tell it to programs of System z, so that no agent could keep it.
func wholeSeconds(t *testing.T, top string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		when := info.ModTime().Truncate(time.Second)
		return os.Chtimes(path, when, when)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// verified has a program verify a log where it lies, and find transfers in it.
func verified(t *testing.T, program []string, log string, ids []string) {
	t.Helper()
	roots := said(t, program, "audit", "verify", "--dir", log)
	if !strings.HasPrefix(roots, "sound: ") {
		t.Errorf("%s says of the log: %s", filepath.Base(program[len(program)-1]), roots)
	}
	for _, id := range ids {
		if n := strings.Count(said(t, program, "audit", "show", "--json", "--dir", log, id), `"event":"completed"`); n != 2 {
			t.Errorf("%s finds %d last words on transfer %s, not those of both sides", filepath.Base(program[len(program)-1]), n, id)
		}
	}
}

// said returns a program's output on stdout. The program must succeed.
func said(t *testing.T, program []string, args ...string) string {
	t.Helper()
	argv := append(append([]string{}, program...), args...)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "HOME="+t.TempDir())
	text, err := c.Output()
	if err != nil {
		why := ""
		if e, ok := err.(*exec.ExitError); ok {
			why = string(e.Stderr)
		}
		t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, text, why)
	}
	return string(text)
}

// once expects both sides to have every item of a transfer on record once, and
// in the same words, the log to be sound, and no temporaries to be left.
func once(t *testing.T, n *network.Network, id string, items int) {
	t.Helper()
	records := n.Audit(id)
	a, b := n.Outcomes(records, "source"), n.Outcomes(records, "destination")
	if len(a) != items || len(b) != items {
		t.Errorf("the source has %d items of %s on record, the destination %d; there are %d", len(a), id, len(b), items)
	}
	for item, o := range a {
		if p := b[item]; fmt.Sprint(o.Path, o.Digest, o.Size) != fmt.Sprint(p.Path, p.Digest, p.Size) {
			t.Errorf("the two sides have item %d on record differently: %+v and %+v", item, o, p)
		}
	}
	n.Sound()
	n.NoTemporaries(here, onZ)
}
