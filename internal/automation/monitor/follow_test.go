package monitor

import (
	"os"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// sumOf returns the digest of a file as in outcomes.
func (b *bench) sumOf(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(b.path(name))
	b.must(err)
	h := digest.XXH3.New()
	h.Write(content)
	return digest.XXH3.Sum(h)
}

// rewrite changes the content of a file, and keeps its size, inode and time of modification.
func (b *bench) rewrite(name, content string) {
	b.t.Helper()
	st, err := os.Stat(b.path(name))
	b.must(err)
	if st.Size() != int64(len(content)) {
		b.t.Fatalf("%q has another size than %s", content, name)
	}
	f, err := os.OpenFile(b.path(name), os.O_WRONLY, 0)
	b.must(err)
	_, err = f.WriteString(content)
	b.must(err)
	b.must(f.Close())
	b.must(os.Chtimes(b.path(name), time.Time{}, st.ModTime()))
}

// sends makes the monitor send a file x. The transfer does not end.
func sends(b *bench, change ...func(*Definition)) {
	b.t.Helper()
	b.write("in/x", "one")
	b.create(files(change...), false)
	pass(2 * time.Second)
	b.expect("[x:1]")
}

// sentOnce makes the monitor send a file x, and ends the transfer.
func sentOnce(b *bench, change ...func(*Definition)) {
	b.t.Helper()
	sends(b, change...)
	b.ended("x", transfer.KindNone)
}

// A file that appears again with the same inode, size and time of modification but other content is sent.
func TestSameIdentityOtherContent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sentOnce(b)
		b.rewrite("in/x", "two")
		pass(2 * time.Second)
		b.expect("[x:2]")
	})
}

// A file that differs only in its time of change has the content that was sent. It is not sent again, and its content
// is read only once.
func TestOnlyTimeOfChange(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sentOnce(b)
		b.must(os.Chmod(b.path("in/x"), 0o600))
		b.must(os.Link(b.path("in/x"), b.path("backup")))
		pass(time.Minute)
		b.expect("[x:1]")
		b.must(os.Chmod(b.path("in/x"), 0))
		b.must(os.Chmod(b.path("in/x"), 0o644))
		pass(2 * time.Second)
		reads := 0
		b.set(func() { b.looks = func() { reads++ } })
		pass(5 * time.Second)
		if reads > 5 { // one for each poll's directory
			t.Errorf("%d reads in five polls", reads)
		}
		b.rewrite("in/x", "two")
		pass(2 * time.Second)
		b.expect("[x:2]")
	})
}

// A file that was moved away and comes back counts as sent.
func TestMovedAwayAndBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sentOnce(b)
		b.must(os.Rename(b.path("in/x"), b.path("x")))
		pass(time.Hour)
		b.must(os.Rename(b.path("x"), b.path("in/x")))
		pass(2 * time.Second)
		b.expect("[x:1]")
		if s := b.shown(); s.Gone != 0 || s.History != 1 {
			t.Errorf("shown is %+v", s)
		}
	})
}

// If a file has not arrived, or its digest is unknown, a change of its time of change makes the monitor send it again.
func TestTimeOfChangeOfNoArrival(t *testing.T) {
	for _, c := range []struct {
		name string
		ends func(b *bench)
	}{
		{"failed", func(b *bench) { b.ended("x", transfer.KindUnwritable) }},
		{"no digest", func(b *bench) {
			id := b.last().ID
			b.record(id, audit.Items, b.outcome("x", "", transfer.KindNone))
			b.record(id, audit.Completed)
			b.set(func() { b.states[id] = &transfer.Progress{ID: id, State: transfer.Successful} })
		}},
		{"cancelled", func(b *bench) {
			id := b.last().ID
			b.record(id, audit.Cancelled)
			b.set(func() { b.states[id] = &transfer.Progress{ID: id, State: transfer.Cancelled} })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				sends(b)
				c.ends(b)
				pass(2 * time.Second)
				b.expect("[x:1]")
				b.must(os.Chmod(b.path("in/x"), 0o600))
				pass(2 * time.Second)
				b.expect("[x:2]")
			})
		})
	}
}

