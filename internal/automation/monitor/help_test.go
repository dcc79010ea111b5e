package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/automation/duty/dutytest"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A bench simulates the agent of monitors: a directory, a ledger in memory, and transfers that are accepted or refused.
type bench struct {
	t      *testing.T
	dir    string
	fs     *local.FS
	hidden atomic.Bool // directories called sub cannot be read
	store  *faulty.MemoryStore
	fault  *dying

	mu       sync.Mutex
	accepted map[transfer.ID]string           // hash of the request
	asked    map[transfer.ID]transfer.Request // that were accepted
	order    []transfer.ID
	refuse   func(q *transfer.Request) error // before it is accepted; nil: nothing
	after    func(q *transfer.Request) error // once it is accepted
	denied   map[transfer.Authority]bool
	anew     int64  // when ann was enrolled again, in milliseconds
	looks    func() // before a directory is read
	permit   place.Permit
	notes    []audit.Record
	queue    *queue
	states   map[transfer.ID]*transfer.Progress // of those that the agent knows more of than that they are accepted

	notices *notices // that a fake system tells; nil: it tells none
	m       *monitors
	ledger  *ledger.Ledger
	end     func()
}

// dying is a store that fails from one transaction on, before or after that takes effect.
type dying struct {
	ledger.Store
	calls, at atomic.Int64 // at 0: it lives
	late      atomic.Bool
}

func (s *dying) Update(fn func(ledger.StoreTx) error) error {
	n, at := s.calls.Add(1), s.at.Load()
	if at == 0 || n < at {
		return s.Store.Update(fn)
	}
	late := n == at && s.late.Load()
	return errors.Join(syscall.EIO, s.Store.Update(func(tx ledger.StoreTx) error {
		if err := fn(tx); err != nil || late {
			return err
		}
		return syscall.EIO
	}))
}

// blind is a disk with directories that cannot be read.
type blind struct {
	disk.Disk
	on *atomic.Bool
}

func (d blind) Child(in *disk.Dir, name string) (disk.Handle, error) {
	if d.on.Load() && name == "sub" {
		return nil, syscall.EACCES
	}
	return d.Disk.Child(in, name)
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), store: faulty.NewMemoryStore(), accepted: map[transfer.ID]string{}, asked: map[transfer.ID]transfer.Request{}, denied: map[transfer.Authority]bool{},
		queue: &queue{mark: "one"}, states: map[transfer.ID]*transfer.Progress{}}
	fs, err := local.Open(local.Config{Roots: []string{b.dir}, Disk: blind{disk.RealDisk(), &b.hidden}})
	b.must(err)
	b.fs = fs
	b.must(os.Mkdir(b.path("in"), 0o755))
	t.Cleanup(func() { fs.Close() })
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// write writes the content of a file, complete at once.
func (b *bench) write(name, content string) {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	b.must(os.WriteFile(b.path(".new"), []byte(content), 0o644))
	b.must(os.Rename(b.path(".new"), b.path(name)))
}

// holds refuses commands from before a new enrolment of their author.
func (b *bench) holds(by word.Origin) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if by.Author.Made < b.anew {
		return transfer.Errorf(transfer.KindDenied, "%s was enrolled again", by.Principal)
	}
	return nil
}

// start begins a run of the agent, with the ledger of the last run.
func (b *bench) start() {
	b.t.Helper()
	b.fault = &dying{Store: b.store}
	l, err := ledger.Open(b.dir, ledger.Options{Clock: clock.System, Store: b.fault, Files: faulty.NewMemoryFiles()})
	b.must(err)
	b.ledger = l
	b.m = newMonitors(duty.Services{Agent: "ALPHA", Ledger: l, Place: b.places(), Status: b.status, Offer: b.submit, CheckKeys: b.holds, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		Permit: func(string) place.Permit {
			b.mu.Lock()
			looks, permit := b.looks, b.permit
			b.mu.Unlock()
			if looks != nil {
				looks()
			}
			return permit
		},
		May: func(_ string, right transfer.Authority) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.denied[right] {
				return transfer.Errorf(transfer.KindDenied, "not for him: %s", right)
			}
			return nil
		},
		Note: func(_ *ledger.Tx, r audit.Record) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notes = append(b.notes, r)
			return nil
		}}, b.watcher())
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.m.Run(ctx) }()
	b.end = func() { cancel(); <-ended; l.Close() }
}

// queuesAs are queues that every principal reads in the same way.
type queuesAs struct{ *placequeue.Source }

func (q queuesAs) As(principal string) place.Source { return queuesAs{q.Source.As(principal)} }

// places returns the files and the queue of the bench.
func (b *bench) places() place.Source {
	from := placequeue.NewSource(func(string) placequeue.Reader { return b.queue })
	return place.NewRouter(b.fs.Place(), place.Route{Of: transfer.Queues, Source: queuesAs{from}})
}

