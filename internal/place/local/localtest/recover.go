package localtest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

const size = 5000

// errRefused ends a commit where a crash would end it.
var errRefused = errors.New("the ledger is gone")

// committing returns the intent of a COMMITTING item: the ledger has it, and its temporary is complete and not yet
// renamed.
func (p *Place) committing(t *testing.T, name string, noTime bool, change func(*place.LandConfig)) transfer.Intent {
	t.Helper()
	j := newLedger()
	j.refuse = errRefused
	l := p.land(t, p.open(t), j, change)
	w, err := write(l, 1, name, body(size, 3))
	must(t, err)
	if noTime {
		w.Mtime = transfer.TimeAfter
	}
	if _, err = l.Commit(t.Context(), []place.Pending{w}); !errors.Is(err, errRefused) {
		t.Fatalf("the commit went on: %v", err)
	}

	must(t, l.Close())
	b, err := json.Marshal(j.committing[1])
	must(t, err)
	var in transfer.Intent
	must(t, json.Unmarshal(b, &in)) // as a ledger gives it back
	return in
}

type recovery struct {
	name    string
	change  func(*place.LandConfig)
	boot    string // empty: the same
	noTime  bool   // the source's time cannot be given to a file
	old     bool   // a file has the name before
	crash   func(p *Place, temp string) error
	verdict place.Verdict
	kind    transfer.Kind
	final   string // content afterwards; empty: none
	temp    bool   // the temporary is still there
}

const (
	final    = "sub/x"
	stranger = "stranger"
)

func recoveries() []recovery {
	whole := string(body(size, 3))
	process := func(c *place.LandConfig) { c.Durable = false }
	overwrite := func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite }
	nothing := func(*Place, string) error { return nil }
	renamed := func(p *Place, temp string) error { return p.Move(p.at(temp), "x") }
	lost := func(p *Place, temp string) error { return p.Remove(p.at(temp)) }
	taken := func(p *Place, _ string) error { return p.WriteFile(p.at(final), []byte(stranger)) }
	return []recovery{
		{name: "before the rename", crash: nothing, verdict: place.Done, final: whole},
		{name: "before the rename, another boot", boot: otherBoot, crash: nothing, verdict: place.Done, final: whole},
		{name: "after the rename", crash: renamed, verdict: place.Done, final: whole},
		{name: "after the rename, another boot", boot: otherBoot, crash: renamed, verdict: place.Done, final: whole},
		{name: "between link and unlink (scenario 33)", crash: func(p *Place, temp string) error { return p.Hardlink(p.at(temp), "x") },
			verdict: place.Done, final: whole},
		{name: "between link and unlink, moved on", crash: func(p *Place, temp string) error { return p.Hardlink(p.at(temp), "moved") },
			verdict: place.Taken, temp: true},
		{name: "temporary damaged", crash: func(p *Place, temp string) error {
			b := body(size, 3)
			b[2500] = '#'
			return p.WriteFile(p.at(temp), b)
		}, verdict: place.Redo, temp: true},
		{name: "temporary cut", crash: func(p *Place, temp string) error { return p.WriteFile(p.at(temp), body(10, 3)) },
			verdict: place.Redo, temp: true},
		{name: "temporary another's", crash: func(p *Place, temp string) error {
			err := p.WriteFile(p.at("sub/other"), body(size, 3))
			return errors.Join(err, p.Move(p.at("sub/other"), temp[len("sub/"):]))
		}, verdict: place.Redo, temp: true},
		{name: "name taken meanwhile", crash: taken, verdict: place.Refused, kind: transfer.KindExists, final: stranger, temp: true},
		{name: "a directory meanwhile", crash: func(p *Place, _ string) error { return p.MkdirAll(p.at(final)) },
			verdict: place.Refused, kind: transfer.KindWrongType, temp: true},
		{name: "taken by a consumer", crash: lost, verdict: place.Taken},
		{name: "taken, and a stranger's file in its place (scenario 32)", crash: func(p *Place, temp string) error {
			return errors.Join(renamed(p, temp), taken(p, temp)) // it has the same inode
		}, verdict: place.Taken, final: stranger},
		{name: "directory taken", crash: func(p *Place, _ string) error { return p.Move(p.at("sub"), "moved") },
			verdict: place.Moved, kind: transfer.KindMoved},
		{name: "directory taken, and made anew", crash: func(p *Place, _ string) error {
			return errors.Join(p.Move(p.at("sub"), "moved"), p.MkdirAll(p.at("sub")))
		}, verdict: place.Moved, kind: transfer.KindMoved},
		{name: "directory taken, and a copy in its place", crash: func(p *Place, temp string) error {
			err := errors.Join(p.Move(p.at("sub"), "moved"), p.MkdirAll(p.at("sub")))
			return errors.Join(err, p.WriteFile(p.at(final), body(size, 3)))
		}, verdict: place.Moved, kind: transfer.KindMoved, final: whole},
		{name: "directory taken, and a link in its place", crash: func(p *Place, _ string) error {
			return errors.Join(p.Move(p.at("sub"), "moved"), p.MkdirAll(p.at("other")), p.Symlink("other", p.at("sub")))
		}, verdict: place.Moved, kind: transfer.KindMoved},
		{name: "directory moved and back", crash: func(p *Place, temp string) error {
			return errors.Join(renamed(p, temp), p.Move(p.at("sub"), "moved"), p.Move(p.at("moved"), "sub"))
		}, verdict: place.Done, final: whole},
		{name: "overwrite, before the rename", change: overwrite, old: true, crash: nothing, verdict: place.Done, final: whole},
		{name: "overwrite, old file removed", change: overwrite, old: true, crash: func(p *Place, _ string) error { return p.Remove(p.at(final)) },
			verdict: place.Done, final: whole},
		{name: "overwrite, temporary lost (scenario 30)", change: overwrite, old: true, crash: lost, verdict: place.Redo, final: "old"},
		{name: "overwrite, temporary lost, another boot, chmod since", change: overwrite, old: true, boot: otherBoot,
			crash:   func(p *Place, temp string) error { return errors.Join(lost(p, temp), p.Chmod(p.at(final), 0o640)) },
			verdict: place.Redo, final: "old"},
		{name: "overwrite, done and replaced by a stranger", change: overwrite, old: true, crash: func(p *Place, temp string) error {
			err := errors.Join(renamed(p, temp), p.WriteFile(p.at("sub/other"), []byte(stranger)))
			return errors.Join(err, p.Move(p.at("sub/other"), "x"))
		}, verdict: place.Taken, final: stranger},
		{name: "append, before the rename", change: appending, old: true, crash: nothing, verdict: place.Done, final: "old" + whole},
		{name: "append, before the rename, another boot", change: appending, old: true, boot: otherBoot, crash: nothing, verdict: place.Done, final: "old" + whole},
		{name: "append, after the rename", change: appending, old: true, crash: renamed, verdict: place.Done, final: "old" + whole},
		{name: "append, after the rename, another boot", change: appending, old: true, boot: otherBoot, crash: renamed, verdict: place.Done, final: "old" + whole},
		{name: "append, where nothing was", change: appending, crash: nothing, verdict: place.Done, final: whole},
		{name: "append, where nothing was, and a file came", change: appending, crash: taken, verdict: place.Redo, final: stranger, temp: true},
		{name: "append, the file has changed since", change: appending, old: true, crash: taken, verdict: place.Redo, final: stranger, temp: true},
		{name: "append, the file is gone", change: appending, old: true, crash: func(p *Place, _ string) error { return p.Remove(p.at(final)) },
			verdict: place.Redo, temp: true},
		{name: "append, temporary lost", change: appending, old: true, crash: lost, verdict: place.Redo, final: "old"},
		{name: "append, done, and another program has appended since", change: appending, old: true, crash: func(p *Place, temp string) error {
			return errors.Join(renamed(p, temp), p.WriteFile(p.at(final), []byte("old"+whole+"more")))
		}, verdict: place.Taken, final: "old" + whole + "more"},
		{name: "process, same boot", change: process, crash: nothing, verdict: place.Done, final: whole},
		{name: "process, another boot (scenario 31)", change: process, boot: otherBoot, crash: nothing, verdict: place.Redo},
		{name: "process, another boot, renamed", change: process, boot: otherBoot, crash: renamed, verdict: place.Redo},
		{name: "process, another boot, renamed, without the source's time", noTime: true, change: process, boot: otherBoot, crash: renamed, verdict: place.Redo},
		{name: "process, another boot, without the source's time, a stranger's file", noTime: true, change: process, boot: otherBoot, crash: taken, verdict: place.Redo, final: stranger},
		{name: "process, another boot, renamed, without the source's time, written to since", noTime: true, change: process, boot: otherBoot, crash: func(p *Place, temp string) error {
			return errors.Join(renamed(p, temp), p.WriteFile(p.at(final), []byte(stranger)))
		}, verdict: place.Redo, final: stranger},
		{name: "process, another boot, a stranger's file", change: process, boot: otherBoot, crash: taken, verdict: place.Redo, final: stranger},
	}
}

