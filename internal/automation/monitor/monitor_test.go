package monitor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A file is sent at the first poll, once, and again when it has changed.
func TestOnceUntilItChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(files(), false)
		b.write("in/a", "one")
		pass(1100 * time.Millisecond)
		b.expect("[a:1]")
		pass(time.Minute)
		b.expect("[a:1]")
		b.write("in/a", "two")
		pass(2 * time.Second)
		b.expect("[a:2]")
		b.must(os.Chtimes(b.path("in/a"), time.Now(), time.Now().Add(time.Hour)))
		pass(2 * time.Second)
		b.expect("[a:3]")
		if q := b.last(); q.Base != "in" || q.Dest.Path != "in/" || q.Meta[MetaName] != "M" || q.Originator.User != "ann" {
			t.Errorf("the request is %+v", q)
		}
	})
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Definition)
		want   string
	}{
		{"pattern", func(d *Definition) { d.Match, d.Exclude = "*.csv", "b*" }, "[a.csv:1 d\xff.csv:1]"},
		{"hidden", func(d *Definition) { d.Match = ".*" }, "[.c.csv:1]"},
		{"regex", func(d *Definition) { d.Match, d.Regex = `[ab]\.(csv|txt)`, true }, "[a.csv:1 b.csv:1]"},
		{"size", func(d *Definition) { d.Condition, d.Match = Condition{ConditionSize, 3}, "*.csv" }, "[b.csv:1]"},
		{"levels", func(d *Definition) { d.Levels, d.Match = 1, "e*" }, "[sub/e.csv:1]"},
		{"two levels", func(d *Definition) { d.Levels, d.Match = 2, "e*" }, "[sub/e.csv:1 sub/sub/e.csv:1]"},
		{"bytes", func(d *Definition) { d.Match = "d?.csv" }, "[d\xff.csv:1]"},
		{"renamed", func(d *Definition) { d.Match, d.Request.Dest = "a*", transfer.File("in/${FileName{toUpper}}") }, "[IN:1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.write("in/a.csv", "a")
				b.write("in/b.csv", "bbb")
				b.write("in/.c.csv", "ccc")
				b.write("in/d\xff.csv", "d")
				b.write("in/sub/e.csv", "e")
				b.write("in/sub/sub/e.csv", "e")
				b.write("in/.ferry-x.part", "e")
				b.must(os.Symlink("a.csv", b.path("in/link.csv")))
				b.create(files(c.change), false)
				pass(3 * time.Second)
				if c.name == "renamed" {
					if q := b.last(); q.Dest.Path != "in/A.CSV" || string(q.Items[0].Source.Path) != b.path("in/a.csv") {
						t.Errorf("the request is %+v", q)
					}
					return
				}
				b.expect(c.want)
			})
		})
	}
}

// A file that grows is not sent, nor is one that comes back smaller. Only polls count, not notifications.
func TestUnchanged(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(files(func(d *Definition) { d.Condition = Condition{ConditionUnchanged, 2} }), false)
		f, err := os.Create(b.path("in/a"))
		b.must(err)
		defer f.Close()
		for n := range 10 {
			fmt.Fprintln(f, n)
			b.must(os.Chtimes(b.path("in/a"), time.Now(), time.Now().Add(time.Duration(n)*time.Second)))
			pass(1010 * time.Millisecond)
			b.m.changed() // which looks at once, and counts for nothing
			pass(500 * time.Millisecond)
		}
		b.expect("[]")
		pass(3 * time.Second)
		b.expect("[a:1]")
		if n := len(b.m.all["M"].seen.files); n != 0 {
			t.Errorf("%d files are in memory", n)
		}
	})
}

// A file is sent two polls after the first one that has seen it, and not before.
func TestUnchangedIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.create(files(func(d *Definition) { d.Condition = Condition{ConditionUnchanged, 2} }), false)
		pass(1500 * time.Millisecond)
		b.expect("[]")
		pass(time.Second)
		b.expect("[a:1]")
	})
}

