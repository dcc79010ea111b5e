package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of a name's owner.
const (
	ownerGrace = 3 * time.Second        // for a holder that is away to come back, before its name is taken elsewhere
	ownerTry   = 5 * time.Second        // for the queue manager to answer
	ownerPause = 250 * time.Millisecond // between two checks
	drainPause = 10 * time.Millisecond  // between two checks of the queue of cancels
	unclear    = 20                     // checks that fail in a row before a warning
)

// A holder is an entry in the queue manager's stream of owners: an instance with an agent's name. An empty Instance
// means that the name was released.
type holder struct {
	V           int       `json:"v"`
	Instance    string    `json:"instance"`
	Incarnation string    `json:"incarnation"`
	Mark        string    `json:"mark"` // of the ledger; see ledger.Mark, qmgr.StoreView
	Host        string    `json:"host"`
	Dir         string    `json:"dir"` // of its ledger, on Host
	Since       time.Time `json:"since"`
	Numbered    uint64    `json:"numbered,omitempty"` // audit records of the ledger by then
}

// An ownershipStage is the set of actions that an agent may take while the holder of its name is being determined. Each
// includes those before it.
type ownershipStage int

const (
	stageReports   ownershipStage = iota + 1 // the name is ours: reports of other agents are taken
	stageTransfers                           // transfers of the ledger may begin
	stageRequests                            // requests may be taken: all cancels that waited have been obeyed
)

// An owner holds the agent's name for this instance (R5). The name belongs to the instance in the stream of owners, for
// as long as that instance answers. Another instance can take its place only after it has read the present holder. The
// owner reads and writes the entry again each time that the connection has come up, and whenever another instance is
// heard under the name. A stream that loses the entry does no harm, because a living instance writes itself into it
// again.
type owner struct {
	*core
	olderCopy *olderCopy
	mine      holder
	begin     chan struct{} // the stage has changed: the scheduler is to look again
	checkSoon chan struct{} // another instance was heard, or the ledger has another mark
	lost      chan error    // the name is another instance's

	mu       sync.Mutex
	revision uint64 // of the entry that this instance wrote last
	of       int64  // the session of the connection that the stage holds for
	stage    ownershipStage
	everTook bool          // it has reached stageRequests
	renewed  time.Time     // when the name was last found to be this instance's, or set
	rival    *wire.Beat    // the last heartbeat under the name from another queue manager; nil: judged, or none
	moved    chan struct{} // closed and replaced when it changes
}

func newOwner(a *core) *owner {
	host, _ := os.Hostname()
	dir, err := filepath.Abs(a.cfg.Dir)
	if err != nil {
		dir = a.cfg.Dir
	}
	return &owner{core: a, begin: make(chan struct{}, 1), mine: holder{V: 1, Instance: a.instance, Host: host, Dir: dir, Since: a.started.UTC()},
		checkSoon: make(chan struct{}, 1), lost: make(chan error, 1), moved: make(chan struct{})}
}

// claim makes the name this instance's, before the agent touches anything that an earlier run has left. The ledger is
// open: an earlier run on it is over. silent says that an instance listens under the name and does not answer.
func (o *owner) claim(ctx context.Context, silent bool) error {
	o.mine.Incarnation = o.ledger.IncarnationText()
	stop, err := o.conn.Subscribe(wire.InstanceSubject(o.cfg.Name, o.mine.Instance), o.answerAlive)
	if err != nil {
		return err
	}

	o.stops = append(o.stops, stop)
	var g grace
	for failures := 0; ; {
		done, err := o.tryClaim(ctx, silent, &g)
		if done || transfer.KindOf(err) == transfer.KindAlive {
			return err
		}
		if failures = o.failed(failures, err); !o.pause(ctx, ownerPause) {
			return context.Cause(ctx)
		}
	}
}

// A grace is since when a holder has been found away.
type grace struct {
	instance string
	since    time.Time
}

