//go:build linux

package link_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/wire"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A queueCase is an operation on application queues over a slow link. Its bytes need 30 s of the link, in the short
// form 6 s.
type queueCase struct {
	name string
	run  func(*queueStory)
}

var queueCases = []queueCase{
	{"many small messages to a file", func(s *queueStory) { s.read(400, false) }},
	{"a file to many small messages", func(s *queueStory) { s.write(400) }},
	{"large messages to a file", func(s *queueStory) { s.read(wire.MaxQueueMessage, false) }},
	{"a file to large messages", func(s *queueStory) { s.write(wire.MaxQueueMessage) }},
	{"one group to a file", func(s *queueStory) { s.read(20_000, true) }},
	{"ferry queue put and get", (*queueStory).byHand},
	{"long lists", (*queueStory).lists},
}

var queueRates = []int{64, 128, 256, 512, 1000, 2000} // kbit/s

// shortQueues are the cases and rates of the short form.
var shortQueues = []struct{ rate, of int }{{256, 0}, {512, 1}, {512, 2}, {256, 4}, {2000, 5}, {256, 6}}

const (
	queueWorth = 30 * time.Second
	queueShort = 6 * time.Second
	// queueLoose is the permitted time of a case of the short form, as a multiple of the ideal time. The short form
	// runs beside other work, and the number of bytes decides.
	queueLoose = 5
	// twoWays is the same for reading a queue over a slow link. Each byte passes the link twice, down as an answer and
	// up as a chunk, and the acknowledgements of each direction need a part of the other. The link then carries 1.10 to
	// 1.30 times the payload in each direction.
	twoWays = 1.4
	// fallen is the same where the rate falls. Both directions lose the bytes in flight at the fall, and TCP's time-outs
	// double: a packet capture had 37 and 45 KB repeated, and 10 s without new data, of 190 s.
	fallen = 1.5
	// chatter is the number of bytes a second that the link carries besides a transfer, in each direction: signs of
	// life, progress, acknowledgements and audit records. On 64 kbit/s that is a fifth of the rate.
	chatter = 2 << 10
)

// TestCampaignSlowQueues uses application queues over links of any rate. No data are sent twice, and all operations end
// in the time of their bytes (INV-10).
func TestCampaignSlowQueues(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "slow-queues", What: "an agent, or a person, is at a line of 64 kbit/s to 2 Mbit/s: files become messages of queues and messages files, messages are put, taken and listed, and the rate falls from 2 Mbit/s to 64 kbit/s in the middle",
		Unit: "loads", Full: len(queueRates)*len(queueCases) + 2, Short: len(shortQueues), Root: true, Tools: []string{"ip", "tc", "nsenter", "bridge"}},
		func(t *testing.T, c *campaign.C) {
			if c.Short {
				c.Beside(t, len(shortQueues), func(t *testing.T, seed uint64, r *rand.Rand) {
					k := shortQueues[int(seed-1)%len(shortQueues)]
					s := newQueueStory(t, seed, r)
					s.rate, s.worth, s.loose = k.rate, queueShort, queueLoose
					queueCases[k.of].run(s)
				})
				return
			}
			c.Beside(t, 4, overSlowQueue)
		})
}

// newQueueStory starts a network for a case.
func newQueueStory(t *testing.T, seed uint64, r *rand.Rand) *queueStory {
	w := lay(t)
	s := &queueStory{story: &story{t: t, r: r, w: w}, seed: seed, rate: 2000, worth: queueWorth, loose: 1.3}
	s.n = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{source, destination}, Listen: w.listen(), Direct: "tls", Wrap: w.wrap(), Shape: network.ShapeHub})
	s.n.Ferry("queue", "create", "Q").OK()
	return s
}

func overSlowQueue(t *testing.T, seed uint64, r *rand.Rand) {
	n := int(seed-1) % (len(queueRates)*len(queueCases) + 2)
	s := newQueueStory(t, seed, r)
	switch fall := n - len(queueRates)*len(queueCases); fall {
	case 0:
		s.falls = true
		s.read(40_000, false)
	case 1:
		s.falls = true
		s.write(40_000)
	default:
		// The first cases are different ones at different rates.
		s.rate = queueRates[(n/len(queueCases)+n%len(queueCases))%len(queueRates)]
		queueCases[n%len(queueCases)].run(s)
	}
}

