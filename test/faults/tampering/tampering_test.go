// Package tampering_test is a campaign of changes of the audit log. The attacker can write all of coordination's files,
// knows their formats, and has coordination's own key. It cannot change the checkpoints that agents have seen or the
// messages that they have signed.
package tampering_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

// ways are the changes of the log, one for each case in turn.
var ways = []way{
	{"edit", (*scene).edit},
	{"delete", (*scene).remove},
	{"insert", (*scene).insert},
	{"swap", (*scene).swap},
	{"truncate", (*scene).truncate},
	{"rebuild", (*scene).rebuild},
	{"fork", (*scene).fork},
	{"roll back", (*scene).rollBack},
}

// TestCampaignTampering changes the log and has it verified with its witnesses.
func TestCampaignTampering(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "tampering", Unit: "logs", Full: 800, Short: 80,
		What:     "audit logs that were edited, cut, swapped, forked, put back or written anew with all hashes and signed with coordination's own key, and verified with their witnesses",
		Packages: []string{"internal/audit", "internal/audit/witness", "internal/security/identity"}},
		func(t *testing.T, c *campaign.C) {
			n := newNetwork(t)
			before := map[uint64]*scene{} // one for all ways
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				of := seed / uint64(len(ways))
				if before[of] == nil {
					clear(before)
					before[of] = n.scene(t, campaign.Rand(of))
				}
				before[of].copy(t, r).attack(t, ways[seed%uint64(len(ways))])
			})
		})
}

// TestUntouchedLogIsSound verifies unchanged logs. Without it the campaign would also pass with a verification that
// always finds a problem.
func TestUntouchedLogIsSound(t *testing.T) {
	n := newNetwork(t)
	for seed := range uint64(8) {
		s := n.scene(t, campaign.Rand(seed))
		if report := s.verify(); report.Found > 0 || report.Witnesses != 2 || report.Signed == 0 || report.Unsigned > 0 {
			t.Errorf("%d: %+v", seed, report)
		}
	}
}

// A network has coordination and two agents, which sign and are witnesses.
type network struct {
	id      string
	roots   *identity.Roots
	service *witness.Key
	agents  []*witness.Key

	dir    string
	scenes int
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	a := authoritytest.New(t)
	n := &network{id: a.Network(), dir: t.TempDir()}
	key := func(role identity.Role, name string, as roles.Role) *witness.Key {
		i := authoritytest.Identity(t, a, role, name, as)
		n.roots = i.Roots()
		k, err := witness.OpenKey(i, time.Now())
		must(t, err)
		return k
	}
	n.service = key(identity.Coordination, "", roles.Coordination)
	n.agents = []*witness.Key{key(identity.Agent, "ALPHA", roles.Agent), key(identity.Agent, "BETA", roles.Agent)}
	return n
}

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// A scene is one log, with an older copy of it, and the memory of its witnesses.
type scene struct {
	*network
	t      *testing.T
	r      *rand.Rand
	dir    string
	early  string // the older copy
	seen   []*witness.Memory
	next   []uint64
	size   int64 // that the last witness has seen
	resign bool  // the tampering rewrites all files consistently
}

// scene makes a log of some batches, which the witnesses see at different sizes.
func (n *network) scene(t *testing.T, r *rand.Rand) *scene {
	t.Helper()
	s := &scene{network: n, t: t, r: r, dir: filepath.Join(n.dir, fmt.Sprint("log", n.scenes)), early: filepath.Join(n.dir, fmt.Sprint("early", n.scenes)), next: []uint64{1, 1}}
	n.scenes++
	log := s.open(s.dir)
	var by []audit.Sealer
	for _, k := range n.agents {
		at, err := audit.Bind(log, k.Binding())
		must(t, err)
		by = append(by, audit.Sealer{Party: k.Party(), Index: at})
		m, err := witness.NewMemory(n.roots, nil)
		must(t, err)
		s.seen = append(s.seen, m)
	}
	batches := 4 + r.IntN(4)
	copied := r.IntN(batches - 1)
	for i := range batches {
		s.batch(log, by, r.IntN(2))
		if i == copied {
			must(t, log.Close())
			must(t, os.CopyFS(s.early, os.DirFS(s.dir)))
			log = s.open(s.dir)
		}
		s.look(log, r.IntN(2))
	}
	s.batch(log, by, 0)
	s.batch(log, by, 1)
	s.look(log, 0)
	s.look(log, 1)
	at, _ := s.seen[1].Held()
	s.size = at.Size
	must(t, log.Close())
	return s
}

func (s *scene) open(dir string) *audit.Log {
	s.t.Helper()
	log, err := audit.OpenLog(dir, func() time.Time { return start })
	must(s.t, err)
	return log
}

