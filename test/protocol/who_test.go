package protocol_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/client"
	"ferry/internal/coordination"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/policy"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// events returns the events that the audit package declares, read from its source.
func events(t *testing.T) (all []audit.Event) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "audit", "record.go"), nil, 0)
	must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.Ident); ok && of.Name == "Event" {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			must(t, err)
			all = append(all, audit.Event(text))
		}
		return true
	})
	return all
}

// A network is a queue manager, coordination and two agents. Named users use each of them.
type network struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	server  *server.Server
	service *coordination.Service
	agents  map[transfer.AgentName]*agent.Agent
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	n := &network{t: t, ctx: ctx, dir: t.TempDir(), agents: map[transfer.AgentName]*agent.Agent{}}
	var err error
	n.server, err = server.Start(ctx, server.Config{Name: "NET", Dir: filepath.Join(n.dir, "qm"), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(n.server.Shutdown)
	n.service, err = coordination.Start(ctx, coordination.Config{Dir: filepath.Join(n.dir, "coordination"), Log: slog.New(slog.DiscardHandler)}, n.connect("coordination"))
	must(t, err)
	t.Cleanup(n.service.Stop)
	n.start(srcName)
	n.start(dstName)
	return n
}

// self returns the token of an agent or of coordination by its name, or of a user.
func self(name string) string {
	switch name {
	case string(srcName), string(dstName), wire.Coordination:
		return name
	}
	return principal(name)
}

func (n *network) connect(name string) *qmgr.Conn {
	n.t.Helper()
	c, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{Server: n.server, Name: name, Self: self(name), Log: slog.New(slog.DiscardHandler)})
	must(n.t, err)
	n.t.Cleanup(c.Close)
	return c
}

func (n *network) root(name transfer.AgentName) string {
	return filepath.Join(n.dir, "files", string(name))
}
func (n *network) state(name transfer.AgentName) string {
	return filepath.Join(n.dir, "state", string(name))
}

func (n *network) start(name transfer.AgentName) {
	n.t.Helper()
	must(n.t, os.MkdirAll(n.root(name), 0o755))
	programs := filepath.Join(n.dir, "programs")
	must(n.t, os.MkdirAll(programs, 0o755))
	must(n.t, os.Chmod(programs, 0o755))
	a, err := agent.Start(n.ctx, agent.Config{Programs: agent.Programs{Dirs: programs}, Name: name, Dir: n.state(name), Roots: []string{n.root(name)}, Sandbox: n.sandbox(name), Log: slog.New(slog.DiscardHandler)}, n.connect(string(name)))
	must(n.t, err)
	n.t.Cleanup(a.Stop)
	n.agents[name] = a
}

// sandbox returns rules that let every user but mallory do everything at the source.
func (n *network) sandbox(name transfer.AgentName) *policy.Rules {
	n.t.Helper()
	if name != srcName {
		return nil
	}
	all := policy.Rule{Name: "all but one", May: transfer.Authorities(), For: []string{"*"}, Read: []string{"**"}, Write: []string{"**"}}
	for _, who := range []string{"ann", "bob", "carol", "dave", "erin", "frank"} {
		all.Who = append(all.Who, "user:"+who+"@box")
	}
	r, err := (&policy.Policy{V: 1, Rules: []policy.Rule{all}}).Compile()
	must(n.t, err)
	return r
}

// as returns a client for a user.
func (n *network) as(who string) *client.Client {
	return &client.Client{Conn: n.connect(who), Clock: clock.System, Who: transfer.Originator{User: who, Host: "box"}}
}

func principal(who string) string { return transfer.Originator{User: who, Host: "box"}.Principal() }

// submit submits a request for one file, modified by change, in a user's name.
func (n *network) submit(who string, change func(*transfer.Request)) (*client.Client, *transfer.Request) {
	n.t.Helper()
	s := n.as(who)
	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now(), Source: srcName, Destination: dstName,
		Originator: s.Who, Items: transfer.ItemsOf("a"), Dest: transfer.File("in/")}
	if change != nil {
		change(q)
	}
	_, err := s.Submit(n.ctx, q, nil)
	must(n.t, err)
	return s, q
}

// ends waits for the end of a transfer.
func (n *network) ends(s *client.Client, q *transfer.Request, state transfer.State) {
	n.t.Helper()
	n.until("a transfer ends", func() bool {
		p, err := s.Watch(n.ctx, client.Of(q), nil, nil)
		must(n.t, err)
		if p.State != state && p.State.Final() {
			n.t.Fatalf("transfer %s ended %s, want %s: %v", q.ID, p.State, state, p.Reason)
		}
		return p.State == state
	})
}

// until waits for a condition.
func (n *network) until(what string, ok func() bool) {
	n.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			n.t.Fatalf("not in time: %s", what)
		}
	}
}