// A queueStory is one case.
type queueStory struct {
	*story
	seed  uint64
	rate  int  // kbit/s
	falls bool // to 64 kbit/s in the middle
	worth time.Duration
	loose float64 // permitted time as a multiple of the ideal time
}

// bytes returns the number of bytes that the link carries in a time.
func (s *queueStory) bytes(d time.Duration) int64 {
	return int64(d.Seconds() * float64(s.rate) * 1000 / 8)
}

// read sends the messages of a queue over a slow link as one file.
func (s *queueStory) read(size int, group bool) {
	all := s.bytes(s.worth)
	if s.falls {
		all /= 4
	}
	s.n.File(source, "in", s.seed, all)
	s.n.Send("--split-size", strconv.Itoa(min(size, int(all))), source+":in", destination+":queue:Q").Ends("successful", 0)
	s.n.Ferry("queue", "create", "FIRST").OK()
	s.n.File(source, "first", s.seed, 10)
	s.n.Send(source+":first", destination+":queue:FIRST").Ends("successful", 0)
	s.w.slow(source, s.rate)
	s.n.Send("--delete-source", source+":queue:FIRST", destination+":first").Ends("successful", 0) // makes the connections
	from := source + ":queue:Q"
	args := []string{"--delete-source"}
	if group {
		args = append(args, "--group", "*")
	}
	s.measure(source, all, 1, append(args, from, destination+":out")...)
	if !bytes.Equal(s.content(source, "in"), s.content(destination, "out")) {
		s.t.Error("other bytes have arrived")
	}
	s.empty()
}

// write makes messages of a file. The file arrives and the messages leave over the same slow link.
func (s *queueStory) write(size int) {
	all := s.bytes(s.worth / 2)
	if s.falls {
		all /= 2
	}
	s.n.File(source, "in", s.seed, all)
	s.n.File(source, "first", s.seed, 10)
	s.n.Ferry("queue", "create", "FIRST").OK()
	s.w.slow(destination, s.rate)
	s.n.Send(source+":first", destination+":queue:FIRST").Ends("successful", 0)
	s.measure(destination, all, 2, "--split-size", strconv.Itoa(min(size, int(all))), source+":in", destination+":queue:Q")
	s.n.Send("--delete-source", source+":queue:Q", source+":back").Ends("successful", 0)
	if !bytes.Equal(s.content(source, "in"), s.content(source, "back")) {
		s.t.Error("other bytes are in the queue")
	}
	s.empty()
}

func (s *queueStory) content(agent, name string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(s.n.Path(agent, name))
	must(s.t, err)
	return data
}

func (s *queueStory) empty() {
	s.t.Helper()
	if out := s.n.Ferry("queue", "show", "Q", "--json").OK().Stdout; !strings.Contains(out, `"messages":0,`) {
		s.t.Errorf("messages are left: %s", out)
	}
}

// linkPasses returns how often each byte that measure counts passes the link of an agent at the same time: a queue is
// read in one direction while chunks leave in the other.
func linkPasses(agent string) float64 {
	if agent == source {
		return 2
	}
	return 1
}

