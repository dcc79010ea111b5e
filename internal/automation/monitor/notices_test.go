package monitor

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing/synctest"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// notices is a watcher that passes on the notices of a test.
type notices struct {
	mu   sync.Mutex
	dirs map[*listener][]string
	late []func() // notices that CatchUp is to pass on
}

// watcher returns the watcher of a bench with notices.
func (b *bench) watcher() func() watcher {
	if b.notices == nil {
		return nil
	}
	b.notices = &notices{dirs: map[*listener][]string{}}
	return func() watcher { return b.notices }
}

func (n *notices) Watch(r *listener, dirs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirs[r] = slices.Clone(dirs)
}

func (n *notices) Run(ctx context.Context) { <-ctx.Done() }

func (n *notices) CatchUp() {
	n.mu.Lock()
	late := n.late
	n.late = nil
	n.mu.Unlock()
	for _, tell := range late {
		tell()
	}
}

// looked waits for the beginning and the end of a poll. The next poll is the least gap away: notices that follow at
// once come before it.
func (b *bench) looked() {
	b.t.Helper()
	b.tell("none", noticeClosed)
	synctest.Wait()
}

// tell notifies of a name in the directory in.
func (b *bench) tell(name string, is notice) {
	n := b.notices
	n.mu.Lock()
	var told []*listener
	dir, err := filepath.EvalSymlinks(b.path("in"))
	for r, dirs := range n.dirs {
		if slices.Contains(dirs, dir) {
			told = append(told, r)
		}
	}
	n.mu.Unlock()
	b.must(err)
	for _, r := range told {
		r.handle(dir, name, is)
	}
}

// record makes an audit record of a transfer, as the sender does.
func (b *bench) record(id transfer.ID, event audit.Event, items ...transfer.Outcome) {
	b.t.Helper()
	b.must(b.ledger.Update(func(t *ledger.Tx) error {
		return b.m.Follow(t, &audit.Record{Event: event, Role: audit.RoleSource, Transfer: id, Items: items})
	}))
}

// outcome returns the outcome of a file in the directory in; a kind is the reason of a failure.
func (b *bench) outcome(name, sum string, kind transfer.Kind) transfer.Outcome {
	oc := transfer.Outcome{Type: transfer.ItemFile, Source: transfer.Path(b.path("in/" + name)), Digest: sum}
	if kind != transfer.KindNone {
		oc.Digest, oc.Err = "", transfer.Errorf(kind, "not there")
	}
	return oc
}

// ended ends the last accepted transfer: its one file has arrived unchanged, or not.
func (b *bench) ended(name string, kind transfer.Kind) {
	b.t.Helper()
	id := b.last().ID
	b.record(id, audit.Items, b.outcome(name, b.sumOf("in/"+name), kind))
	event, state := audit.Completed, transfer.Successful
	if kind != transfer.KindNone && kind != transfer.KindReplaced {
		event, state = audit.Failed, transfer.Failed
	}
	b.record(id, event)
	b.set(func() { b.states[id] = &transfer.Progress{ID: id, State: state} })
}