// tryClaim checks once whether the name is free, and takes it.
func (o *owner) tryClaim(ctx context.Context, silent bool, g *grace) (done bool, err error) {
	session, ctx, end := o.session(ctx)
	defer end()
	held, revision, err := o.read(ctx)
	if err == nil {
		err = o.free(ctx, held)
	}
	if err != nil {
		return false, err
	}

	elsewhere := held.Instance != "" && !o.onThisLedger(held)
	switch {
	case silent && (held.Instance == "" || elsewhere):
		return false, o.taken(holder{})
	case elsewhere && held.Instance != g.instance:
		*g = grace{held.Instance, o.cfg.Clock.Now()}
		o.log.Info("the agent name is held by an instance that does not answer; waiting for it", "host", held.Host, "dir", held.Dir, "instance", held.Instance)
		return false, nil
	case elsewhere && o.cfg.Clock.Now().Sub(g.since) < ownerGrace:
		return false, nil
	}
	if err := o.compare(&held); err != nil {
		return false, err
	}
	if err := o.write(ctx, o.mine, revision); err != nil {
		return false, err
	}

	o.set(session, stageReports)
	return true, nil
}

// onThisLedger reports whether a holder ran on this instance's own ledger. Such a holder is over, because a ledger is
// open in one process alone, unless this host is a copy of the holder's. With a standby the place does not matter: the
// lock decides.
func (o *owner) onThisLedger(h holder) bool {
	return h.Host == o.mine.Host && h.Dir == o.mine.Dir || o.sharesLedger(h)
}

// sharesLedger reports whether a holder is another instance on this one's ledger, which has standbys. The ledger alone
// then decides which of them has the name (R34).
func (o *owner) sharesLedger(h holder) bool {
	return o.cfg.DirLock != nil && h.Incarnation == o.mine.Incarnation
}

// free returns nil where the name can be taken from a holder: this instance itself, one that has released the name, or
// one that is away. The error is of KindAlive where the holder lives.
func (o *owner) free(ctx context.Context, h holder) error {
	if h.Instance == "" || h.Instance == o.mine.Instance {
		return nil
	}

	if o.sharesLedger(h) {
		if err := o.ledger.Fence(); transfer.KindOf(err) == transfer.KindAlive {
			return o.taken(h)
		} else if err != nil {
			return err
		}
		return nil
	}

	for silent := 0; ; {
		_, asked, err := o.askInstance(ctx, wire.InstanceSubject(o.cfg.Name, h.Instance))
		switch {
		case err == nil:
			return o.taken(h)
		case transfer.KindOf(err) == transfer.KindUnreachable:
			return nil
		case !asked:
			return err
		case o.onThisLedger(h):
			return nil // the queue manager has not noticed that the holder is over
		}
		if silent++; silent == maxSilent {
			return o.taken(h)
		}
	}
}

// keep checks the holder of the name until the agent ends: when the connection has come up, and when another instance
// is heard, at most once in ownerPause.
func (o *owner) keep() {
	for failures := 0; ; {
		session, ctx, end := o.session(o.ctx)
		err := o.check(ctx, session)
		if err == nil {
			err = o.resolveRival(ctx)
		}
		if transfer.KindOf(err) == transfer.KindAlive {
			end()
			o.lose(err)
			return
		}
		failures = o.failed(failures, err)
		if o.pause(o.ctx, ownerPause) && err == nil {
			o.awaitCheck(ctx, session)
		}
		if end(); o.ctx.Err() != nil {
			return
		}
	}
}

// session is the present session of the connection, with a context that ends with it: the agent does not wait for a
// question that was lost with a session.
func (o *owner) session(ctx context.Context) (number int64, during context.Context, end func()) {
	number, over := o.conn.Session()
	during, end = context.WithCancel(ctx)
	go func() {
		select {
		case <-over:
			end()
		case <-during.Done():
		}
	}()
	return number, during, end
}

// failed counts checks that have failed in a row, and logs a warning after some seconds of them.
func (o *owner) failed(before int, err error) int {
	if err == nil || transfer.KindOf(err) == transfer.KindConflict {
		return 0
	}
	if before++; before == unclear {
		o.log.Warn("cannot verify the agent name or pending cancels; no request is accepted", "error", err)
	}
	return before
}

// check reads the holder of the name, and obeys the cancels that wait. Its error is of KindAlive where another instance
// has the name. Where the queue manager does not answer, an agent that has had the name continues the transfers that it
// has.
func (o *owner) check(ctx context.Context, session int64) error {
	err := o.renew(ctx)
	if err == nil {
		o.set(session, stageReports)
		err = o.drain(ctx)
	}

	switch {
	case err == nil:
		o.set(session, stageRequests)
	case errors.Is(err, errUnobeyed):
		// Nothing begins: a cancel that waits may be of a transfer that the ledger has.
	case transfer.KindOf(err) != transfer.KindAlive:
		o.set(session, stageTransfers)
	}
	return err
}

