package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"ferry/internal/transfer"
)

// A Role is the part of a process in a measurement. The figures of several processes of one role are added.
type Role string

// The roles. Those of peers are for the programs that Ferry is compared with.
const (
	RoleSource       Role = "source agent"
	RoleDestination  Role = "destination agent"
	RoleManager      Role = "queue manager"
	RoleCoordination Role = "coordination"
	RoleSubmitter    Role = "submitter"
	RoleClient       Role = "client" // of a peer: curl, lftp, rsync, sftp …
	RoleServer       Role = "server" // of a peer: vsftpd, sshd, rsyncd …
)

// FerryRoles are the roles of a network, in the order of tables.
var FerryRoles = []Role{RoleSource, RoleDestination, RoleManager, RoleCoordination}

// A Sample is one measurement of one case.
type Sample struct {
	Wall  time.Duration
	Bytes int64
	Files int64
	CPU   map[Role]time.Duration // user and system time
	Peak  map[Role]int64         // most resident memory of one process of the role, in bytes
	Extra map[string]float64     // figures of one scenario only, by name
	Lane  string                 // of Ferry's transfer
}

// A Series has the measured samples of one case, or the reason why there are none.
type Series struct {
	Case    string
	Lacks   string // reason why the case was not run, or empty
	Samples []Sample
}

// A Case is one way to do the work that a scenario compares.
type Case struct {
	Name  string
	Lacks string // reason why it cannot be run here, such as "not available: …"; then Run is not called
	Run   func(ctx context.Context) (Sample, error)
}

// Interleave runs the cases in rounds, each round with all cases, and returns the samples of every round after the
// warm-ups. So a change of the host's speed during the run affects all cases alike. The order is random but the same in
// every run, and the next round has it backwards. The reason: a case depends on the state left by the previous one
// (memory, caches, a processor that has rested), and that must not always be the same case. say, if not nil, gets a
// progress line for each measurement. The first error ends it.
func Interleave(ctx context.Context, rounds, warmups int, cases []Case, say func(string, ...any)) ([]Series, error) {
	all := make([]Series, len(cases))
	for i, c := range cases {
		all[i] = Series{Case: c.Name, Lacks: c.Lacks}
	}

	for round := range warmups + rounds {
		if round < warmups && say != nil {
			say("warm-up %d of %d: %d cases", round+1, warmups, len(cases))
		}
		for _, i := range order(round, len(cases)) {
			c := cases[i]
			if c.Lacks != "" {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, context.Cause(ctx)
			}
			s, err := c.Run(ctx)
			if err != nil {
				return nil, caseError(c.Name, err)
			}
			if round < warmups {
				continue
			}
			all[i].Samples = append(all[i].Samples, s)
			if say != nil {
				say("round %d of %d: %s: %.3f s", round-warmups+1, rounds, c.Name, s.Wall.Seconds())
			}
		}
	}
	return all, nil
}

// order returns the order of n cases in a round.
func order(round, n int) []int {
	all := rand.New(rand.NewPCG(1, uint64(round/2))).Perm(n)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// Interleave runs cases with the rounds and warm-ups of the Env.
func (e *Env) Interleave(ctx context.Context, cases []Case) ([]Series, error) {
	return Interleave(ctx, e.Rounds, e.Warmups, cases, e.Say)
}

// turns is how often in a round cases are measured by turns.
const turns = 7

// ByTurns interleaves a few cases that differ by less than a host does from one minute to the next. It runs them
// without others in between, turns times in a round.
func (e *Env) ByTurns(ctx context.Context, cases []Case) ([]Series, error) {
	rounds := turns * e.Rounds
	if e.Short {
		rounds = e.Rounds
	}
	return Interleave(ctx, rounds, e.Warmups, cases, e.Say)
}

// Figure returns the figure of a value of each sample.
func (s Series) Figure(of func(Sample) float64) Figure {
	var v []float64
	for _, x := range s.Samples {
		v = append(v, of(x))
	}
	return NewFigure(v...)
}

// Wall returns the time in seconds.
func (s Series) Wall() Figure { return s.Figure(func(x Sample) float64 { return x.Wall.Seconds() }) }

// Rate returns the rate in megabytes (10^6 bytes) a second.
func (s Series) Rate() Figure { return s.Figure(Sample.Rate) }

// Rate returns the rate in megabytes (10^6 bytes) a second, or 0 for a sample that took no time.
func (x Sample) Rate() float64 {
	if x.Wall <= 0 {
		return 0
	}
	return float64(x.Bytes) / 1e6 / x.Wall.Seconds()
}

// CPU returns the processor time of a role in seconds.
func (s Series) CPU(r Role) Figure {
	return s.Figure(func(x Sample) float64 { return x.CPU[r].Seconds() })
}

// CPUPerKB returns the processor time of a role in microseconds for each 1,000 bytes.
func (s Series) CPUPerKB(r Role) Figure {
	return s.Figure(func(x Sample) float64 {
		if x.Bytes == 0 {
			return 0
		}
		return float64(x.CPU[r].Microseconds()) / (float64(x.Bytes) / 1000)
	})
}

// Peak returns the most memory of one process of a role, in MiB.
func (s Series) Peak(r Role) Figure {
	return s.Figure(func(x Sample) float64 { return float64(x.Peak[r]) / (1 << 20) })
}

// Extra returns an additional figure of a scenario.
func (s Series) Extra(name string) Figure {
	return s.Figure(func(x Sample) float64 { return x.Extra[name] })
}

// Cell returns a figure of the series as a cell of a table, or the reason why there is none.
func (s Series) Cell(f Figure) Cell {
	if s.Lacks != "" {
		return Text("%s", s.Lacks)
	}
	return Of(f)
}

// caseError adds the name of the failed case to an error.
func caseError(name string, err error) error {
	return transfer.Errorf(transfer.KindOf(err), "%s: %w", name, err)
}