// log returns the records that coordination has.
func (n *network) log() (all []audit.Record) {
	n.t.Helper()
	before := int64(0)
	for {
		data, err := n.connect("auditor").Request(n.ctx, wire.AskSubject(wire.Coordination, principal("auditor")), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskAudit, Index: before}), 90*time.Second)
		must(n.t, err)
		ans, err := wire.DecodeAnswer(data)
		must(n.t, err)
		for _, raw := range ans.Records {
			r, err := audit.Decode(raw)
			must(n.t, err)
			all = append(all, r)
		}
		if !ans.More {
			return all
		}
		before = ans.Next
	}
}

// TestEveryEventIsWritten expects a record of each event that the audit package declares. If a user has caused the
// event, at either end, the record names the user.
func TestEveryEventIsWritten(t *testing.T) {
	n := newNetwork(t)
	by := map[string]string{} // user that caused an event, by events that users cause
	caused := func(who string, events ...audit.Event) {
		for _, e := range events {
			by[string(e)] = principal(who)
		}
	}
	must(t, os.WriteFile(filepath.Join(n.root(srcName), "a"), []byte("data"), 0o644))
	must(t, os.WriteFile(filepath.Join(n.root(srcName), "big"), make([]byte, 1<<20), 0o644))

	s, q := n.submit("ann", func(q *transfer.Request) { q.Disposition = transfer.DispositionDelete })
	n.ends(s, q, transfer.Successful)
	caused("ann", audit.Submitted, audit.Accepted, audit.Started, audit.Items, audit.Deleted, audit.Completed)

	must(t, os.WriteFile(filepath.Join(n.root(srcName), "c"), []byte("data"), 0o644))
	s, q = n.submit("bob", func(q *transfer.Request) {
		q.Items, q.Disposition, q.Archive = transfer.ItemsOf("c"), transfer.DispositionArchive, "done"
	})
	n.ends(s, q, transfer.Successful)
	caused("bob", audit.Archived)

	nothing := filepath.Join(n.dir, "programs", "nothing")
	must(t, os.WriteFile(nothing, []byte("#!/bin/sh\n"), 0o755))
	must(t, os.Chmod(nothing, 0o755))
	must(t, os.WriteFile(filepath.Join(n.root(srcName), "b"), []byte("data"), 0o644))
	s, q = n.submit("erin", func(q *transfer.Request) {
		q.Items, q.Programs = transfer.ItemsOf("b"), &transfer.Programs{PreDest: &transfer.Program{Name: "nothing"}, PostSource: &transfer.Program{Name: "nothing"}}
	})
	n.ends(s, q, transfer.Successful)
	caused("erin", audit.Ran)

	s, q = n.submit("bob", func(q *transfer.Request) { q.Items = transfer.ItemsOf("missing") })
	n.ends(s, q, transfer.Failed)
	failed := wire.Seen{Transfer: q.ID}
	caused("bob", audit.Failed)

	s, q = n.submit("ann", func(q *transfer.Request) { q.Items, q.Rate = transfer.ItemsOf("big"), transfer.MinRate })
	n.until("data arrives", func() bool {
		p, err := s.Status(n.ctx, client.Of(q))
		return err == nil && p.BytesHeld > 0
	})
	_, err := n.as("carol").Control(n.ctx, srcName, wire.ControlCancel, q.ID)
	must(t, err)
	n.ends(s, q, transfer.Cancelled)
	caused("carol", audit.Cancelled)

	n.agents[srcName].Stop()
	n.forgetUpTo(transfer.NewID(time.Now().Add(-time.Second)))
	n.start(srcName)
	must(t, os.WriteFile(filepath.Join(n.root(srcName), "a"), []byte("data"), 0o644))
	s, q = n.submit("ann", func(q *transfer.Request) {
		q.ID, q.Dest = transfer.NewID(time.Now().Add(-time.Minute)), transfer.File("again/")
	})
	n.ends(s, q, transfer.Parked)
	_, err = n.as("dave").Control(n.ctx, srcName, wire.ControlResume, q.ID)
	must(t, err)
	n.ends(s, q, transfer.Successful)
	caused("ann", audit.Parked)
	caused("dave", audit.Resumed)

	n.ask("erin", string(srcName), wire.AskSet, wire.SetRates{Rates: map[transfer.AgentName]string{"": "10M"}})
	caused("erin", audit.Changed)
	_, err = n.as("mallory").Submit(n.ctx, &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now(),
		Source: srcName, Destination: dstName, Items: transfer.ItemsOf("a"), Dest: transfer.File("in/")}, nil)
	if transfer.KindOf(err) != transfer.KindDenied {
		t.Fatalf("what mallory may not: %v", err)
	}
	caused("mallory", audit.Refused)

	n.until("coordination knows the failure", func() bool {
		err := n.askOnce("dave", wire.Coordination, wire.AskSeen, failed)
		if kind := transfer.KindOf(err); err != nil && kind != transfer.KindNotFound && kind != transfer.KindUsage {
			t.Fatal(err)
		}
		return err == nil
	})
	caused("dave", audit.Acked)

	n.unknownOutcomes()
	n.ghost()
	n.agents[dstName].Stop()
	n.until("coordination has heard that the agent has stopped", func() bool {
		err := n.askOnce("frank", wire.Coordination, wire.AskRemove, wire.RemoveAgent{Agent: dstName})
		if err != nil && transfer.KindOf(err) != transfer.KindAlive {
			t.Fatal(err)
		}
		return err == nil
	})
	caused("frank", audit.Removed)

	missing := map[audit.Event]bool{}
	var log []audit.Record
	defer func() {
		if len(missing) > 0 {
			t.Errorf("never written: %v", slices.Sorted(maps.Keys(missing)))
		}
	}()
	n.until("each event is written", func() bool {
		for _, e := range events(t) {
			// Only a network with identities has these: test/attacks, and audit_witness.txt in test/script.
			if e != audit.Bound && e != audit.Sealed && e != audit.Settled {
				missing[e] = true
			}
		}
		log = n.log()
		for _, r := range log {
			delete(missing, r.Event)
		}
		return len(missing) == 0
	})
	named := map[string]map[string]bool{}
	for _, r := range log {
		if who := by[string(r.Event)]; who != "" {
			what := fmt.Sprint(r.Event, " ", r.Role)
			if named[what] == nil {
				named[what] = map[string]bool{}
			}
			if named[what][r.Principal] = true; r.Principal == "" {
				t.Errorf("%s of %s at %s names nobody: %+v", r.Event, r.Transfer, r.Agent, r)
			}
		}
	}
	for what, who := range named {
		event, _, _ := strings.Cut(what, " ")
		if !who[by[event]] {
			t.Errorf("%s names %v, and %s has caused one", what, slices.Sorted(maps.Keys(who)), by[event])
		}
	}
	for _, what := range []string{"program source", "program destination", "started destination", "item destination", "completed destination", "cancelled destination", "deleted source", "archived source"} {
		if named[what] == nil {
			t.Errorf("%s was not written", what)
		}
	}
}