// A history of several pages has every file.
func TestManyFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for n := range 2*pageSize + 500 {
			b.write(fmt.Sprintf("in/%d", n), "x")
		}
		b.create(files(func(d *Definition) { d.Batch = 100 }), false)
		pass(3 * time.Second)
		if s := b.shown(); s.Files != 2*pageSize+500 || s.History != 2*pageSize+500 || s.Triggers != 25 || s.Gone != 0 {
			t.Errorf("shown is %+v", s)
		}
	})
}

// nomatch triggers once, until a file exists again. A missing directory does not count as an empty one.
func TestNoMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/ready", "x")
		b.create(files(func(d *Definition) {
			d.Condition.Kind, d.Match, d.Request.Items = ConditionNoMatch, "ready", transfer.ItemsAt(transfer.Match("all/*"))
		}), false)
		pass(3 * time.Second)
		b.expect("[]")
		b.must(os.Rename(b.path("in"), b.path("away")))
		pass(3 * time.Second)
		b.expect("[]")
		b.must(os.Rename(b.path("away"), b.path("in")))
		b.must(os.Remove(b.path("in/ready")))
		pass(5 * time.Second)
		b.expect("[all/*:1]")
		b.write("in/ready", "x")
		pass(3 * time.Second)
		b.must(os.Remove(b.path("in/ready")))
		pass(5 * time.Second)
		b.expect("[all/*:2]")
	})
}

// With batches of five, nine files are two transfers, in the order of the names.
func TestBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for n := range 9 {
			b.write(fmt.Sprintf("in/%d", n), "x")
		}
		b.create(files(func(d *Definition) {
			d.Batch, d.Request.Job = 5, "${BatchSize} from ${FileName} to ${FileName{file=-1}}"
		}), false)
		pass(3 * time.Second)
		b.set(func() {
			if len(b.order) != 2 || b.asked[b.order[0]].Job != "5 from 0 to 4" || b.asked[b.order[1]].Job != "4 from 5 to 8" {
				t.Errorf("%d transfers: %+v", len(b.order), b.asked)
			}
		})
		if s := b.shown(); s.Triggers != 2 || s.Files != 9 || s.Submitted != 2 || s.History != 9 || s.Matched != 9 {
			t.Errorf("shown is %+v", s)
		}
	})
}

// An unavailable directory is reported once. The history stays, and no file that comes back is sent again.
func TestDirectoryThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.write("in/b", "b")
		b.create(files(func(d *Definition) { d.Poll = transfer.Duration(time.Hour) }), false)
		pass(2 * time.Hour)
		b.must(os.Rename(b.path("in"), b.path("away")))
		pass(30 * 24 * time.Hour)
		if s := b.shown(); s.State != StateWaiting || s.Problem == nil || s.Problem.Kind != transfer.KindMissing || s.History != 2 {
			t.Errorf("shown is %+v", s)
		}
		b.must(os.Rename(b.path("away"), b.path("in")))
		b.write("in/c", "c")
		pass(2 * time.Hour)
		b.expect("[a:1 b:1 c:1]")
		if s := b.shown(); s.State != StateWatching || s.Problem != nil {
			t.Errorf("shown is %+v", s)
		}
	})
}

// A file that is missing for a few days counts as the same file when it comes back. The history forgets it after a
// week.
func TestFilesThatAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.write("in/b", "b")
		b.create(files(func(d *Definition) { d.Poll = transfer.Duration(time.Hour) }), false)
		pass(2 * time.Hour)
		b.must(os.Rename(b.path("in/a"), b.path("a")))
		b.must(os.Rename(b.path("in/b"), b.path("b")))
		pass(6 * 24 * time.Hour)
		if s := b.shown(); s.History != 2 || s.Gone != 2 {
			t.Errorf("shown is %+v", s)
		}
		b.must(os.Rename(b.path("a"), b.path("in/a")))
		pass(2 * 24 * time.Hour)
		if s := b.shown(); s.History != 1 || s.Gone != 0 {
			t.Errorf("shown is %+v", s)
		}
		pass(10 * 24 * time.Hour)
		b.must(os.Rename(b.path("b"), b.path("in/b")))
		pass(2 * time.Hour)
		b.expect("[a:1 b:2]")
	})
}