// tried returns the number of submitted transfers.
func (b *bench) tried() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order)
}

// noted returns the audit records.
func (b *bench) noted() []audit.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.notes)
}

// crash ends the run. Unfinished transactions are lost.
func (b *bench) crash() {
	b.fault.at.CompareAndSwap(0, 1)
	b.end()
	b.store = b.store.Snapshot()
}

func (b *bench) submit(by word.Origin, q *transfer.Request) (*transfer.Progress, error) {
	if err := dutytest.Signed(by); err != nil {
		b.t.Error(err)
	}
	if err := b.holds(by); err != nil {
		return nil, err
	}
	hash := q.Hash()
	b.mu.Lock()
	known, ok := b.accepted[q.ID]
	refuse, after := b.refuse, b.after
	b.mu.Unlock()
	if ok {
		if known != hash {
			return nil, transfer.Errorf(transfer.KindConflict, "transfer %s is known with other content", q.ID)
		}
		return &transfer.Progress{ID: q.ID}, nil
	}
	if refuse != nil {
		if err := refuse(q); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	b.accepted[q.ID], b.asked[q.ID], b.order = hash, *q, append(b.order, q.ID)
	b.mu.Unlock()
	if after != nil {
		if err := after(q); err != nil {
			return nil, err
		}
	}
	return &transfer.Progress{ID: q.ID}, nil
}

// status returns the state of a transfer.
func (b *bench) status(id transfer.ID) (*transfer.Progress, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.states[id]; p != nil {
		return p, nil
	}
	if _, ok := b.accepted[id]; ok {
		return &transfer.Progress{ID: id, State: transfer.Running}, nil
	}
	return nil, transfer.Errorf(transfer.KindNotFound, "there is no transfer %s", id)
}

// set changes the behaviour of the agent.
func (b *bench) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// sent returns the sources of accepted requests, each with its number of transfers.
func (b *bench) sent() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]int{}
	for _, q := range b.asked {
		for _, it := range q.Items {
			all[string(it.Source.Path)]++
		}
	}
	return all
}

// last returns the last accepted request.
func (b *bench) last() transfer.Request {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.order) == 0 {
		b.t.Fatal("nothing was submitted")
	}
	return b.asked[b.order[len(b.order)-1]]
}

// pass lets time pass.
func pass(d time.Duration) {
	t := clock.System.NewTimer(d)
	<-t.C()
	synctest.Wait()
}

// as gives a command in the name of a user.
func (b *bench) as(who string, kind wire.Kind, body any) error {
	c, author := b.m.Commands()[kind], dutytest.Author(who)
	author.Made = time.Now().UnixMilli()
	err := b.ledger.Update(func(t *ledger.Tx) error {
		_, err := c.Do(t, duty.Caller{Origin: word.Origin{Principal: who, Author: author}, Originator: transfer.Originator{User: who, Host: "host"}}, wire.Marshal(body))
		return err
	})
	if err == nil && c.Done != nil {
		c.Done()
	}
	return err
}

// create makes a monitor, and waits until its first poll is over: files that a test makes afterwards are found
// together.
func (b *bench) create(d *Definition, replace bool) {
	b.t.Helper()
	b.must(b.as("ann", CommandCreate, Create{*d, replace}))
	synctest.Wait()
}

func (b *bench) shown() Shown { return b.shownAs("m") }

// shownAs returns a monitor as it is shown to a user.
func (b *bench) shownAs(name string) Shown {
	b.t.Helper()
	v, err := b.m.Questions()[AskList].Answer(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(ListAsked{Name: name}))
	b.must(err)
	return v.(*Listed).Monitors[0]
}

func (b *bench) triggers() []Logged {
	b.t.Helper()
	v, err := b.m.Questions()[AskHistory].Answer(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(HistoryAsked{Name: "m"}))
	b.must(err)
	return v.(*History).Triggers
}

// files returns a definition for all files in the directory in.
func files(change ...func(*Definition)) *Definition {
	d := &Definition{V: definitionVersion, Name: "m", Agent: "ALPHA", Dir: transfer.File("in"), Match: "*", Poll: transfer.Duration(time.Second), Request: transfer.Request{
		Version: transfer.RequestVersion, Source: "ALPHA", Destination: "BETA", Dest: transfer.File("in/"), Items: transfer.ItemsOf(TheFile)}}
	for _, c := range change {
		c(d)
	}
	return d
}

// inBubble runs a test in a synctest bubble.
func inBubble(t *testing.T, do func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		defer func() { b.end() }()
		do(t, b)
	})
}

func (b *bench) expect(want string) {
	b.t.Helper()
	got := b.sent()
	if text := strings.TrimPrefix(fmt.Sprint(got), "map"); text != want {
		b.t.Errorf("sent are %s, not %s", text, want)
	}
}
