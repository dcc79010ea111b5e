package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ferry/internal/transfer"
)

// Names of the two agents of a Pair.
const (
	SourceAgent transfer.AgentName = "SOURCE"
	DestAgent   transfer.AgentName = "DEST"
)

// A Pair is a network of two agents in client mode, with coordination as a process of its own. Most scenarios use one.
type Pair struct {
	*Network
	SourceRoot string // holds the sets; several pairs may share it
	DestRoot   string
	copies     int
}

// PairConfig has the options of a pair. Wrap, Via and Listen are those of NetworkConfig.
type PairConfig struct {
	Dir        string // of this pair only
	SourceRoot string
	DestRoot   string // default: in Dir
	Lane       Lane
	Processors int
	Flags      []string // more flags of both agents
	Manager    []string // more flags of the queue manager
	Commands   bool     // see NetworkConfig
	Bindings   bool     // each agent in the process of a queue manager of its own
	Cluster    bool     // three queue managers form a cluster
	Listen     string
	Wrap       map[Role][]string
	Via        map[Role]string
}

// StartPair starts a pair and waits until it is ready.
func (e *Env) StartPair(ctx context.Context, cfg PairConfig) (*Pair, error) {
	if cfg.DestRoot == "" {
		cfg.DestRoot = filepath.Join(cfg.Dir, "copies")
	}
	if err := os.MkdirAll(cfg.DestRoot, 0o755); err != nil {
		return nil, unwritable(cfg.DestRoot, err)
	}

	flags := append(cfg.Lane.Flags(), cfg.Flags...)
	n, err := e.StartNetwork(ctx, NetworkConfig{Dir: cfg.Dir, Bindings: cfg.Bindings, Cluster: cfg.Cluster, Processors: cfg.Processors, Manager: cfg.Manager, Commands: cfg.Commands, Listen: cfg.Listen, Wrap: cfg.Wrap, Via: cfg.Via,
		Agents: []AgentConfig{
			{Role: RoleSource, Names: []string{string(SourceAgent)}, Root: cfg.SourceRoot, Flags: slices.Clone(flags)},
			{Role: RoleDestination, Names: []string{string(DestAgent)}, Root: cfg.DestRoot, Flags: slices.Clone(flags)},
		}})
	if err != nil {
		return nil, err
	}
	return &Pair{Network: n, SourceRoot: cfg.SourceRoot, DestRoot: cfg.DestRoot}, nil
}

// Move measures the transfer of a set, as one transfer or as one for each of its parts. It verifies the copy and
// removes it.
func (p *Pair) Move(ctx context.Context, s *FileSet, j Job, parts bool) (Sample, error) {
	p.copies++
	j.Source, j.Dest = SourceAgent, DestAgent
	jobs, check := s.Copies(j, p.DestRoot, fmt.Sprintf("copy%d", p.copies), parts)
	return p.Measure(ctx, jobs, check)
}

// Case returns a case that moves a set. If this Ferry lacks a function that the job needs, the case says so and is not
// run.
func (p *Pair) Case(name string, s *FileSet, j Job, parts bool) Case {
	j.Source, j.Dest, j.Sources, j.To = SourceAgent, DestAgent, []transfer.Path{"any"}, "any"
	return Case{Name: name, Lacks: j.Lacks(), Run: func(ctx context.Context) (Sample, error) { return p.Move(ctx, s, j, parts) }}
}

// MoveSpread is Move with n transfers at once, each of its own share of the files.
func (p *Pair) MoveSpread(ctx context.Context, s *FileSet, j Job, n int) (Sample, error) {
	p.copies++
	j.Source, j.Dest = SourceAgent, DestAgent
	jobs, check := s.Shares(j, p.DestRoot, fmt.Sprintf("copy%d", p.copies), n)
	return p.Measure(ctx, jobs, check)
}