// A directory beneath that cannot be read is reported, and its files do not count as missing.
func TestUnreadableBeneath(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/sub/a", "a")
		b.write("in/sub.b", "b")
		b.create(files(func(d *Definition) { d.Levels, d.Poll = 1, transfer.Duration(time.Hour) }), false)
		pass(2 * time.Hour)
		b.hidden.Store(true)
		pass(9 * 24 * time.Hour)
		if s := b.shown(); s.Skipped != 1 || s.Problem == nil || s.History != 2 {
			t.Errorf("shown is %+v", s)
		}
		b.hidden.Store(false)
		pass(2 * time.Hour)
		b.expect("[sub.b:1 sub/a:1]")
	})
}

// A monitor that is defined again keeps its history, runs once, and may belong to another user from then on.
func TestDefinedAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.create(files(), false)
		pass(2 * time.Second)
		if err := b.as("ann", CommandCreate, Create{*files(), false}); transfer.KindOf(err) != transfer.KindConflict {
			t.Errorf("made twice: %v", err)
		}
		for range 20 {
			b.create(files(func(d *Definition) { d.Request.Dest = transfer.File("other/") }), true)
		}
		b.write("in/b", "b")
		pass(2 * time.Second)
		b.expect("[a:1 b:1]")
		if q := b.last(); q.Dest.Path != "other/" {
			t.Errorf("goes to %s", q.Dest)
		}
		b.must(b.as("ann", CommandRemove, Named{Name: "M"}))
		b.create(files(), false)
		b.must(b.as("ann", CommandRemove, Named{Name: "m"}))
		b.create(files(), false)
		pass(2 * time.Second)
		b.expect("[a:3 b:3]") // once for each monitor
		b.must(b.as("ann", CommandClear, Named{Name: "m"}))
		pass(2 * time.Second)
		b.expect("[a:4 b:4]")
	})
}

// A paused monitor submits no transfer, not even a recorded one.
func TestPaused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.set(func() {
			b.refuse = func(*transfer.Request) error { return transfer.Errorf(transfer.KindBusy, "full") }
		})
		b.write("in/a", "a")
		b.create(files(), false)
		pass(2 * time.Second)
		if s := b.shown(); s.Waiting != 1 || s.Problem == nil || s.State != StateWaiting {
			t.Errorf("shown is %+v", s)
		}
		b.must(b.as("ann", CommandPause, Named{Name: "m"}))
		b.set(func() { b.refuse = nil })
		b.write("in/b", "b")
		pass(time.Hour)
		b.expect("[]")
		if s := b.shown(); s.State != StatePaused {
			t.Errorf("shown is %+v", s)
		}
		b.must(b.as("ann", CommandResume, Named{Name: "m"}))
		pass(2 * time.Second)
		b.expect("[a:1 b:1]")
	})
}

// No recorded trigger is submitted once the monitor is paused.
func TestPausedWhileItSubmits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.after = func(*transfer.Request) error {
			b.set(func() { b.after = nil })
			return b.as("ann", CommandPause, Named{Name: "m"})
		}
		for n := range 5 {
			b.write(fmt.Sprintf("in/%d", n), "x")
		}
		b.create(files(), false)
		pass(time.Minute)
		b.expect("[0:1]")
		b.must(b.as("ann", CommandResume, Named{Name: "m"}))
		pass(3 * time.Second)
		b.expect("[0:1 1:1 2:1 3:1 4:1]")
	})
}

// The results of a poll for an earlier definition are not recorded.
func TestDefinedAnewWhileItPolls(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.after = func(*transfer.Request) error {
			b.set(func() { b.after = nil })
			return b.as("ann", CommandCreate, Create{*files(func(d *Definition) { d.Match = "none" }), true})
		}
		for n := range groupTriggers + 5 {
			b.write(fmt.Sprintf("in/%03d", n), "x")
		}
		b.create(files(), false)
		pass(time.Minute)
		if s := b.shown(); s.Triggers != groupTriggers || s.Submitted != groupTriggers {
			t.Errorf("shown is %+v", s)
		}
	})
}

