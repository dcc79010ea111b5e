//go:build linux

// Package speakers_test is a campaign of messages about agents and transfers that do not belong to the sender: audit
// batches and receipts, heartbeats and figures, registrations and commands, while transfers run. The sender may use
// every subject. It has a copy of each agent's state directory with its keys.
package speakers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/content/compress"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const (
	inACase     = 2500
	atOnce      = 6
	jobsOfACase = 24
	mostMemory  = 400 << 20
)

// TestCampaignSpeakers sends messages about agents and transfers that do not belong to the sender.
func TestCampaignSpeakers(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "speakers", Unit: "messages", Full: 20_000, Short: 400,
		What: "audit batches, receipts, heartbeats, figures, registrations and commands that are forged, repeated or out of range, while transfers run"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				most := min(inACase, c.Count-done)
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { attack(t, seed, campaign.Rand(seed), most) }) {
					t.Logf("this case again: make test-faults CAMPAIGN=speakers SEED=%d COUNT=%d", seed, most)
					return
				}
				done += most
				c.Add(most)
			}
		})
}

// A forger hears the messages of agents and sends false ones.
type forger struct {
	*network.Network
	t *testing.T
	r *rand.Rand
	c *nats.Conn

	keys    map[transfer.AgentName]*witness.Key // keys that sign the agents' audit records
	mu      sync.Mutex
	records map[string]bool // of agents; each must be in the log at the end
	last    map[transfer.AgentName]audit.Batch
	figures []transfer.Progress
	raw     [][2]string // subject and data of each message heard
}

func attack(t *testing.T, seed uint64, r *rand.Rand, most int) {
	agents := []string{"ALPHA", "BETA"}
	f := &forger{t: t, r: r, keys: map[transfer.AgentName]*witness.Key{}, records: map[string]bool{}, last: map[transfer.AgentName]audit.Batch{},
		Network: network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: agents, Direct: "off"})}
	pids := map[string]int{}
	for _, who := range append(agents, network.QM) {
		pids[who] = f.Pid(who)
	}
	for _, who := range agents {
		f.keys[transfer.AgentName(who)] = f.keyOf(who)
	}
	f.c = f.Anybody(nats.NoEcho())
	for _, subject := range []string{wire.AllEvents, wire.AllProgress, wire.AllBeats} {
		_, err := f.c.Subscribe(subject, f.hear)
		must(t, err)
	}
	must(t, f.c.Flush())
	var jobs []*network.Job
	var runs []*network.Sending
	begin := func() {
		n := len(jobs)
		j := &network.Job{From: agents[n%2], To: agents[1-n%2], In: fmt.Sprint("in", n), Out: fmt.Sprint("out", n), Seed: seed + uint64(n), Count: 40, Size: 20_000, Delete: n%3 == 0}
		jobs, runs = append(jobs, j), append(runs, f.Begin(j))
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for said := 0; said < most; {
		running := 0
		for _, s := range runs {
			if s.Running() {
				running++
			}
		}
		for ; running < atOnce && len(jobs) < jobsOfACase; running++ {
			begin()
		}
		for range 5 {
			said += f.say()
		}
		<-tick.C
	}
	for n, s := range runs {
		jobs[n].ID = s.ID()
		s.Wait().Ends("successful", 0)
		j := jobs[n]
		for k := range j.Count {
			name := fmt.Sprintf("%s/%06d", j.In, k)
			if _, err := os.Stat(f.Path(j.To, filepath.Join(j.Out, name))); err != nil {
				t.Fatalf("%s is reported as successful, and %v", j.ID, err)
			}
		}
	}
	f.logHasAll()
	if rep := f.verify(); rep.Found == 0 {
		t.Error("verify calls the log sound, in which records are missing and came twice")
	}
	for who, pid := range pids {
		if f.Pid(who) != pid {
			t.Errorf("%s has ended and begun again", who)
		}
		if peak := f.PeakRSS(who); peak > mostMemory {
			t.Errorf("%s has taken %s", who, transfer.FormatBytes(peak))
		}
	}
}

func (f *forger) hear(m *nats.Msg) {
	plain, err := compress.Messages.Unpack(m.Data)
	if err != nil {
		return
	}
	m.Data = plain
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.raw) < 200 {
		f.raw = append(f.raw, [2]string{m.Subject, string(m.Data)})
	} else {
		f.raw[f.r.IntN(len(f.raw))] = [2]string{m.Subject, string(m.Data)}
	}
	if b, err := audit.DecodeBatch(m.Data); err == nil {
		for _, r := range b.Records {
			f.records[string(r)] = true
		}
		f.last[b.Agent] = b
	}
	if r, err := wire.DecodeReport(m.Data); err == nil && r.Progress != nil {
		if f.figures = append(f.figures, *r.Progress); len(f.figures) > 20 {
			f.figures = f.figures[1:]
		}
	}
}

