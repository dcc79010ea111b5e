package monitor

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/transfer"
)

// settling returns a definition for all files in the directory in, with a settle time of 5 s.
func settling(change ...func(*Definition)) *Definition {
	d := files(change...)
	d.Settle = transfer.Duration(5 * time.Second)
	return d
}

// rarely sets a poll interval of an hour.
func rarely(d *Definition) { d.Poll = transfer.Duration(time.Hour) }

// inNoticedBubble is inBubble with a monitor after its first poll, and a system that reports files.
func inNoticedBubble(t *testing.T, d *Definition, do func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.notices = &notices{}
		b.start()
		defer func() { b.end() }()
		b.create(d, false)
		pass(time.Second)
		do(t, b)
	})
}

// put writes a file under its name, or appends to it if it exists. It waits until no poll is running: a poll between
// the creation and the write would find an empty file.
func (b *bench) put(name, content string) {
	b.t.Helper()
	synctest.Wait()
	f, err := os.OpenFile(b.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	b.must(err)
	_, err = f.WriteString(content)
	b.must(err)
	b.must(f.Close())
}

// A file that is written in two parts is sent once, complete, 5 s after the second part.
func TestSettle(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(settling(), false)
		b.put("in/x", "part1")
		pass(3 * time.Second)
		b.put("in/x", "part2")
		pass(4500 * time.Millisecond)
		b.expect("[]")
		if s := b.shown(); s.Settling != 1 {
			t.Errorf("%d files wait", s.Settling)
		}
		pass(2 * time.Second)
		b.expect("[x:1]")
		pass(time.Minute)
		b.expect("[x:1]")
		if n := len(b.m.all["M"].seen.files); n != 0 {
			t.Errorf("%d files are in memory", n)
		}
	})
}

// Without a settle time a file is sent at the first poll.
func TestSettleOff(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.put("in/x", "part1")
		b.create(files(), false)
		pass(1100 * time.Millisecond)
		b.expect("[x:1]")
	})
}

// A notification that a file was closed makes the next poll come earlier, and does not shorten the settle time. The
// poll at the end of the settle time comes on time, also with a long poll interval.
func TestNoticeDoesNotShortenSettle(t *testing.T) {
	inNoticedBubble(t, settling(rarely), func(t *testing.T, b *bench) {
		b.put("in/x", "part1")
		b.tell("x", noticeClosed)
		pass(4900 * time.Millisecond)
		b.expect("[]")
		b.put("in/x", "part2")
		b.tell("x", noticeTouched)
		b.tell("x", noticeClosed)
		pass(4900 * time.Millisecond)
		b.expect("[]")
		pass(300 * time.Millisecond)
		b.expect("[x:1]")
	})
}

// A file that was moved to its name with a notification is sent at once. Without a notification it waits.
func TestMovedIsTakenAtOnce(t *testing.T) {
	inNoticedBubble(t, settling(rarely), func(t *testing.T, b *bench) {
		b.write("in/told", "x")
		b.tell("told", noticeMoved)
		pass(100 * time.Millisecond)
		b.expect("[told:1]")
		b.write("in/untold", "x")
		b.put("in/written", "x")
		b.tell("written", noticeClosed)
		pass(4900 * time.Millisecond)
		b.expect("[told:1]")
		pass(200 * time.Millisecond)
		b.expect("[told:1 untold:1 written:1]")
		if n := len(b.m.all["M"].notices.moved); n != 0 {
			t.Errorf("%d names are in memory", n)
		}
	})
}

// A file that was moved to its name and then written to waits, also if the notice of the write was not read before the
// poll.
func TestMovedAndWrittenTo(t *testing.T) {
	for _, late := range []bool{false, true} {
		inNoticedBubble(t, settling(rarely), func(t *testing.T, b *bench) {
			b.looked()
			b.write("in/x", "moved")
			b.put("in/x", " and written to")
			if late {
				b.notices.late = append(b.notices.late, func() { b.tell("x", noticeTouched) })
				b.tell("x", noticeMoved)
			} else {
				b.tell("x", noticeMoved)
				b.tell("x", noticeTouched)
			}
			pass(4900 * time.Millisecond)
			b.expect("[]")
			pass(300 * time.Millisecond)
			b.expect("[x:1]")
		})
	}
}