// batch appends some records of an agent.
func (s *scene) batch(log *audit.Log, by []audit.Sealer, who int) {
	s.t.Helper()
	name := transfer.AgentName(s.agents[who].Party().Name.Name)
	b := audit.Batch{V: 1, Agent: name, Incarnation: audit.FormatIncarnation(7), Floor: 1}
	first := s.next[who]
	for range 1 + s.r.IntN(5) {
		raw, err := audit.Encode(record(name, s.next[who], fmt.Sprint("in/", s.next[who])))
		must(s.t, err)
		b.Records = append(b.Records, raw)
		s.next[who]++
	}
	b.Sign(s.agents[who], first)
	_, err := by[who].Append(log, b)
	must(s.t, err)
}

func record(agent transfer.AgentName, n uint64, path string) *audit.Record {
	return &audit.Record{Agent: agent, Incarnation: audit.FormatIncarnation(7), N: n, Time: start.Add(time.Duration(n) * time.Second), Event: audit.Items, Role: audit.RoleDestination,
		Destination: agent, Items: []transfer.Outcome{{Item: n, Type: transfer.ItemFile, Path: transfer.Path(path), Size: int64(n)}}}
}

// look shows the log to a witness.
func (s *scene) look(log *audit.Log, who int) {
	s.t.Helper()
	var seen int64
	if at, ok := s.seen[who].Held(); ok {
		seen = at.Size
	}
	shown, err := s.shown(log, seen)
	must(s.t, err)
	s.seen[who], err = s.seen[who].Take(shown, start)
	must(s.t, err)
}

// shown returns the log as coordination shows it. Coordination signs the present log, even one that an attacker has
// written.
func (s *scene) shown(log *audit.Log, seen int64) (*witness.Shown, error) {
	p := audit.Prover{Log: log}
	at := p.At(s.id)
	shown, err := p.Show(at, seen)
	if err != nil {
		return nil, err
	}
	shown.Binding = s.service.Binding()
	shown.Note, err = s.service.Sign(at)
	return shown, err
}

// verify does the same as `ferry audit verify` with its witnesses. A log that cannot be opened counts as found, too.
func (s *scene) verify() audit.Report {
	s.t.Helper()
	var report audit.Report
	log, err := audit.OpenLogReadOnly(s.dir)
	if err != nil {
		report.Found++
		return report
	}
	defer log.Close()
	heard := audit.WitnessStatements{Roots: s.roots, Now: start, Show: func(size int64, id string) (*witness.Shown, error) {
		if id != (audit.Prover{Log: log}).At(s.id).Log {
			size = 0
		}
		return s.shown(log, size)
	}}
	for i, m := range s.seen {
		st, err := s.agents[i].State(m, start)
		must(s.t, err)
		heard.Statements = append(heard.Statements, st)
	}
	kept := heard.Compare(&report)
	own, err := log.VerifySigned(s.t.Context(), s.roots, kept...)
	if err != nil {
		report.Found++
		return report
	}
	own.Join(&report)
	return own
}

// copy returns the scene for one case, with a log of its own.
func (s *scene) copy(t *testing.T, r *rand.Rand) *scene {
	t.Helper()
	c := *s
	c.t, c.r, c.dir = t, r, filepath.Join(t.TempDir(), "log")
	c.seen, c.next = slices.Clone(s.seen), slices.Clone(s.next)
	must(t, os.CopyFS(c.dir, os.DirFS(s.dir)))
	c.resign = r.IntN(2) == 0
	return &c
}

// A way is a change of a log.
type way struct {
	name string
	do   func(*scene)
}

// attack is one case: the log is verified before and after the witnesses have seen the changed log.
func (s *scene) attack(t *testing.T, w way) {
	if before := s.verify(); before.Found != 0 {
		t.Fatalf("before anything was done: %+v", before)
	}
	w.do(s)
	if s.verify().Found == 0 {
		t.Errorf("%s (all written anew: %v) is not found", w.name, s.resign)
	}
	s.lookAgain()
	if s.verify().Found == 0 {
		t.Errorf("%s (all written anew: %v) is not found once the witnesses have looked", w.name, s.resign)
	}
}

// lookAgain has coordination show the changed log to the witnesses, if it can start with it.
func (s *scene) lookAgain() {
	log, err := audit.OpenLogReadOnly(s.dir)
	if err != nil {
		return
	}
	defer log.Close()
	for who := range s.seen {
		at, _ := s.seen[who].Held()
		if shown, err := s.shown(log, at.Size); err == nil {
			s.seen[who], _ = s.seen[who].Take(shown, start)
		}
	}
}

// The changes of a log.

func (s *scene) edit() {
	h, list := s.frames()
	i := s.one(list)
	list[i] = bytes.Replace(list[i], []byte(`"v":1`), []byte(`"v":1,"job":"x"`), 1)
	s.write(h, list)
}

func (s *scene) remove() {
	h, list := s.frames()
	i := s.one(list)
	s.write(h, slices.Delete(list, i, i+1))
}

