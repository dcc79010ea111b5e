package agent

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place/local/disk"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/policy"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/descriptor"
	"ferry/internal/transfer"
)

// Retention is the time that outcomes are kept, in the agent's running time. farFuture is the most by which the
// time of an ID may be ahead of the agent's clock.
const (
	Retention = 30 * 24 * time.Hour
	farFuture = time.Hour
)

// DefaultTransfers is the number of transfers that an agent runs at once in each direction.
const DefaultTransfers = 25

// Config is the configuration of an agent.
type Config struct {
	Name     transfer.AgentName
	Dir      string   // state: the ledger and the item journals
	Roots    []string // where files may be read and written; see disk.ParseRoot
	Settings transfer.Settings
	// Limits; 0 means 25, 25 and 1,000.
	MaxSource, MaxDestination, MaxQueued int
	Rates                                map[transfer.AgentName]flow.Timetable // its rate to each agent; "": to all together
	Memory                               int64                                 // bytes for data in flight; default 64 MiB
	OutboxLimit                          int64                                 // audit records that may wait for coordination; default 100,000
	Version                              string
	Carve                                []string           // directories that transfers cannot touch, beside Dir
	Alone                                bool               // there is no coordination on this network
	Beside                               transfer.AgentName // another agent with the same roots on this host; may be empty
	Direct                               Direct
	Content                              conversion.Defaults // of text files on this host
	Files                                descriptor.Share    // of the process's open files; its Transfers bound both of those above
	RecordRoot                           string              // where data sets lie; default the first root
	Sandbox                              *policy.Rules       // the part of the policy that holds here; nil: all
	Programs                             Programs
	Streams                              *Streams        // nil: the agent sends and receives files beneath its Roots
	Duties                               []duty.Maker    // its work beside the transfers that are submitted to it
	DirLock                              *ledger.DirLock // that StandBy has given; nil: the agent has no standby
	Clock                                clock.Clock
	Log                                  *slog.Logger
}

// Programs are the programs that an agent may run, and those that it runs as exits.
type Programs struct {
	Dirs  string         // their directories, in the system's list; empty: it runs none
	Exits transfer.Exits // of its transfers and monitors
}

func (c *Config) fill() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.MaxSource, DefaultTransfers)
	def(&c.MaxDestination, DefaultTransfers)
	def(&c.MaxQueued, 1000)
	if most := c.Files.Transfers; most > 0 {
		c.MaxSource, c.MaxDestination = min(c.MaxSource, most), min(c.MaxDestination, most)
	}

	if c.Files.Optional >= extraDescriptors*c.MaxQueued {
		c.Files.Optional = 0 // they need not be counted
	}

	if c.Clock == nil {
		c.Clock = clock.System
	}

	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// unique reports whether no other instance can have the name of the agent: no other process is on the network, or the
// name is that of one transfer.
func (c *Config) unique() bool { return c.Alone || c.Streams != nil }

// extraDescriptors is the number of descriptors that each transfer of an agent may keep open beyond need.
const extraDescriptors = 8

// refuseRootsInside refuses a root in the agent's own state directory: a
// transfer must not be able to write the ledger.
func (c *Config) refuseRootsInside() error {
	if c.Streams != nil {
		return nil
	}

	if len(c.Roots) == 0 {
		return transfer.Errorf(transfer.KindUsage, "agent %s has no root; give --root DIR, a directory of files that it may read and write", c.Name)
	}

	state, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}

	for _, r := range c.Roots {
		dir := disk.ParseRoot(r).Dir
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		if abs == state || strings.HasPrefix(abs, state+string(filepath.Separator)) {
			return transfer.Errorf(transfer.KindUsage, "root %s lies inside the agent's own state directory %s; choose another", abs, state)
		}
	}
	return nil
}

// protectedDirs are the directories that transfers cannot touch. The directory of programs is among them, so that no
// transfer can place a program to be run.
func (c *Config) protectedDirs() []string {
	all := append([]string{c.Dir}, c.Carve...)
	if dirs := c.Programs.Dirs; dirs != "" {
		all = append(all, filepath.SplitList(dirs)...)
	}
	return all
}

// scratch is the directory for sorting names and items that are too many for memory. local.Open clears it.
func (c *Config) scratch() string { return filepath.Join(c.Dir, "names") }

// lasting makes a queue's consumer last for the time that the agent may be away.
func (c *Config) lasting(q streams.Queue) streams.Queue {
	if c.Streams != nil {
		q.Idle = errands.PipeIdle
	}
	return q
}

func (c *Config) commands() streams.Queue { return c.lasting(streams.Commands(c.Name)) }

func (c *Config) controls() streams.Queue { return c.lasting(streams.Controls(c.Name)) }

// acceptable checks a request that was read. It must be for this agent, and contain nothing that no agent supports.
// rest are the items of its parts.
func (c *Config) acceptable(q *transfer.Request, rest []transfer.RequestItem) error {
	if err := q.Check(); err != nil {
		return err
	}
	if err := q.CheckItems(rest); err != nil {
		return err
	}

	if q.Source != c.Name {
		return transfer.Errorf(transfer.KindUsage, "the request is for agent %s; this is %s", q.Source, c.Name)
	}

	if s := c.Streams; s != nil && q.ID != s.Transfer {
		return transfer.Errorf(transfer.KindUsage, "%s sends its own standard input, and nothing else", c.Name)
	}
	if err := conversion.TakeAttributes(q); err != nil {
		return err
	}
	if err := conversion.TakeFrom(q, rest); err != nil {
		return err
	}
	if err := conversion.Check(q); err != nil {
		return err
	}
	return conversion.CheckItems(q, rest)
}

// reservedRoom is the part of the queue that duties without end leave to requests of users.
func (c *Config) reservedRoom() int { return c.MaxQueued / 10 }

// fromTheFuture returns the error for an ID that would be remembered too briefly.
func (c *Config) fromTheFuture(id transfer.ID, now time.Time) error {
	return transfer.Errorf(transfer.KindClock, "transfer %s was made at %s, ahead of the clock of %s (%s)", id,
		id.Time().UTC().Format(time.RFC3339), c.Name, now.UTC().Format(time.RFC3339)).
		WithHint("set your clock right and submit again")
}