// While the transfer of a file is running, a change of its time of change has no effect.
func TestTimeOfChangeMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sends(b)
		b.must(os.Chmod(b.path("in/x"), 0o600))
		pass(time.Minute)
		b.expect("[x:1]")
		b.ended("x", transfer.KindNone)
		pass(time.Minute)
		b.expect("[x:1]")
	})
}

// The history forgets a file that Ferry has deleted or archived. A file in its place is sent, even with the same
// identity.
func TestDeletedByFerryIsForgotten(t *testing.T) {
	for _, event := range []audit.Event{audit.Deleted, audit.Archived} {
		inBubble(t, func(t *testing.T, b *bench) {
			sends(b)
			id := b.last().ID
			b.record(id, audit.Items, b.outcome("x", b.sumOf("in/x"), transfer.KindNone))
			b.must(os.Rename(b.path("in/x"), b.path("aside")))
			b.record(id, event, b.outcome("x", "", transfer.KindNone))
			b.record(id, audit.Completed)
			b.set(func() { b.states[id] = &transfer.Progress{ID: id, State: transfer.Successful} })
			if s := b.shown(); s.History != 0 {
				t.Errorf("the history has %d files", s.History)
			}
			b.must(os.Rename(b.path("aside"), b.path("in/x"))) // the same content, of the same inode, size and time of modification
			pass(2 * time.Second)
			b.expect("[x:2]")
		})
	}
}

// A file that has triggered again is not forgotten when the transfer of its earlier version deletes that version.
func TestEarlierVersionIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sends(b)
		id := b.last().ID
		b.write("in/x", "other")
		pass(2 * time.Second)
		b.expect("[x:2]")
		b.record(id, audit.Deleted, b.outcome("x", "", transfer.KindNone))
		b.record(id, audit.Items, b.outcome("x", "", transfer.KindReplaced))
		pass(time.Minute)
		b.expect("[x:2]")
	})
}

// A poll that has read an entry does not undo a later change by the end of a transfer.
func TestEndWhileItPolls(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sentOnce(b, rarely)
		b.must(os.Rename(b.path("in/x"), b.path("x"))) // which the next poll marks as gone
		pass(time.Hour)
		e := known{key: "x"}
		book := b.m.all["M"].book
		got, err := book.entryOf("x")
		b.must(err)
		if e.entry = *got; e.gone == 0 || e.sum == "" {
			t.Fatalf("the history has %+v", e)
		}
		rec, err := book.load()
		b.must(err)
		b.must(b.ledger.Update(func(t *ledger.Tx) error { return drawerOf(t).Delete(historyPrefix("M") + "x") }))
		b.must(book.record(rec, []known{e}, nil))
		if got, err := book.entryOf("x"); got != nil || err != nil {
			t.Errorf("the history has %+v, %v", got, err)
		}
	})
}

// A trigger gives the version of its file.
func TestTriggersNameVersions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.write("in/b", "bb")
		b.create(files(func(d *Definition) {
			d.Batch = 2
			d.Request.Items = append(d.Request.Items, transfer.RequestItem{Source: transfer.File("${FilePath}.more")})
		}), false)
		pass(2 * time.Second)
		q := b.last()
		if len(q.Items) != 4 {
			t.Fatalf("the request is %+v", q)
		}
		if q.Items[0].Expected == "" || q.Items[1].Expected != "" || q.Items[2].Expected == "" || q.Items[0].Expected == q.Items[2].Expected {
			t.Errorf("the items are %+v", q.Items)
		}
	})
}