func testRecover(t *testing.T, p *Place) {
	top := p.Dir
	for n, c := range recoveries() {
		t.Run(c.name, func(t *testing.T) {
			own := *p
			own.Dir = top + "/" + string(rune('a'+n))
			must(t, own.MkdirAll(own.at("sub")))
			c.run(t, &own)
		})
	}
}

func (c *recovery) run(t *testing.T, p *Place) {
	if c.old {
		must(t, p.WriteFile(p.at(final), []byte("old")))
	}

	in := p.committing(t, final, c.noTime, c.change)
	temp := "sub/" + disk.TempName(7, 1, testID, in.Outcome.Item)
	if joined := strings.TrimSuffix(temp, ".part") + "-j.part"; p.exists(joined) {
		temp = joined
	}
	must(t, c.crash(p, temp))
	boot := testBoot
	if c.boot != "" {
		boot = c.boot
	}

	// Recover runs twice: a crash may come before its verdict is recorded.
	for range 2 {
		l := p.land(t, p.open(t), newLedger(), c.change)
		v, o, err := l.Recover(in, boot)
		must(t, err)
		kind := transfer.KindNone
		if o.Err != nil {
			kind = o.Err.Kind
		}
		if v != c.verdict || (o.Taken == transfer.TakenPresumed) != (v == place.Taken) || kind != c.kind {
			t.Fatalf("%v, %+v; want %v", v, o, c.verdict)
		}
		must(t, l.Close())
	}

	got, _ := p.ReadFile(p.at(final))
	if string(got) != c.final || p.exists(temp) != c.temp {
		t.Fatalf("final %.20q, temporary %v", got, p.exists(temp))
	}
}
