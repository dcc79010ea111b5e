//go:build linux

package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// perStage is the number of commands in one stage.
const perStage = 100

// TestCampaignCommands gives two agents commands, each of them 2 to 50 times: in any order, with other content under
// the same ID, over restarts, and after the ledger has forgotten them (R2; scenarios 7 and 40). A transfer is accepted
// once and runs once, and a command takes effect once.
func TestCampaignCommands(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "commands", What: "each command 2 to 50 times, in any order, over restarts, after the ledger's retention and with clocks set back",
		Unit: "commands", Full: 10000, Short: 500, Packages: []string{"internal/agent", "internal/agent/scheduler", "internal/ledger", "internal/sender", "internal/receiver", "internal/wire", "internal/transfer"}},
		func(t *testing.T, c *campaign.C) {
			for n := 0; n < c.Count; n += perStage {
				seed := c.Seed + uint64(n)
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { replayed(t, campaign.Rand(seed)) }) {
					t.Logf("this stage again: make test-faults CAMPAIGN=commands SEED=%d COUNT=%d", seed, perStage)
					return
				}
				c.Add(perStage)
			}
		})
}

// replayed runs one stage.
func replayed(t *testing.T, r *rand.Rand) {
	s := newStage(t, r)
	s.raise()
	early, requests, late := s.script()
	s.give(early, 1+r.IntN(3))
	s.give(requests, 1+r.IntN(14))
	s.settle(requests)
	s.give(late, 1+r.IntN(3))
	s.consume()
	s.give(s.all, r.IntN(10))
	s.lower()
	s.raise()
	s.give(s.all, r.IntN(10))
	s.lower()
	s.age()
	s.raise()
	s.give(s.all, 1+r.IntN(9))
	s.lower()
	s.raise()
	s.give(s.all, r.IntN(10))
	s.lower()
	s.judge()
}

// A command is one message that the stage sends repeatedly.
type command struct {
	n        int
	subject  string
	message  func(reply string) []byte
	other    func(reply string) []byte // under the same ID; nil: there is none
	request  *transfer.Request         // of a submission
	mayRun   bool
	ahead    bool   // from a clock that is more than an hour ahead
	taken    string // the content that came first
	first    string // first answer to a control command
	answered int
}

// script makes the commands: those before the requests, the requests, and those after the end of the transfers.
func (s *stage) script() (early, requests, late []*command) {
	now := s.clock.Now()
	for n := range 80 {
		id := transfer.NewID(now)
		if n >= 75 {
			id = transfer.NewID(now.Add(2*time.Hour + time.Duration(s.r.IntN(400*24))*time.Hour))
		}
		c := s.submission(n, id)
		c.mayRun, c.ahead = n < 60 || n >= 70 && n < 75, n >= 75
		requests = append(requests, c)
		if n >= 60 && n < 70 { // cancelled before it comes
			early = append(early, s.control(wire.ControlCancel, c.request.ID))
		}
	}
	for n := range 10 {
		kind := wire.ControlResume
		if n > 7 {
			kind = wire.ControlCancel
		}
		late = append(late, s.control(kind, requests[n].request.ID))
	}
	return early, requests, late
}

func (s *stage) submission(n int, id transfer.ID) *command {
	name := fmt.Sprint("file", n)
	must(s.t, os.WriteFile(s.path(source, name), []byte(name), 0o644))
	q := &transfer.Request{Version: transfer.RequestVersion, ID: id, Submitted: s.clock.Now(), Source: source, Destination: destination, Originator: me, Items: transfer.ItemsOf(transfer.Path(s.path(source, name))), Dest: transfer.File(transfer.Path(s.path(destination, "") + "/")), Options: transfer.Options{IfExists: transfer.IfExistsOverwrite}}
	must(s.t, q.Check())
	other := *q
	other.Priority = 9
	return s.add(&command{subject: wire.CommandSubject(source, s.conn.Self()), request: q,
		message: func(reply string) []byte {
			return wire.Marshal(wire.Submit{V: wire.Version, Request: *q, Reply: reply})
		},
		other: func(reply string) []byte {
			return wire.Marshal(wire.Submit{V: wire.Version, Request: other, Reply: reply})
		}})
}

func (s *stage) control(kind wire.Kind, of transfer.ID) *command {
	c := wire.Control{V: wire.Version, ID: transfer.NewID(s.clock.Now()), Kind: kind, Body: wire.Marshal(wire.OfTransfer{Transfer: of}), Originator: me}
	return s.add(&command{subject: wire.ControlSubject(source, s.conn.Self()), message: func(reply string) []byte {
		again := c
		again.Reply = reply
		return wire.Marshal(again)
	}})
}

func (s *stage) add(c *command) *command {
	c.n = len(s.all)
	s.all = append(s.all, c)
	return c
}

// answered checks an answer to a command. Other content under a known ID is refused. A control command gets its first
// answer again, until the ledger has forgotten it.
func (s *stage) answered(c *command, other bool, data []byte) {
	c.answered++
	a, err := wire.DecodeAnswer(data)
	kind := transfer.KindOf(err)
	switch {
	case c.request == nil && !s.aged:
		if c.first == "" {
			c.first = string(data)
		}
		if string(data) != c.first {
			s.t.Errorf("command %d was answered %s and then %s", c.n, c.first, data)
		}
	case c.request == nil:
		if kind != transfer.KindClock {
			s.t.Errorf("command %d is forgotten, and is answered %s", c.n, data)
		}
	case s.aged && !c.ahead:
		// The first content under a forgotten ID is kept and does not run.
		if kind != transfer.KindConflict && kind != transfer.KindClock && (err != nil || a.Progress.State != transfer.Parked && a.Progress.State != transfer.Cancelled) {
			s.t.Errorf("request %d is forgotten, and is answered %s", c.n, data)
		}
	case err == nil && a.Progress.ID != c.request.ID:
		s.t.Errorf("request %d is answered %s", c.n, data)
	default:
		s.answeredFirst(c, other, kind, data)
	}
}

// answeredFirst checks the rule that the first content under an ID is the known one; messages may change their order.
// An ID from a clock ahead is refused and leaves no trace until its time has come.
func (s *stage) answeredFirst(c *command, other bool, kind transfer.Kind, data []byte) {
	content := map[bool]string{false: "its own", true: "other"}[other]
	switch {
	case kind == transfer.KindNone && (c.taken == "" || c.taken == content):
		c.taken = content
	case kind == transfer.KindClock && c.ahead:
	case kind == transfer.KindConflict && c.taken != content: // taken may be unknown: its answer was lost
	default:
		s.t.Errorf("request %d with %s content is answered %s, and %q was taken", c.n, content, data, c.taken)
	}
}