// If a monitor is defined again, paused or removed while a directory is read, the results are not recorded.
func TestChangedWhileItReads(t *testing.T) {
	for _, change := range []func(*bench) error{
		func(b *bench) error {
			return b.as("ann", CommandCreate, Create{*files(func(d *Definition) { d.Match = "none" }), true})
		},
		func(b *bench) error { return b.as("ann", CommandPause, Named{Name: "m"}) },
		func(b *bench) error { return b.as("ann", CommandRemove, Named{Name: "m"}) },
	} {
		inBubble(t, func(t *testing.T, b *bench) {
			created := false
			b.looks = func() {
				if !created { // the command that makes the monitor causes the first one
					created = true
					return
				}
				b.set(func() { b.looks = nil })
				b.must(change(b))
			}
			b.write("in/a", "a")
			b.create(files(), false)
			pass(time.Minute)
			b.expect("[]")
		})
	}
}

// The owner of a monitor decides: other users need the authority operate, and the monitor of a user without rights
// sends no file.
func TestAuthorities(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(files(), false)
		for _, right := range []transfer.Authority{transfer.AuthOperate, transfer.AuthAudit} {
			b.set(func() { b.denied[right] = true })
		}
		for _, kind := range []struct {
			do   func() error
			what string
		}{
			{func() error { return b.as("bob", CommandPause, Named{Name: "m"}) }, "pause"},
			{func() error { return b.as("bob", CommandRemove, Named{Name: "m"}) }, "remove"},
			{func() error { return b.as("bob", CommandClear, Named{Name: "m"}) }, "clear"},
			{func() error { return b.as("bob", CommandCreate, Create{*files(), true}) }, "replace"},
		} {
			if err := kind.do(); transfer.KindOf(err) != transfer.KindDenied {
				t.Errorf("%s of another's monitor: %v", kind.what, err)
			}
		}
		b.must(b.as("ann", CommandPause, Named{Name: "m"}))
		b.must(b.as("ann", CommandResume, Named{Name: "m"}))
		if err := b.as("ann", CommandPause, Named{Name: "other"}); transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("pause of none: %v", err)
		}

		b.set(func() { b.denied[transfer.AuthMonitor] = true })
		b.write("in/a", "a")
		pass(3 * time.Second)
		b.expect("[]")
		if s := b.shown(); s.Problem == nil || s.Problem.Kind != transfer.KindDenied {
			t.Errorf("shown is %+v", s)
		}
		b.set(func() { b.denied[transfer.AuthMonitor] = false })
		pass(3 * time.Second)
		b.expect("[a:1]")
	})
}

// A monitor stops if its maker's name was enrolled again, also after a restart, and reports the reason. Its recorded
// triggers are not submitted. The present holder of the name can resume it, in its own name; an operator cannot.
func TestMakerEnrolledAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.set(func() {
			b.refuse = func(*transfer.Request) error { return transfer.Errorf(transfer.KindBusy, "full") }
		})
		b.create(files(), false)
		b.write("in/a", "a")
		pass(2 * time.Second)
		b.set(func() { b.refuse, b.anew = nil, time.Now().UnixMilli() })
		stopped := func() {
			t.Helper()
			b.write("in/b", "b")
			pass(10 * time.Second)
			b.expect("[]")
			if s := b.shown(); s.State != StateWaiting || s.Problem == nil || s.Problem.Kind != transfer.KindDenied {
				t.Errorf("shown is %+v", s)
			}
		}
		stopped()
		b.crash()
		b.start()
		stopped()
		b.must(b.as("olga", CommandResume, Named{Name: "m"}))
		stopped()
		b.must(b.as("ann", CommandResume, Named{Name: "m"}))
		pass(2 * time.Second)
		b.expect("[b:1]")
		if s := b.shown(); s.State != StateWatching || s.Problem != nil {
			t.Errorf("after it was resumed, shown is %+v", s)
		}
	})
}

