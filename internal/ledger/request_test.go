package ledger_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// split returns a head with one item and parts with one item each.
func split(t *testing.T, n int, sources ...transfer.Path) (*transfer.Request, []transfer.Part) {
	t.Helper()
	q := &transfer.Request{ID: id(n), Items: transfer.ItemsOf(sources[0]), Rest: &transfer.Rest{Items: len(sources) - 1}}
	var parts []transfer.Part
	sum := sha256.New()
	for k, s := range sources[1:] {
		raw, err := json.Marshal(transfer.ItemsOf(s))
		must(t, err)
		parts = append(parts, transfer.Part{From: k + 1, Items: raw})
		q.Rest.Bytes += len(raw)
		sum.Write(raw)
	}
	q.Rest.Sum = hex.EncodeToString(sum.Sum(nil))
	return q, parts
}

func putParts(t *testing.T, l *ledger.Ledger, q *transfer.Request, principal string, parts ...transfer.Part) {
	t.Helper()
	for _, p := range parts {
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.Requests().PutPart(q.ID, principal, p) }))
	}
}

func partsOf(l *ledger.Ledger, q *transfer.Request, principal string) (parts []transfer.Part, err error) {
	err = l.View(func(tx *ledger.Tx) (err error) {
		parts, err = tx.Requests().Parts(q, principal)
		return err
	})
	return parts, err
}

// Parts join in any order of arrival, and only with parts of one submitter.
func TestPartsOfARequest(t *testing.T) {
	l := open(t, t.TempDir())
	q, parts := split(t, 1, "a", "b", "c", "d")
	_, others := split(t, 1, "a", "x", "y", "z")
	putParts(t, l, q, "mallory", others...)
	putParts(t, l, q, "ann", parts[2], parts[0], parts[2])
	if _, err := partsOf(l, q, "ann"); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("a part is missing: %v", err)
	}
	putParts(t, l, q, "ann", parts[1])
	if got, err := partsOf(l, q, "ann"); err != nil || fmt.Sprint(got) != fmt.Sprint(parts) {
		t.Errorf("the parts are %v, %v", got, err)
	}
	if _, err := partsOf(l, q, "mallory"); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("the parts of another principal: %v", err)
	}
	must(t, l.Update(func(tx *ledger.Tx) error { return tx.Requests().AcceptParts(q.ID, "ann", parts) }))
	if _, err := partsOf(l, q, "ann"); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("the parts still wait: %v", err)
	}
	if _, err := partsOf(l, q, "mallory"); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("the parts of another principal have gone, too: %v", err)
	}
	must(t, l.View(func(tx *ledger.Tx) error {
		p, err := tx.Requests().AcceptedPart(q.ID, 2)
		if err == nil && string(p.Items) != string(parts[1].Items) {
			t.Errorf("the part from item 2 on is %s", p.Items)
		}
		return err
	}))
	rec := &ledger.Source{Request: *q, State: transfer.Successful}
	must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutSource(rec) }))
	if err := l.View(func(tx *ledger.Tx) error { _, err := tx.Requests().AcceptedPart(q.ID, 2); return err }); err == nil {
		t.Error("a part is kept after the end")
	}
}

// Parts that wait for a head are bounded, and forgotten after a fortnight. A ledger that is opened again counts them
// anew.
func TestPartsWithoutHeadExpire(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	big := transfer.Part{From: 1, Items: json.RawMessage(`["` + strings.Repeat("x", 4<<20) + `"]`)}
	for n := range 20 {
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.Requests().PutPart(id(n), "ann", big) }))
	}
	waits := func(n int) bool {
		prefix := id(n)
		return l.WaitingParts(prefix) > 0
	}
	if l.WaitingParts() > ledger.MaxWaitingParts || waits(0) || !waits(19) {
		t.Errorf("%d bytes wait; the oldest %v, the newest %v", l.WaitingParts(), waits(0), waits(19))
	}
	for range 30 { // each put replaces the same part
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.Requests().PutPart(id(19), "ann", big) }))
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.Requests().PutPart(id(0), "ann", big) }))
	}
	sum := int64(0)
	for n := range 20 {
		sum += l.WaitingParts(id(n))
	}
	if l.WaitingParts() != sum || sum > ledger.MaxWaitingParts {
		t.Errorf("%d bytes wait, and %d are counted", sum, l.WaitingParts())
	}
	before := l.WaitingParts()
	must(t, l.Close())
	if l = open(t, dir); l.WaitingParts() != before {
		t.Errorf("%d bytes wait, and %d after a restart", before, l.WaitingParts())
	}
	must(t, l.AddRunning(15*24*time.Hour))
	must(t, l.Update(func(tx *ledger.Tx) error {
		return tx.Requests().PutPart(id(30), "ann", transfer.Part{From: 1, Items: json.RawMessage(`[1]`)})
	}))
	must(t, l.Forget(30*24*time.Hour))
	if waits(19) || !waits(30) {
		t.Errorf("after a fortnight: an old part %v, a new one %v", waits(19), waits(30))
	}
}
