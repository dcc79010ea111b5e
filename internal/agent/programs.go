package agent

import (
	"ferry/internal/automation/call"
	"ferry/internal/automation/program"
	"ferry/internal/transfer"
)

// newCalls returns the Executor that runs the programs of this agent's transfers: those of Config.Programs, for
// principals with the authority.
func (a *Agent) newCalls() (*call.Executor, error) {
	cfg := call.Config{Agent: a.cfg.Name, Ledger: a.ledger, Note: a.note, AtOnce: a.cfg.MaxDestination, Clock: a.cfg.Clock, Log: a.log,
		May: func(principal string) error { return a.gate.answers(principal, transfer.AuthProgram) }}
	if a.cfg.Programs != "" {
		dir, err := program.Open(a.cfg.Programs)
		if err != nil {
			return nil, err
		}
		cfg.Runner = dir
	}
	return call.New(cfg), nil
}
