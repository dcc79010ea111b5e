package coordination

import (
	"io/fs"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An account is the course of a transfer as its source itself has told it.
type account struct {
	taken bool   // the source has taken its request
	whose string // the principal of that request, if a record names it
	// Principals of other requests for it, which the source has refused, and of cancels that came before its request.
	refused, cancelled map[string]bool
}

// accountOf reads the records of a source about a transfer in the audit log. Reports of submitters do not count: everyone
// may report any transfer.
func accountOf(log finder, source transfer.AgentName, id transfer.ID) (account, error) {
	c := account{refused: map[string]bool{}, cancelled: map[string]bool{}}
	err := log.Find(audit.Filter{Transfer: id, Role: audit.RoleSource}, func(_ int64, _ []byte, r *audit.Record) error {
		switch {
		case r.Agent != source, r.Source != "" && r.Source != source, r.Event == audit.Changed, r.Program != nil && r.Program.At == transfer.ManagedCall:
		case r.Event == audit.Cancelled && r.Destination == "":
			c.cancelled[r.Principal] = true
		case r.Destination == "": // of a command, or of a message that cannot be read
		case r.Event == audit.Refused:
			c.refused[r.Principal] = true
		default:
			c.taken = true
			if r.Event == audit.Submitted || r.Event == audit.Accepted {
				c.whose = r.Principal
				return fs.SkipAll
			}
		}
		return nil
	})
	return c, err
}

// submitter returns the principal of a transfer: that of the request that the source has taken, before a reported one.
func (c *account) submitter(reported string) string {
	if c.taken {
		return c.whose
	}
	return reported
}

// accountAt returns the account of a transfer, also by live figures of its source with records that are still to come.
func accountAt(s *Service, source transfer.AgentName, id transfer.ID) (account, error) {
	c, err := accountOf(s.log, source, id)
	if by, is := status.Reported(s.picture, id, source); err == nil && is && c.whose == "" {
		c.taken, c.whose = true, by
	}
	return c, err
}

// askRan answers an agent that was given a request again: its ledger may be a new one.
func askRan(s *Service, a *receivedQuestion, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.RanAsked](a.Kind, a.Body)
	if err != nil {
		return err
	}
	agent, err := wire.AgentOf(a.Principal)
	if err != nil {
		return err
	}
	c, err := accountAt(s, agent, body.Transfer)
	if err != nil {
		return err
	}
	r := wire.Ran{Taken: c.taken, Withdrawn: c.cancelled[body.Principal] || status.WithdrawnBy(s.picture, body.Principal, body.Transfer, agent)}
	for by := range c.cancelled {
		switch err := s.rights.may(by, transfer.AuthOperate, agent); {
		case err == nil:
			r.Withdrawn = true
		case transfer.KindOf(err) != transfer.KindDenied:
			return err
		}
	}
	ans.Body = wire.Marshal(r)
	return nil
}