// If notifications were lost, a file that was moved waits as any other.
func TestMovedAndLost(t *testing.T) {
	inNoticedBubble(t, settling(rarely), func(t *testing.T, b *bench) {
		b.looked()
		b.write("in/x", "moved")
		b.tell("x", noticeMoved)
		b.tell("", noticeLost)
		pass(4900 * time.Millisecond)
		b.expect("[]")
		pass(300 * time.Millisecond)
		b.expect("[x:1]")
	})
}

// A move of a file while the monitor did not listen is not remembered when it listens again and the file was written
// to.
func TestMovedAndPaused(t *testing.T) {
	inNoticedBubble(t, settling(rarely), func(t *testing.T, b *bench) {
		b.looked()
		b.write("in/x", "moved")
		b.tell("x", noticeMoved)
		b.must(b.as("ann", CommandPause, Named{Name: "m"}))
		pass(time.Second)
		b.put("in/x", "more")
		b.tell("x", noticeTouched)
		b.must(b.as("ann", CommandResume, Named{Name: "m"}))
		pass(time.Second)
		if s := b.shown(); s.Submitted > 0 && s.Last.After(s.Changed) {
			t.Errorf("it was sent at once: %+v", s)
		}
	})
}

// The age of a file has no effect: a copy with old times waits by the agent's clock.
func TestSettleWithOldTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(settling(), false)
		b.put("in/x", "one")
		b.must(os.Chtimes(b.path("in/x"), time.Time{}, time.Unix(1e9, 0)))
		pass(4900 * time.Millisecond)
		b.expect("[]")
		b.put("in/x", "two")
		b.must(os.Chtimes(b.path("in/x"), time.Time{}, time.Unix(1e9, 0)))
		pass(4900 * time.Millisecond)
		b.expect("[]")
		pass(1200 * time.Millisecond)
		b.expect("[x:1]")
	})
}

// A file that is rewritten with the same size and time of modification has changed.
func TestSettleSeesTimeOfChange(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(settling(), false)
		b.put("in/x", "one")
		old := time.Unix(1e9, 0)
		b.must(os.Chtimes(b.path("in/x"), time.Time{}, old))
		pass(4 * time.Second)
		b.must(os.WriteFile(b.path("in/x"), []byte("two"), 0o644))
		b.must(os.Chtimes(b.path("in/x"), time.Time{}, old))
		pass(4900 * time.Millisecond)
		b.expect("[]")
		pass(1200 * time.Millisecond)
		b.expect("[x:1]")
	})
}

// The settle time is allowed with conditions on existing files, and has a range.
func TestSettleIsChecked(t *testing.T) {
	for _, change := range []func(*Definition){
		func(d *Definition) { d.Condition = Condition{ConditionUnchanged, 2} },
		func(d *Definition) { d.Condition.Kind, d.Request.Items = ConditionNoMatch, transfer.ItemsOf("all/*") },
		func(d *Definition) { d.Settle = -1 },
		func(d *Definition) { d.Settle = transfer.Duration(25 * time.Hour) },
	} {
		if err := settling().Check(); err != nil {
			t.Fatal(err)
		}
		d := settling()
		change(d)
		if err := d.Check(); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%v with a settle time of %s: %v", d.Condition, d.Settle, err)
		}
	}
}

// A monitor with exact polls only polls after its interval. Neither a notification nor another new monitor makes a poll
// come earlier.
func TestExactPolls(t *testing.T) {
	inNoticedBubble(t, files(func(d *Definition) { d.Exact, d.Poll = true, transfer.Duration(10*time.Second) }), func(t *testing.T, b *bench) {
		began := b.shown().Polled
		b.put("in/x", "x")
		b.tell("x", noticeClosed)
		b.tell("x", noticeMoved)
		b.must(b.as("ann", CommandCreate, Create{*files(func(d *Definition) { d.Name, d.Match = "other", "none" }), false}))
		pass(8900 * time.Millisecond)
		b.expect("[]")
		pass(200 * time.Millisecond)
		b.expect("[x:1]")
		pass(50 * time.Second)
		if s := b.shown(); s.Polled.Sub(began) != 60*time.Second {
			t.Errorf("six polls took %s", s.Polled.Sub(began))
		}
	})
}