// A monitor of a forbidden directory is refused with the same text, whether the directory exists or not. If the rules
// change later, each poll reports it with the same text, too.
func TestForbiddenDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.write("closed/there/x", "x")
		closed := func(_ transfer.Authority, path string) error {
			if strings.Contains(path, "/closed") {
				return transfer.Errorf(transfer.KindDenied, "the test forbids %s", path)
			}
			return nil
		}
		watch := func(dir transfer.Path) Create {
			return Create{*files(func(d *Definition) {
				d.Name, d.Dir = string(dir[strings.LastIndex(string(dir), "/")+1:]), transfer.File(dir)
			}), false}
		}
		b.set(func() { b.permit = closed })
		said := map[string]bool{}
		for _, name := range []string{"there", "none"} {
			err := b.as("ann", CommandCreate, watch(transfer.Path("closed/"+name)))
			if transfer.KindOf(err) != transfer.KindDenied {
				t.Errorf("a monitor of closed/%s: %v", name, err)
				continue
			}
			said[strings.ReplaceAll(err.Error(), name, "NAME")] = true
		}
		b.must(b.as("ann", CommandCreate, watch("in")))
		b.set(func() { b.permit = nil })
		for _, name := range []string{"there", "none"} {
			b.must(b.as("ann", CommandCreate, watch(transfer.Path("closed/"+name))))
		}
		b.set(func() { b.permit = closed })
		pass(time.Minute)
		polls := map[string]bool{}
		for _, name := range []string{"there", "none"} {
			s := b.shownAs(name)
			if s.Problem == nil || s.Problem.Kind != transfer.KindDenied {
				t.Errorf("the monitor of closed/%s is %s: %v", name, s.State, s.Problem)
				continue
			}
			polls[strings.ReplaceAll(s.Problem.Error(), name, "NAME")] = true
		}
		if len(said) != 1 || len(polls) != 1 {
			t.Errorf("the commands are refused with %v, and the polls say %v", said, polls)
		}
	})
}

// A refused trigger is recorded, and the next one is submitted. A trigger that has to wait is submitted again under its
// ID.
func TestRefusedAndBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.refuse = func(q *transfer.Request) error {
			if q.Items[0].Source.Path == "a" {
				return transfer.Errorf(transfer.KindDenied, "not that one")
			}
			return nil
		}
		b.write("in/a", "a")
		b.write("in/b", "b")
		b.create(files(), false)
		pass(3 * time.Second)
		b.expect("[b:1]")
		if s := b.shown(); s.Refused != 1 || s.Submitted != 1 || s.Waiting != 0 {
			t.Errorf("shown is %+v", s)
		}
		l := b.triggers()
		if len(l) != 2 || l[1].State != StateRefused || l[1].Error == nil || l[0].State != StateSubmitted {
			t.Errorf("the history is %+v", l)
		}
		if n := b.noted(); len(n) != 2 || n[1].Event != "warning" || n[1].Principal != "ann" {
			t.Errorf("on record are %+v", b.noted())
		}
		full := true
		tried := map[transfer.ID]int{}
		b.set(func() {
			b.refuse = func(q *transfer.Request) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				tried[q.ID]++
				if full {
					return transfer.Errorf(transfer.KindBusy, "full")
				}
				return nil
			}
		})
		for n := range 500 {
			b.write(fmt.Sprintf("in/c%03d", n), "c")
		}
		pass(10 * time.Second)
		if s := b.shown(); len(tried) != 1 || s.Waiting != groupTriggers {
			t.Errorf("tried %v; shown is %+v", tried, s)
		}
		b.set(func() { full = false })
		pass(5 * time.Second)
		for name, n := range b.sent() {
			if n != 1 {
				t.Errorf("%s was sent %d times", name, n)
			}
		}
		if n := len(b.sent()); n != 501 {
			t.Errorf("%d files were sent", n)
		}
	})
}