func (n *network) askOnce(who, to string, kind wire.Kind, body any) error {
	n.t.Helper()
	data, err := n.connect(who).Request(n.ctx, wire.AskSubject(to, principal(who)), wire.Marshal(wire.Ask{V: wire.Version, Kind: kind, Body: wire.Marshal(body)}), 90*time.Second)
	must(n.t, err)
	_, err = wire.DecodeAnswer(data)
	return err
}

func (n *network) ask(who, to string, kind wire.Kind, body any) {
	n.t.Helper()
	must(n.t, n.askOnce(who, to, kind, body))
}

// forgetUpTo makes the source's ledger forget all transfers up to an ID.
func (n *network) forgetUpTo(id transfer.ID) {
	n.t.Helper()
	l, err := ledger.Open(n.state(srcName), ledger.Options{})
	must(n.t, err)
	old := transfer.NewID(id.Time().Add(-90 * 24 * time.Hour))
	copy(old[:], id[:])
	must(n.t, l.Update(func(tx *ledger.Tx) error {
		for k := range ledger.MaxTombstones + 1 {
			one := old
			one[14], one[15] = byte(k>>8), byte(k)
			if err := tx.PutTombstone(one, transfer.Cancelled, ""); err != nil {
				return err
			}
		}
		return nil
	}))
	must(n.t, l.Close())
}

// unknownOutcomes sends outcomes of a transfer that the source does not know.
func (n *network) unknownOutcomes() {
	n.t.Helper()
	m := &wire.Message{Kind: wire.KindOutcomes, From: dstName, Transfer: transfer.NewID(time.Now()), Outcomes: &wire.Outcomes{Batch: 1, Last: true,
		Outcomes: []transfer.Outcome{{Item: 0, Type: transfer.ItemFile, Path: "/x", Source: "/y"}}}}
	data, err := m.Encode()
	must(n.t, err)
	must(n.t, n.connect("courier").Publish(wire.ReplySubject(srcName, dstName), data))
}

// ghost is an agent with missing records, which then contradict themselves.
func (n *network) ghost() {
	n.t.Helper()
	c := n.connect("ghost")
	for _, text := range []string{"one", "another"} {
		raw, err := audit.Encode(&audit.Record{Agent: "GHOST", Incarnation: audit.FormatIncarnation(7), N: 5, Time: time.Now(), Event: audit.Warning, Text: text})
		must(n.t, err)
		b := &audit.Batch{V: audit.RecordVersion, Agent: "GHOST", Incarnation: audit.FormatIncarnation(7), Floor: 5}
		b.Add(raw)
		data, err := audit.EncodeBatch(b)
		must(n.t, err)
		must(n.t, c.Enqueue(n.ctx, wire.EventSubject("GHOST"), "", data))
	}
}