// renew writes this instance into the stream of owners again, unless the entry is that of another living instance.
func (o *owner) renew(ctx context.Context) error {
	for {
		held, revision, err := o.read(ctx)
		if err != nil {
			return err
		}
		if err := o.free(ctx, held); err != nil {
			return err
		}
		if err := o.compare(&held); err != nil {
			return err
		}
		if err = o.write(ctx, o.mine, revision); transfer.KindOf(err) != transfer.KindConflict {
			return err
		}
	}
}

// errUnobeyed reports commands that wait and have not been obeyed in time.
var errUnobeyed = transfer.Errorf(transfer.KindBusy, "commands wait to be obeyed")

// drain waits until every cancel that is in the queue has been obeyed.
func (o *owner) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTry)
	defer cancel()
	for {
		unread, _, err := o.unread(ctx)
		if err != nil || unread == 0 {
			return err
		}
		if !o.pause(ctx, drainPause) {
			return fmt.Errorf("%w: %d", errUnobeyed, unread)
		}
	}
}

// release releases the name, so that another instance can take it at once.
func (o *owner) release() {
	o.mu.Lock()
	revision := o.revision
	o.mu.Unlock()
	if revision == 0 {
		return
	}

	ctx := context.Background()
	free := holder{V: 1, Incarnation: o.mine.Incarnation}
	err := o.write(ctx, free, revision)
	if transfer.KindOf(err) == transfer.KindConflict { // perhaps with a write of its own that was given up when the agent stopped
		held, now, rerr := o.read(ctx)
		if rerr == nil && held.Instance == o.mine.Instance {
			err = o.write(ctx, free, now)
		}
	}
	if err != nil {
		o.log.Debug("cannot release the agent name", "error", err)
	}
}

// noteLedger notes how many audit records the ledger has, and its mark.
func (o *owner) noteLedger() {
	if o.ledger == nil {
		return
	}
	var n uint64
	mark, err := ledger.Mark(o.ledger)
	if err == nil && o.ledger.View(func(t *ledger.Tx) error { n = ledger.LastAuditNumber(t); return nil }) == nil {
		o.mu.Lock()
		o.mine.Numbered, o.mine.Mark = n, mark
		o.mu.Unlock()
	}
}

// compare compares the ledger with the last owner's entry of the name. If another ledger has had the name, it may have
// taken transfers that are stored for this one: so this one gets another mark.
func (o *owner) compare(held *holder) error {
	switch {
	case held.Incarnation == "":
		return nil
	case held.Incarnation == o.mine.Incarnation:
		return o.olderCopy.hear(held.Numbered, "the queue manager's record of the agent's name")
	}
	o.log.Warn("the agent name was last used with another ledger; transfers of that ledger end as unknown-outcome", "ledger", o.mine.Incarnation, "last_ledger", held.Incarnation)
	return o.ledger.Update(ledger.Remark)
}

func (o *owner) read(ctx context.Context) (h holder, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTry)
	defer cancel()
	data, revision, err := o.conn.Owner(ctx, o.cfg.Name.Token())
	if err == nil && len(data) > 0 && json.Unmarshal(data, &h) != nil {
		h = holder{} // whoever wrote this has no name to lose
	}
	return h, revision, err
}

func (o *owner) write(ctx context.Context, h holder, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTry)
	defer cancel()
	if h.Instance != "" {
		o.noteLedger()
	}
	asked := o.cfg.Clock.Now()
	o.mu.Lock()
	h.Numbered, h.Mark = o.mine.Numbered, o.mine.Mark
	o.mu.Unlock()
	now, err := o.conn.SetOwner(ctx, o.cfg.Name.Token(), wire.Marshal(h), revision)
	if err == nil {
		o.mu.Lock()
		o.revision, o.renewed = now, asked
		o.mu.Unlock()
	}
	return err
}

