package protocol_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// atRestEnv makes the test binary run one case of the campaign at-rest. Each case needs a process of its own, because a
// damaged ledger may end the process.
const atRestEnv = "FERRY_AT_REST_SEED"

// TestCampaignAtRest damages files while an agent is down, between a checkpoint and the resume. The agent detects the
// damage, or it has no effect: no damaged file is committed, and no failure is reported as a success. A damaged ledger
// is refused with an error that names it.
func TestCampaignAtRest(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "at-rest",
		What: "a temporary, the ledger or an item journal is flipped, cut, zeroed or overwritten while the agent is down between checkpoint and resume",
		Unit: "damages", Full: 500, Short: 50, Packages: product}, func(t *testing.T, c *campaign.C) {
		c.Add(spread(t, c.Seed, c.Count, inChild))
		t.Log(&toll)
	})
}

func inChild(t *testing.T, seed uint64, _ *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestDamagedAtRest$")
	c.Env = append(os.Environ(), atRestEnv+"="+strconv.FormatUint(seed, 10))
	out, err := c.CombinedOutput()
	switch {
	case err == nil:
	case bytes.Contains(out, []byte("--- FAIL: TestDamagedAtRest")):
		t.Errorf("%s", out)
	default:
		t.Errorf("the agent came to its end without a word about the damage (%v):\n%s", err, out[:min(len(out), 6000)])
	}
	for what := range strings.SplitSeq(string(out), "\n") {
		if what, ok := strings.CutPrefix(what, "DAMAGE "); ok {
			toll.add(what, 1)
		}
	}
}

// TestDamagedAtRest is one case; without a seed, the first.
func TestDamagedAtRest(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv(atRestEnv), 10, 64)
	if err != nil {
		seed = 1
	}
	s := &script{r: campaign.Rand(seed)}
	bubble(t, setup{park: true}, func(w *world) { w.atRest(s, seed%4 == 2) })
}

// A fileDamage damages a file at rest.
type fileDamage struct {
	name string
	do   func(s *script, b []byte) []byte
}

var fileDamages = []fileDamage{
	{"flipped", func(s *script, b []byte) []byte {
		for range 1 + s.n(3) {
			b[s.spot(b)] ^= 1 << s.n(8)
		}
		return b
	}},
	{"cut", func(s *script, b []byte) []byte { return b[:s.n(len(b))] }},
	{"zeroed", func(s *script, b []byte) []byte {
		at := s.spot(b)
		clear(b[at:min(len(b), at+1+s.n(5000))])
		return b
	}},
	{"page zeroed", func(s *script, b []byte) []byte {
		at := s.spot(b) &^ 4095
		clear(b[at:min(len(b), at+4096)])
		return b
	}},
	{"overwritten", func(s *script, b []byte) []byte {
		at := s.spot(b)
		for i := at; i < min(len(b), at+1+s.n(600)); i++ {
			b[i] = byte(s.n(256))
		}
		return b
	}},
	{"an older page in place of a newer", func(s *script, b []byte) []byte {
		if pages := len(b) / 4096; pages > 1 {
			from, to := s.n(pages), s.n(pages)
			copy(b[to*4096:(to+1)*4096], b[from*4096:(from+1)*4096])
		}
		return b
	}},
	{"longer", func(s *script, b []byte) []byte { return append(b, make([]byte, 1+s.n(9000))...) }},
}

// spot returns an offset in a file, preferably of a byte that is not zero.
func (s *script) spot(b []byte) int {
	at := s.n(len(b))
	for tries := 0; tries < 200 && b[at] == 0; tries++ {
		at = s.n(len(b))
	}
	return at
}

