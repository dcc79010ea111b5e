package agent

import (
	"ferry/internal/automation/call"
	"ferry/internal/automation/exit"
	"ferry/internal/automation/program"
	"ferry/internal/transfer"
)

// newCalls returns the Executor that runs the exits of Config.Programs, and the programs of this agent's transfers, for
// principals with the authority.
func (a *Agent) newCalls() (*exit.Executor, error) {
	cfg := call.Config{Agent: a.cfg.Name, Ledger: a.ledger, Note: a.note, AtOnce: a.cfg.MaxDestination, Clock: a.cfg.Clock, Log: a.log,
		May: func(principal string) error { return a.gate.answers(principal, transfer.AuthProgram) }}
	if a.cfg.Programs.Dirs != "" {
		dir, err := program.Open(a.cfg.Programs.Dirs)
		if err != nil {
			return nil, err
		}
		cfg.Runner = dir
	}
	return exit.New(exit.Config{Agent: a.cfg.Name, Ledger: a.ledger, Programs: call.New(cfg), Exits: a.cfg.Programs.Exits, Note: a.note,
		AtOnce: a.cfg.MaxDestination, Clock: a.cfg.Clock, Log: a.log})
}