// answerAlive answers that this instance lives.
func (o *owner) answerAlive(m qmgr.Message) {
	if o.ctx.Err() != nil {
		return
	}
	o.answer(o.cfg.Name.Token(), m.Reply, wire.Answer{V: wire.Version, Beat: &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: o.cfg.Name,
		Incarnation: o.mine.Incarnation, Instance: o.mine.Instance, Host: o.mine.Host, Started: o.mine.Since}})
}

// resolveRival decides between this instance and one at another queue manager. Each queue manager
// of a channel has owners of its own, so each instance can be the owner at one of them. The
// instance that has run longer keeps the name. Both instances compare the same two values, so
// they agree even if their clocks differ. The error of the other instance is of KindAlive.
func (o *owner) resolveRival(ctx context.Context) error {
	o.mu.Lock()
	b := o.rival
	o.rival = nil
	o.mu.Unlock()
	if b == nil || o.sharesLedger(holder{Incarnation: b.Incarnation}) {
		return nil
	}
	data, _, err := o.askInstance(ctx, wire.InstanceSubject(o.cfg.Name, b.Instance))
	if err != nil {
		return nil // it has stopped, or its next heartbeat comes
	}
	ans, err := wire.DecodeAnswer(data)
	if err != nil || ans.Beat == nil {
		return nil
	}
	other := holder{Instance: b.Instance, Host: ans.Beat.Host, Since: ans.Beat.Started}
	if o.mine.precedes(&other) {
		return nil
	}
	return o.taken(other)
}

// precedes reports whether an instance has run longer than another.
func (h *holder) precedes(other *holder) bool {
	return cmp.Or(h.Since.Compare(other.Since), strings.Compare(h.Instance, other.Instance)) < 0
}

// heard takes reports under the agent's own name.
func (o *owner) heard(m qmgr.Message) {
	r, err := wire.DecodeReport(m.Data)
	if err != nil || r.Beat == nil || r.Beat.Instance == o.mine.Instance || r.Beat.Status == wire.AgentStopping || r.Beat.Status == wire.AgentStopped {
		return
	}
	if r.Beat.Manager != o.manager() {
		o.mu.Lock()
		o.rival = r.Beat
		o.mu.Unlock()
	}
	wake.Up(o.checkSoon)
}

// set sets the stage for a session of the connection. Until the agent has obeyed all cancels once, set does not
// raise the stage to stageTransfers.
func (o *owner) set(session int64, s ownershipStage) {
	o.mu.Lock()
	if s != stageTransfers || o.everTook {
		o.of, o.stage = session, s
		o.everTook = o.everTook || s == stageRequests
		close(o.moved)
		o.moved = make(chan struct{})
	}
	o.mu.Unlock()
	wake.Up(o.begin)
}

// may reports whether the agent has reached a stage now. An agent with a unique name is always at the last one, because
// no other instance can have the name.
func (o *owner) may(s ownershipStage) bool {
	if o.cfg.unique() {
		return true
	}
	session, _ := o.conn.Session()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of == session && o.stage >= s
}

// wait waits until the agent may do something. It reports false where the agent
// ends first.
func (o *owner) wait(s ownershipStage) bool {
	for o.ctx.Err() == nil {
		o.mu.Lock()
		moved := o.moved
		o.mu.Unlock()
		if o.may(s) {
			return true
		}
		select {
		case <-moved:
		case <-o.ctx.Done():
		}
	}
	return false
}

// pause waits, and reports false where ctx has ended.
func (o *owner) pause(ctx context.Context, d time.Duration) bool {
	t := o.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// taken is the error of an agent that has lost its name to another instance.
func (o *owner) taken(by holder) error {
	where := "and does not answer"
	if by.Host != "" {
		where = fmt.Sprintf("on %s since %s (instance %s)", by.Host, by.Since.Format(time.RFC3339), by.Instance)
	}
	return transfer.Errorf(transfer.KindAlive, "agent %s is already running %s; this one, instance %s on %s, stops", o.cfg.Name, where, o.instance, o.mine.Host).
		WithHint("stop the other one first, or give this agent another name")
}

// lose ends all work of an agent that has lost its name to another instance.
func (o *owner) lose(err error) {
	o.published.mu.Lock()
	o.published.nameless = true
	o.published.mu.Unlock()
	o.cancel()
	select {
	case o.lost <- err:
	default: // it was said
	}
}