// A file that was replaced before its transfer read it triggers again, in a transfer of its own. A file that looks the
// same each time is refused after several attempts, and that is recorded.
func TestReplacedTriggersAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sends(b)
		b.expect("[x:1]")
		b.ended("x", transfer.KindReplaced)
		pass(2 * time.Second)
		b.expect("[x:2]")
		b.ended("x", transfer.KindNone)
		pass(time.Minute)
		b.expect("[x:2]")

		b.write("in/x", "other")
		pass(2 * time.Second)
		for range 50 {
			b.ended("x", transfer.KindReplaced)
			pass(2 * time.Second)
		}
		if s := b.shown(); s.Refused != 1 || s.Submitted != 2+1+maxRetries {
			t.Errorf("shown is %+v", s)
		}
		b.write("in/x", "a third one")
		pass(2 * time.Second)
		if s := b.shown(); s.Submitted != 2+2+maxRetries {
			t.Errorf("shown is %+v", s)
		}
	})
}

// A file that was missing when its transfer began triggers when it comes back, also if the request named it relative to
// the directory.
func TestGoneAndBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sends(b)
		b.must(os.Rename(b.path("in"), b.path("away")))
		id := b.last().ID
		oc := transfer.Outcome{Type: transfer.ItemBad, Source: "x", Err: transfer.Errorf(transfer.KindReplaced, "gone")}
		b.record(id, audit.Items, oc)
		b.record(id, audit.Completed)
		b.set(func() { b.states[id] = &transfer.Progress{ID: id, State: transfer.Successful} })
		pass(time.Minute)
		b.must(os.Rename(b.path("away"), b.path("in")))
		pass(2 * time.Second)
		b.expect("[x:2]")
	})
}

// The ledger has no data of transfers that have ended, were refused, or were dropped with their monitor.
func TestNothingIsFollowedForEver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sentOnce(b)
		full := transfer.KindDenied
		b.set(func() { b.refuse = func(*transfer.Request) error { return transfer.Errorf(full, "not now") } })
		b.write("in/y", "refused")
		pass(2 * time.Second)
		b.set(func() { full = transfer.KindBusy })
		b.write("in/z", "waits")
		pass(2 * time.Second)
		if s := b.shown(); s.Refused != 1 || s.Waiting != 1 {
			t.Fatalf("shown is %+v", s)
		}
		b.must(b.as("ann", CommandRemove, Named{Name: "m"}))
		b.must(b.ledger.View(func(tx *ledger.Tx) error {
			for key := range drawerOf(tx).All("x/", "") {
				t.Errorf("the ledger has %s", key)
			}
			return nil
		}))
	})
}

// An ordered monitor begins a transfer when the one before has ended, with any result. It sends files in the order of
// their names.
func TestOrdered(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, name := range []string{"c", "a", "b", "d"} {
			b.write("in/"+name, name)
		}
		b.create(files(func(d *Definition) { d.Ordered = true }), false)
		for n, c := range []struct {
			name, want string
			kind       transfer.Kind
		}{{"a", "[a:1]", transfer.KindNone}, {"b", "[a:1 b:1]", transfer.KindUnwritable}, {"c", "[a:1 b:1 c:1]", transfer.KindReplaced}} {
			pass(30 * time.Second)
			b.expect(c.want)
			if n == 1 {
				b.crash()
				b.start()
				pass(30 * time.Second)
				b.expect(c.want)
			}
			b.ended(c.name, c.kind)
		}
		pass(1500 * time.Millisecond)
		b.expect("[a:1 b:1 c:2]")
		b.ended("c", transfer.KindNone)
		pass(1500 * time.Millisecond)
		b.expect("[a:1 b:1 c:2 d:1]")
		b.write("in/e", "e")
		pass(30 * time.Second)
		b.expect("[a:1 b:1 c:2 d:1]")
		last := b.last().ID
		b.set(func() { delete(b.accepted, last); delete(b.states, last) }) // the agent has forgotten the transfer, which is over
		pass(1500 * time.Millisecond)
		if m := b.shown(); m.Waiting > 0 || m.Triggers != 6 {
			t.Errorf("after a transfer that the agent has forgotten %d of %d triggers wait", m.Waiting, m.Triggers)
		}
	})
}

// Without an order all files are sent at once.
func TestNotOrdered(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.write("in/a", "a")
		b.write("in/b", "b")
		b.create(files(), false)
		pass(2 * time.Second)
		b.expect("[a:1 b:1]")
	})
}