// measure sends over the slow link of an agent. The bytes pass the link the given number of times, one after the other.
func (s *queueStory) measure(agent string, all int64, times int, args ...string) {
	s.t.Helper()
	in, out := s.w.sentTo(agent), s.w.sentBy(agent)
	start := time.Now()
	x := s.n.SendAsync(args...)
	worth := time.Duration(float64(all*int64(times)) * 8 / float64(s.rate*1000) * float64(time.Second))
	if s.falls {
		wait(worth / 2)
		// The bytes that have not passed the link by then need the time of the slower one. A second of the faster one
		// that the start of the transfer needs is half a minute of the other.
		passed := fileShare * float64(s.w.sentTo(agent)-in+s.w.sentBy(agent)-out) / linkPasses(agent)
		s.w.slow(agent, 64)
		left := max(0, float64(all*int64(times))-passed)
		worth = time.Since(start) + time.Duration(left*8/64*float64(time.Millisecond))
	}
	r := x.WaitFor(toCross)
	took := time.Since(start)
	r.Ends("successful", 0)
	in, out = s.w.sentTo(agent)-in, s.w.sentBy(agent)-out
	s.t.Logf("%d kbit/s of %s, %s, %d bytes: %.1f s, worth %.1f s (%.2f); resumes %d, again %d bytes; the line carried %.2f and %.2f of them", s.rate, agent, strings.Join(args, " "), all,
		took.Seconds(), worth.Seconds(), took.Seconds()/worth.Seconds(), r.Summary.Resumes, r.Summary.BytesResent, float64(in)/float64(all), float64(out)/float64(all))
	loose := s.loose
	if agent == source { // the agent reads the queue
		loose = max(loose, twoWays)
	}
	if s.falls {
		loose = max(loose, fallen)
	}
	again, most := all/50, loose*worth.Seconds()
	if s.falls {
		again = all * 15 / 100
	} else if r.Summary.Resumes > 0 {
		s.t.Errorf("%d resumes on a line of a constant rate", r.Summary.Resumes)
	}
	if s.rate == 64 {
		most = max(s.loose, 1.5) * worth.Seconds()
	}
	most += float64(2*each*8) / float64(s.rate*1000)
	if r.Summary.BytesResent > again {
		s.t.Errorf("%d bytes of %d were sent again", r.Summary.BytesResent, all)
	}
	if took.Seconds() > most {
		s.t.Errorf("it took %.1f s; the bytes are worth %.1f s, and it may take %.1f s", took.Seconds(), worth.Seconds(), most)
	}
	if limit := all*13/10 + int64(took.Seconds()*chatter); in > limit || out > limit {
		s.t.Errorf("the line has carried %d and %d bytes for %d", in, out, all)
	}
}

// byHand puts, browses and takes messages over a slow link.
func (s *queueStory) byHand() {
	var want []byte
	for k := range 40 {
		want = fmt.Appendf(want, "%d ", s.r.Uint64()*uint64(k+1))
	}
	want = append(want, s.noise(wire.MaxQueuePut-len(want))...)
	file := s.n.Path(source, "message")
	must(s.t, os.WriteFile(file, want, 0o600))
	s.n.File(source, "large", s.seed, wire.MaxQueuePeek)
	s.n.Send(source+":large", destination+":queue:Q").Ends("successful", 0)
	s.w.slow(source, s.rate)
	s.n.FerryBeside(source, "queue", "put", "Q", file).OK()
	s.n.FerryBeside(source, "queue", "ls").OK()
	s.n.FerryBeside(source, "queue", "show", "Q").OK()
	if got := s.n.FerryBeside(source, "queue", "get", "Q").OK(); got.Stdout != string(s.content(source, "large")) {
		s.t.Errorf("another message of %d bytes was taken", len(got.Stdout))
	}
	if got := s.n.FerryBeside(source, "queue", "get", "Q").OK(); got.Stdout != string(want) {
		s.t.Errorf("another message of %d bytes was taken", len(got.Stdout))
	}
	s.empty()
}

// noise returns bytes that do not compress.
func (s *queueStory) noise(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(s.r.Uint32())
	}
	return b
}

// lists asks for long answers over a slow link.
func (s *queueStory) lists() {
	const files = 150
	transfers := 2 + int(s.worth/(3*time.Second))
	for k := range transfers {
		dir := fmt.Sprintf("in/%d", k)
		s.n.Files(source, dir, s.seed*100+uint64(k), files, 10)
		s.n.Send("-r", source+":"+dir, destination+":out/").Ends("successful", 0)
	}
	s.w.slow(source, s.rate)
	if got := strings.Count(s.n.FerryBeside(source, "transfer", "ls", "--json").OK().Stdout, "\n"); got != transfers {
		s.t.Errorf("%d transfers are listed, not %d", got, transfers)
	}
	outcomes := 0
	for line := range strings.Lines(s.n.FerryBeside(source, "audit", "ls", "--json", "--limit", "10000").OK().Stdout) {
		var rec struct {
			Items []json.RawMessage `json:"items"`
		}
		must(s.t, json.Unmarshal([]byte(line), &rec))
		outcomes += len(rec.Items)
	}
	if outcomes < transfers*files {
		s.t.Errorf("the log has %d outcomes, not %d", outcomes, transfers*files)
	}
}
