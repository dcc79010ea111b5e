//go:build linux

package ledger_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// childDir is the environment variable with the ledger's directory. The child is the test's own program, started anew.
const childDir = "FERRY_LEDGER_CHILD"

// writers is the number of goroutines of the child, which share transactions.
const writers = 8

// child writes to the ledger until it is killed, and prints each acknowledged transaction.
func child(dir string) int {
	l, err := ledger.Open(dir, ledger.Options{Reserve: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	said := make(chan string)
	for g := range writers {
		go func() {
			for n := uint32(1); ; n++ {
				if err := l.Update(func(tx *ledger.Tx) error { return write(tx, g, n) }); err != nil {
					said <- fmt.Sprint("failed ", err)
					return
				}
				said <- fmt.Sprint(g, " ", n)
			}
		}()
	}
	go func() {
		j, err := l.Journal(id(0))
		for n := 0; err == nil; n++ {
			it := transfer.Item{Type: transfer.ItemFile, Source: "/in", Name: transfer.Path(fmt.Sprint(n))}
			if err = errors.Join(j.Append(it), j.Sync()); err == nil {
				said <- fmt.Sprint("journal ", n+1)
			}
		}
		said <- fmt.Sprint("failed ", err)
	}()
	for s := range said {
		fmt.Println(s) // one write: a line is printed whole or not at all
	}
	return 0
}

// write does the nth transaction of a writer. It puts a source with a counter, an item and an audit record, and drops
// an item of an earlier transaction.
func write(tx *ledger.Tx, g int, n uint32) error {
	tid := id(1 + g)
	err := errors.Join(tx.PutSource(&ledger.Source{Request: transfer.Request{ID: tid}, State: transfer.Running, Epoch: n}),
		tx.PutItem(tid, uint64(n), ledger.Item{Outcome: &transfer.Outcome{Size: int64(n)}}),
		tx.Audit(func(uint64) []byte { return fmt.Appendf(nil, "%d %d", g, n) }))
	if n > 100 {
		err = errors.Join(err, tx.DropItem(tid, uint64(n-100)))
	}
	return err
}

// TestCampaignLedgerKill kills a process that writes a real ledger with SIGKILL, and looks for every acknowledged
// transaction.
func TestCampaignLedgerKill(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "ledger-kill", What: "kill -9 of a process that writes its ledger: every acknowledged transaction is there, whole",
		Unit: "kills", Full: 50, Short: 5, Packages: []string{"internal/ledger"}}, func(t *testing.T, c *campaign.C) {
		c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			dir := t.TempDir()
			promised := killed(t, dir, 1+r.IntN(3000))
			l, err := ledger.Open(dir, ledger.Options{Reserve: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if !l.Unclean() {
				t.Error("the ledger does not know that its process was killed")
			}
			compare(t, l, promised)
		})
	})
}

// killed runs the child until it has printed a number of lines, kills it, and returns the last line of each writer.
func killed(t *testing.T, dir string, after int) map[string]int {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), childDir+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	promised := map[string]int{}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		var of string
		var upTo int
		if _, err := fmt.Sscan(lines.Text(), &of, &upTo); err != nil {
			t.Errorf("the child says %q", lines.Text())
		}
		promised[of] = upTo
		if n == after {
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child was to be killed: %v", err)
	}
	return promised
}

// unprinted is the number of transactions of a writer that may be in the ledger without a printed line: one about to be
// printed, and the next.
const unprinted = 2

// compare finds every acknowledged transaction complete, and no more of each writer than it can have done.
func compare(t *testing.T, l *ledger.Ledger, promised map[string]int) {
	_, recs, _, err := l.OutboxFrom(1, 1<<30, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	audited := map[string]int{}
	for _, r := range recs {
		var of string
		var n int
		fmt.Sscan(string(r), &of, &n)
		if n != audited[of]+1 {
			t.Errorf("the audit has %q behind transaction %d", r, audited[of])
		}
		audited[of] = n
	}
	err = l.View(func(tx *ledger.Tx) error {
		for g := range writers {
			of := fmt.Sprint(g)
			s, err := tx.Source(id(1 + g))
			if err != nil {
				return err
			}
			n := 0
			if s != nil {
				n = int(s.Epoch)
			}
			if n < promised[of] || n > promised[of]+unprinted || n != audited[of] {
				t.Errorf("writer %d was promised %d transactions; the record has %d, the audit %d", g, promised[of], n, audited[of])
			}
			next := max(0, n-100)
			if err := tx.Items(id(1+g), func(k uint64, it *ledger.Item) error {
				if next++; k != uint64(next) || it.Outcome.Size != int64(k) {
					t.Errorf("writer %d: item %d is %+v where %d should be", g, k, it, next)
				}
				return nil
			}); err != nil || next != n {
				t.Errorf("writer %d: the items end with %d, the transactions with %d: %v", g, next, n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.Journal(id(0))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	items, over, err := offered(j)
	if n := promised["journal"]; err != nil || over || len(items) < n || len(items) > n+unprinted {
		t.Errorf("%d items were promised, and %d are there, over %v: %v", n, len(items), over, err)
	}
	for n, it := range items {
		if string(it.Name) != fmt.Sprint(n) {
			t.Errorf("item %d is %s", n, it.Name)
		}
	}
}
