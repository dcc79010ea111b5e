package protocol_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/client"
	"ferry/internal/faulty"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A pair is two whole agents, a queue manager and a submitting client in this process. Agents and client have a clock
// of their own each. It runs in real time.
type pair struct {
	t      *testing.T
	dir    string
	clocks [3]*faulty.Clock // of source, destination and client
	sub    *client.Client
	ctx    context.Context
	seen   map[string]fs.FileInfo // arrived files
}

func newPair(t *testing.T) *pair {
	t.Helper()
	dir, err := os.MkdirTemp(swift(), "ferry-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	p := &pair{t: t, dir: dir, ctx: ctx, seen: map[string]fs.FileInfo{}}
	log := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Name: "PAIR", Dir: filepath.Join(dir, "qm"), Log: log})
	must(t, err)
	t.Cleanup(server.Shutdown)
	connect := func(name string) *qmgr.Conn {
		c, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: name, Log: log})
		must(t, err)
		t.Cleanup(c.Close)
		return c
	}
	for k, name := range []transfer.AgentName{srcName, dstName} {
		p.clocks[k] = faulty.NewClock()
		must(t, os.MkdirAll(p.path(name, "."), 0o755))
		a, err := agent.Start(ctx, agent.Config{Name: name, Dir: filepath.Join(dir, "state", string(name)), Roots: []string{p.path(name, ".")},
			Clock: p.clocks[k], Alone: true, Log: log}, connect(string(name)))
		must(t, err)
		t.Cleanup(a.Stop)
	}
	p.clocks[2] = faulty.NewClock()
	p.sub = &client.Client{Conn: connect("submitter"), Clock: p.clocks[2], Who: transfer.Originator{User: "user", Host: "host"}}
	return p
}

func (p *pair) path(name transfer.AgentName, rel string) string {
	return filepath.Join(p.dir, "files", string(name), rel)
}

// acceptances submits to real agents with jumping clocks. The source refuses a request from more than an hour ahead of
// its clock with that reason. Every other request runs once, however often the command comes.
func acceptances(t *testing.T, s *script) (jumps int) {
	p := newPair(t)
	for k := range 2 + s.n(3) {
		if k > 0 {
			p.jump(s, p.clocks[s.n(3)])
			jumps++
		}
		name := fmt.Sprint("file", k)
		data := content(uint64(k), s.n(9000))
		must(t, os.WriteFile(p.path(srcName, name), data, 0o644))
		q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(p.clocks[2].Now()), Submitted: p.clocks[2].Now(), Source: srcName, Destination: dstName, Originator: p.sub.Who, Items: transfer.ItemsOf(transfer.Path(p.path(srcName, name))), Dest: transfer.File(transfer.Path(p.path(dstName, ".") + "/")), Options: transfer.Options{IfExists: transfer.IfExistsOverwrite}}
		must(t, q.Check())
		ahead := p.clocks[2].Off() - p.clocks[0].Off()
		p.try(&q, name, data, ahead)
		for range s.n(4) { // the command comes again
			must(t, p.sub.Conn.Enqueue(p.ctx, wire.CommandSubject(srcName, p.sub.Conn.Self()), "", wire.Marshal(wire.Submit{V: wire.Version, Request: q})))
		}
		p.try(&q, name, data, ahead)
	}
	return max(jumps, 1)
}

// jump makes one clock jump, as world.jump does.
func (p *pair) jump(s *script, c *faulty.Clock) {
	d := leap(s)
	if off := c.Off() + d; off > 11*365*24*time.Hour || off < -11*365*24*time.Hour {
		d = -d
	}
	c.Jump(d)
	p.t.Logf("a clock jumps by %v", d)
}

// try submits a request and compares its result with the clocks.
func (p *pair) try(q *transfer.Request, name string, data []byte, ahead time.Duration) {
	p.t.Helper()
	_, err := p.sub.Submit(p.ctx, q, nil)
	refused := transfer.KindOf(err) == transfer.KindClock
	switch {
	case ahead > time.Hour+time.Minute && !refused:
		p.t.Errorf("a request from %v ahead is not refused for its clock: %v", ahead, err)
	case ahead < time.Hour-time.Minute && err != nil:
		p.t.Errorf("a request from %v ahead is refused: %v", ahead, err)
	}
	to := p.path(dstName, name)
	if refused {
		if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
			p.t.Errorf("%s was refused and has arrived: %v", name, err)
		}
		return
	}
	if err != nil {
		return
	}
	end, err := p.sub.Watch(p.ctx, client.Of(q), nil, nil)
	if err != nil || end.State != transfer.Successful {
		p.t.Errorf("%s does not arrive: %+v, %v", name, end, err)
		return
	}
	got, err := os.ReadFile(to)
	now, serr := os.Stat(to)
	if err != nil || serr != nil || !bytes.Equal(got, data) {
		p.t.Errorf("%s has arrived with %d bytes of %d: %v", name, len(got), len(data), err)
		return
	}
	if was := p.seen[name]; was != nil && !os.SameFile(was, now) {
		p.t.Errorf("%s was committed a second time", name)
	}
	p.seen[name] = now
}