func (s *scene) insert() {
	h, list := s.frames()
	i := s.one(list)
	raw, err := audit.Encode(record("ALPHA", 500+s.r.Uint64N(9), "forged"))
	must(s.t, err)
	if s.r.IntN(2) == 0 {
		raw = slices.Clone(list[i])
	}
	s.write(h, slices.Insert(list, i, raw))
}

func (s *scene) swap() {
	h, list := s.frames()
	i, j := s.one(list), s.one(list)
	for bytes.Equal(list[i], list[j]) {
		j = s.one(list)
	}
	list[i], list[j] = list[j], list[i]
	s.write(h, list)
}

func (s *scene) truncate() {
	h, list := s.frames()
	s.write(h, list[:s.one(list)])
}

// rebuild changes a record, and all data that depend on it.
func (s *scene) rebuild() {
	s.resign = true
	h, list := s.frames()
	i := s.one(list)
	for !bytes.Contains(list[i], []byte(`"size":`)) {
		i = s.one(list)
	}
	list[i] = bytes.Replace(list[i], []byte(`"size":`), []byte(`"size":9`), 1)
	s.write(h, list)
}

// fork continues an older copy with other batches in the agents' names. The attacker has the agents' keys, too.
func (s *scene) fork() {
	s.rollBack()
	log := s.open(s.dir)
	by := s.sealers(log)
	// Its signed records differ from those in the log that the witnesses have seen.
	for i := range s.next {
		s.next[i] = s.had(log, i) + 1
	}
	for p := (audit.Prover{Log: log}); p.At(s.id).Size < s.size+int64(s.r.IntN(9)); {
		s.forged(log, by, s.r.IntN(2))
	}
	must(s.t, log.Close())
}

// sealers finds the positions of the agents' keys in the log.
func (s *scene) sealers(log *audit.Log) []audit.Sealer {
	by := make([]audit.Sealer, len(s.agents))
	must(s.t, log.Scan(0, func(i int64, _ []byte, r *audit.Record) error {
		for n, k := range s.agents {
			if r.Event == audit.Bound && r.Binding.ID() == k.Party().ID {
				by[n] = audit.Sealer{Party: k.Party(), Index: i}
			}
		}
		return nil
	}))
	return by
}

// had returns the last number of an agent in the log.
func (s *scene) had(log *audit.Log, who int) (n uint64) {
	must(s.t, log.Scan(0, func(_ int64, _ []byte, r *audit.Record) error {
		if string(r.Agent) == s.agents[who].Party().Name.Name {
			n = max(n, r.N)
		}
		return nil
	}))
	return n
}

func (s *scene) forged(log *audit.Log, by []audit.Sealer, who int) {
	name := transfer.AgentName(s.agents[who].Party().Name.Name)
	b := audit.Batch{V: 1, Agent: name, Incarnation: audit.FormatIncarnation(7), Floor: 1}
	raw, err := audit.Encode(record(name, s.next[who], "elsewhere"))
	must(s.t, err)
	b.Records = append(b.Records, raw)
	b.Sign(s.agents[who], s.next[who])
	s.next[who]++
	_, err = by[who].Append(log, b)
	must(s.t, err)
}

func (s *scene) rollBack() {
	must(s.t, os.RemoveAll(s.dir))
	must(s.t, os.CopyFS(s.dir, os.DirFS(s.early)))
}

// one returns a record below the size that both witnesses have seen.
func (s *scene) one(list [][]byte) int { return s.r.IntN(int(min(s.size, int64(len(list))))) }

// The format of the file of records (package audit).
const (
	headerSize = 32
	frameHead  = 8
)

// frames reads the records.
func (s *scene) frames() (header []byte, list [][]byte) {
	data, err := os.ReadFile(filepath.Join(s.dir, "records"))
	must(s.t, err)
	header, data = data[:headerSize], data[headerSize:]
	for len(data) > 0 {
		n := int(binary.BigEndian.Uint32(data))
		body, err := audit.Unpack(data[frameHead : frameHead+n])
		must(s.t, err)
		list = append(list, bytes.Clone(body))
		data = data[frameHead+n:]
	}
	return header, list
}

// write replaces the records, with valid checksums. If resign is set, it also rewrites index, hashes and state.
func (s *scene) write(header []byte, list [][]byte) {
	out := slices.Clone(header)
	for _, body := range list {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		table := crc32.MakeTable(crc32.Castagnoli)
		out = append(out, head...)
		out = binary.BigEndian.AppendUint32(out, crc32.Update(crc32.Checksum(head, table), table, body))
		out = append(out, body...)
	}
	must(s.t, os.WriteFile(filepath.Join(s.dir, "records"), out, 0o600))
	if !s.resign {
		return
	}
	for _, name := range []string{"index", "hashes", "state"} {
		must(s.t, os.Remove(filepath.Join(s.dir, name)))
	}
	if log, err := audit.OpenLog(s.dir, func() time.Time { return start }); err == nil {
		must(s.t, log.Close())
	}
}
