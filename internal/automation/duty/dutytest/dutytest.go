// Package dutytest is an agent for the tests of duties. It has a ledger in memory, which survives a crash in the state
// of the last transaction. Its clock stands still until it is set. Its principals have every authority but those that
// they are denied.
package dutytest

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Clock stands still until At is set.
type Clock struct {
	clock.Clock
	At time.Time
}

func (c *Clock) Now() time.Time { return c.At }

// An Agent is an agent with a single duty.
type Agent struct {
	T      testing.TB
	Clock  *Clock
	Ledger *ledger.Ledger    // of the run that has begun last
	Notes  []audit.Record    // of all runs
	Denied map[string]string // by the principal, the authorities that it lacks
	Anew   map[string]bool   // principals that were enrolled again after all commands so far
	store  *faulty.MemoryStore
	dir    string // of the ledger, for all runs
}

// New makes an agent with an empty ledger, which has not begun to run.
func New(t testing.TB, now time.Time) *Agent {
	a := &Agent{T: t, Clock: &Clock{clock.System, now}, Denied: map[string]string{}, Anew: map[string]bool{}, store: faulty.NewMemoryStore(), dir: t.TempDir()}
	t.Cleanup(a.close)
	return a
}

func (a *Agent) close() {
	if a.Ledger != nil {
		a.Ledger.Close()
	}
}

// Start begins a run on the contents of the ledger. The run before it ends as in a crash. The result has the services of
// the agent, except those for submitting, which the test adds.
func (a *Agent) Start() duty.Services {
	a.T.Helper()
	a.store = a.store.Snapshot()
	a.close()
	log := slog.New(slog.DiscardHandler)
	l, err := ledger.Open(a.dir, ledger.Options{Store: a.store, Files: faulty.NewMemoryFiles(), Log: log})
	a.Must(err)
	a.Ledger = l
	return duty.Services{Agent: "ALPHA", Ledger: l, Clock: a.Clock, Log: log, May: a.may, CheckKeys: a.holds,
		Note: func(_ *ledger.Tx, r audit.Record) error { a.Notes = append(a.Notes, r); return nil }}
}

func (a *Agent) may(principal string, right transfer.Authority) error {
	if strings.Contains(a.Denied[principal], string(right)) {
		return transfer.Errorf(transfer.KindDenied, "%s does not have the authority %s", principal, right)
	}
	return nil
}

func (a *Agent) holds(by word.Origin) error {
	if a.Anew[by.Principal] {
		return transfer.Errorf(transfer.KindDenied, "%s was enrolled again", by.Principal)
	}
	return nil
}

// Author is the author of the commands of a principal.
func Author(principal string) *word.Author {
	name := identity.Name{Network: "abcdefgh12", Role: identity.User, Name: "author"}
	return &word.Author{Statement: word.Statement{Kind: word.Control, By: name, To: name}, Key: principal}
}

// Signed is an error for an origin without the author of its principal's commands.
func Signed(by word.Origin) error {
	if by.Author == nil || by.Author.Key != by.Principal {
		return fmt.Errorf("the author of %s is %+v", by.Principal, by.Author)
	}
	return nil
}

// Do sends a duty a command as the agent does.
func (a *Agent) Do(d duty.Duty, who string, asked time.Time, kind wire.Kind, body any) (answer any, err error) {
	c := d.Commands()[kind]
	if c.Needs != transfer.AuthNone {
		if err := a.may(who, c.Needs); err != nil {
			return nil, err
		}
	}
	caller := duty.Caller{Origin: word.Origin{Principal: who, Author: Author(who)}, Originator: transfer.Originator{User: who, Host: "box"}, Asked: asked}
	err = a.Ledger.Update(func(t *ledger.Tx) error {
		answer, err = c.Do(t, caller, wire.Marshal(body))
		return err
	})
	if err == nil && c.Done != nil {
		c.Done()
	}
	return answer, err
}

// Must ends the test where something failed that must not.
func (a *Agent) Must(err error) {
	a.T.Helper()
	if err != nil {
		a.T.Fatal(err)
	}
}

// crash is the panic that ends a run of the agent at any point.
type crash struct{}

// Crash ends the run at this point. It is called within a function that Outlives calls.
func Crash() { panic(crash{}) }

// RunsToEnd reports whether the agent gets to the end of something, and not to a Crash before.
func RunsToEnd(what func()) (lives bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(crash); !is {
				panic(r)
			}
		}
	}()
	what()
	return true
}