// say sends one kind of forgery. It returns the number of messages.
func (f *forger) say() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := []transfer.AgentName{"ALPHA", "BETA"}[f.r.IntN(2)]
	b, heard := f.last[name]
	if !heard || len(f.figures) == 0 {
		return 0
	}
	p := f.figures[f.r.IntN(len(f.figures))]
	switch f.r.IntN(10) {
	case 0: // a repetition of a message heard
		m := f.raw[f.r.IntN(len(f.raw))]
		f.publish(m[0], []byte(m[1]))
	case 1, 2, 3:
		f.batch(name, b)
	case 4:
		f.receipt(name, b)
	case 5, 6: // the end of a transfer that is not over, in its source's name and in another's
		p.State, p.Code = transfer.Failed, 40
		if f.r.IntN(2) == 0 {
			p.State, p.Code = transfer.Successful, 0
		}
		if f.r.IntN(4) == 0 {
			p.Source = "MALLORY"
		}
		f.publish(wire.ProgressSubject(p.Source, "x"), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: &p}))
	case 7: // an agent without a process, and an agent of another owner
		who := transfer.AgentName(fmt.Sprintf("MADE%d", f.r.IntN(1000)))
		beat := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: who, Status: wire.AgentReady}
		f.publish(wire.BeatSubject(who), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: beat}))
		beat.Agent = name
		f.publish(wire.BeatSubject(who), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: beat}))
		return 2
	case 8: // unreadable commands, for agents without a process and for a running one
		f.publish(wire.CommandSubject(transfer.AgentName(fmt.Sprintf("MADE%d", f.r.IntN(1000))), "MALLORY"), []byte("x"))
		f.publish(wire.CommandSubject(name, "MALLORY"), fmt.Appendf(nil, `{"v":1,"request":{"v":%d},"reply":"ferry.reply.ALPHA.BETA"}`, f.r.IntN(1000)))
		return 2
	case 9: // figures out of their range
		p.BytesSent = -f.r.Int64()
		f.publish(wire.ProgressSubject(p.Source, "x"), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: &p}))
	}
	return 1
}

// batch makes an audit batch in an agent's name.
func (f *forger) batch(name transfer.AgentName, b audit.Batch) {
	last, err := audit.Decode(b.Records[len(b.Records)-1])
	must(f.t, err)
	n := last.N + uint64(f.r.IntN(4))
	switch f.r.IntN(7) {
	case 0:
		n += uint64(f.r.IntN(100))
	case 1:
		n = uint64(f.r.Int64N(audit.MaxNumber)) // a floor that was never reached
	case 2:
		n = 1 << (49 + f.r.IntN(14))
	}
	subject, floor := wire.EventSubject(name), n
	if f.r.IntN(2) == 0 {
		floor = b.Floor
	}
	if f.r.IntN(6) == 0 {
		subject = wire.EventSubject("MALLORY")
	}
	reply := []string{"", b.Reply, "ferry.command.ALPHA.mallory", "$JS.API.STREAM.NAMES"}[f.r.IntN(4)]
	forged := map[string]any{"v": 1, "agent": name, "incarnation": b.Incarnation, "n": n, "time": time.Now().UTC(), "event": "warning", "role": "source", "text": fmt.Sprint("forged ", f.r.Uint64())}
	record, err := json.Marshal(forged)
	must(f.t, err)
	made := audit.Batch{V: 1, Agent: name, Incarnation: b.Incarnation, Floor: floor, Reply: reply, Records: []json.RawMessage{record}}
	if f.r.IntN(3) > 0 { // otherwise it is not taken
		made.Sign(f.keys[name], n)
	}
	data, err := json.Marshal(made)
	must(f.t, err)
	f.publish(subject, data)
}

// keyOf returns an agent's signing key.
func (f *forger) keyOf(who string) *witness.Key {
	f.t.Helper()
	dir, err := keyfile.Open(filepath.Join(f.State(who), "identity"))
	must(f.t, err)
	self, err := identity.Load(dir)
	must(f.t, err)
	key, err := witness.OpenKey(self, time.Now())
	must(f.t, err)
	return key
}

// receipt sends a receipt that coordination never gave.
func (f *forger) receipt(name transfer.AgentName, b audit.Batch) {
	r := audit.Receipt{Agent: name, Incarnation: b.Incarnation, Index: 5, Have: []uint64{1 << 40, 1 << 63, audit.MaxNumber}[f.r.IntN(3)]}
	data, err := audit.EncodeReceipt(r)
	must(f.t, err)
	f.publish(b.Reply, data)
	f.publish("ferry.reply."+name.Token()+".coordination", data)
}

func (f *forger) publish(subject string, data []byte) { must(f.t, f.c.Publish(subject, data)) }

// logHasAll waits until the log has every record that an agent has sent, unchanged.
func (f *forger) logHasAll() {
	f.t.Helper()
	log := filepath.Join(f.State(network.QM), "coordination", "audit")
	f.UntilEvery("every record that was sent is in the log", 200*time.Millisecond, func() bool {
		l, err := audit.OpenLogReadOnly(log)
		must(f.t, err)
		defer l.Close()
		have := map[string]bool{}
		must(f.t, l.Scan(0, func(_ int64, raw []byte, _ *audit.Record) error {
			have[string(raw)] = true
			return nil
		}))
		f.mu.Lock()
		defer f.mu.Unlock()
		for r := range f.records {
			if !have[r] {
				return false
			}
		}
		return true
	})
}

func (f *forger) verify() audit.Report {
	f.t.Helper()
	var rep audit.Report
	must(f.t, json.Unmarshal([]byte(f.Ferry("audit", "verify", "--json").Stdout), &rep))
	return rep
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