// atRest is one case. With unheard, the source receives no outcome before its end.
func (w *world) atRest(s *script, unheard bool) {
	w.slow(10 * time.Millisecond)
	files := map[string][]byte{"in/a": content(1, 300), "in/b": content(2, 5000), "in/big": content(3, 120<<10),
		"in/c/d": content(4, 700), "in/last": content(5, 30<<10)}
	w.write(files)
	w.expect("out", files)
	n := []*node{w.src, w.dst, w.dst}[s.n(3)]
	at := 4 + s.n(16) // the acknowledgement after which it dies
	if unheard {
		n, at = w.src, 4+s.n(80) // perhaps after everything has arrived
		w.fates = func(p *faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: p.Kind == wire.KindOutcomes} }
	}
	n.stayDown()
	w.after = func(p *faulty.Parcel, _ *node) {
		if p.Kind == wire.KindAck && p.N == at {
			n.kill()
		}
	}
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(5 * time.Minute), Options: transfer.Options{Recursive: true, Checksum: []string{"", "md5", "none"}[s.n(3)], Disposition: disposition(s.one(3))}})
	if unheard {
		w.until(time.Minute, "it does not arrive", func() bool {
			in := w.incoming(id)
			return w.net.Count(wire.KindAck) >= at || in != nil && in.State == transfer.Decided
		})
		n.kill()
	}
	left := n.fallen()
	w.change(func(w *world) { w.fates = nil })
	victim := w.victim(s, n, left, id)
	sound, err := os.ReadFile(victim)
	must(w.t, err)
	r := fileDamages[s.n(len(fileDamages))]
	what := fmt.Sprintf("%s: %s", kindOf(victim), r.name)
	w.t.Logf("%s of %s, %s", what, n.name, victim)
	must(w.t, os.WriteFile(victim, r.do(s, bytes.Clone(sound)), 0o600))
	end := w.endAfter(n, left, victim, sound, id)
	fmt.Printf("DAMAGE %s: %s\n", what, end)
	w.t.Logf("it ended: %s", end)
	w.truthful(id, files)
}

func kindOf(victim string) string {
	switch {
	case strings.HasSuffix(victim, ".part"):
		return "temporary"
	case strings.HasSuffix(victim, "ledger.db"):
		return "ledger"
	}
	return "item journal"
}

// victim chooses a file.
func (w *world) victim(s *script, n *node, left string, id transfer.ID) string {
	db := filepath.Join(left, "ledger.db")
	if n == w.src {
		journal := filepath.Join(left, "items", id.String())
		if _, err := os.Stat(journal); err == nil && s.one(2) {
			return journal
		}
		return db
	}
	var temps []string
	for _, p := range w.temporaries() {
		if fi, err := os.Stat(p); err == nil && fi.Size() > 0 {
			temps = append(temps, p)
		}
	}
	if len(temps) > 0 && s.one(2) {
		return temps[s.n(len(temps))]
	}
	return db
}

// endAfter starts the agent and waits for the end of the transfer. An agent that refuses its ledger gets the undamaged
// one back, as from a backup.
func (w *world) endAfter(n *node, left, victim string, sound []byte, id transfer.ID) string {
	if err := n.tryStart(left); err != nil {
		if !strings.Contains(err.Error(), "ledger") && !strings.Contains(err.Error(), "journal") {
			w.t.Errorf("it refuses to start and does not say what is damaged: %v", err)
		}
		must(w.t, os.WriteFile(victim, sound, 0o600))
		n.start(left)
		w.until(10*time.Minute, "it does not end with the sound ledger either", func() bool { return w.over(id) })
		if s := w.source(id); s.State != transfer.Successful {
			w.t.Errorf("with the sound ledger it ended %s: %v", s.State, s.Progress.Reason)
		}
		return "refused in words"
	}
	for range 600 {
		if s := w.source(id); s != nil && s.State.Final() {
			if s.State == transfer.Successful {
				return "no harm"
			}
			if s.Progress.Reason == nil {
				w.t.Errorf("it ended %s and does not say why", s.State)
			}
			return "found: " + string(s.State)
		}
		pass(time.Second)
	}
	s := w.source(id)
	switch {
	case s == nil:
		w.t.Errorf("the source no longer knows the transfer, and nothing has said that it is damaged")
	case s.Progress.Reason == nil:
		w.t.Errorf("after ten minutes it is %s and does not say why: %s", s.State, w.picture())
	default:
		return "found: waits and says why"
	}
	return "lost"
}

// truthful compares the reports about the transfer with the files: each file reported as successful is present, and no
// other content is under its name.
func (w *world) truthful(id transfer.ID, files map[string][]byte) {
	s := w.source(id)
	good := 0
	for name, data := range files {
		got, err := w.dst.host().get("out/" + name)
		switch {
		case err == nil && !bytes.Equal(got, data):
			w.t.Errorf("%s arrived damaged: %s", name, firstDifference(got, data))
		case err == nil:
			good++
		}
		if _, serr := w.src.host().get(name); serr != nil && err != nil {
			w.t.Errorf("%s is neither at the source nor at the destination", name)
		}
	}
	if s != nil && (s.State == transfer.Successful && good != len(files) || int64(good) < s.Progress.Files) {
		w.t.Errorf("the transfer is %s with %d files, and %d of %d are there", s.State, s.Progress.Files, good, len(files))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range append(w.torn, w.early...) {
		w.t.Error(what)
	}
	for full, n := range w.renames {
		if n > 1 {
			w.t.Errorf("%s was committed %d times", full, n)
		}
	}
}
