package ledger_test

import (
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// A transfer is repeated by one other at a time, until that one is over.
func TestOneRetryAtATime(t *testing.T) {
	l := open(t, t.TempDir())
	defer l.Close()
	ids := [5]transfer.ID{}
	for n := range ids[1:] {
		ids[n+1] = transfer.NewID(time.Now())
	}
	request := func(id, of int) transfer.Request {
		return transfer.Request{ID: ids[id], Source: "ALPHA", Scope: transfer.Scope{Retry: &transfer.Retry{Of: ids[of]}}}
	}
	put := func(q transfer.Request, s transfer.State) {
		t.Helper()
		if err := l.Update(func(tx *ledger.Tx) error { return tx.PutSource(&ledger.Source{Request: q, State: s}) }); err != nil {
			t.Fatal(err)
		}
	}
	repeats := func(q transfer.Request, want int) {
		t.Helper()
		if err := l.View(func(tx *ledger.Tx) error {
			by, err := ledger.RetryInProgress(tx, &q, "ann")
			if by != ids[want] {
				t.Errorf("it is repeated by %v, not by %v", by, ids[want])
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(q transfer.Request) {
		t.Helper()
		if err := l.Update(func(tx *ledger.Tx) error { return ledger.PutRetry(tx, &q, "") }); err != nil {
			t.Fatal(err)
		}
	}
	first, second, other := request(2, 1), request(3, 1), request(4, 2)
	repeats(first, 0)
	begin(first)
	put(first, transfer.Running)
	repeats(second, 2)
	repeats(other, 0)
	begin(second)
	repeats(second, 2)
	put(second, transfer.Withdrawn) // the end of another one ends nothing
	repeats(second, 2)
	put(first, transfer.Failed)
	repeats(second, 0)
	begin(second)
	repeats(first, 3)
}

// The entry of one principal holds for that one alone, and ends with its own transfer.
func TestOneRetryOfAPrincipalAtATime(t *testing.T) {
	l := open(t, t.TempDir())
	defer l.Close()
	of := transfer.NewID(time.Now())
	q := transfer.Request{ID: transfer.NewID(time.Now()), Source: "ALPHA", Scope: transfer.Scope{Retry: &transfer.Retry{Of: of}}}
	repeated := func(when, principal string, want transfer.ID) {
		t.Helper()
		by, err := ledger.Read(l, func(tx *ledger.Tx) (transfer.ID, error) { return ledger.RetryInProgress(tx, &q, principal) })
		if by != want || err != nil {
			t.Errorf("%s, for %s it is repeated by %v, %v", when, principal, by, err)
		}
	}
	end := func(by string) {
		t.Helper()
		src := &ledger.Source{Request: q, State: transfer.Failed, Origin: word.Origin{Principal: by}}
		if err := l.Update(func(tx *ledger.Tx) error { return tx.PutSource(src) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Update(func(tx *ledger.Tx) error { return ledger.PutRetry(tx, &q, "ann") }); err != nil {
		t.Fatal(err)
	}
	repeated("while it runs", "ann", q.ID)
	repeated("while it runs", "bob", transfer.ID{})
	end("bob")
	repeated("after the end of another one", "ann", q.ID)
	end("ann")
	repeated("after its end", "ann", transfer.ID{})
}
