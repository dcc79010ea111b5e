package coordination

import (
	"io/fs"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// A sourceLog is an audit log in memory, newest first.
type sourceLog []audit.Record

func (l sourceLog) Find(f audit.Filter, fn func(int64, []byte, *audit.Record) error) error {
	for n := range l {
		if r := &l[n]; r.Transfer == f.Transfer && r.Role == f.Role {
			if err := fn(int64(n), nil, r); err == fs.SkipAll {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// Only records of a source itself show that it has taken a request, and name the principal of that.
func TestAccountOfASource(t *testing.T) {
	id := transfer.NewID(time.UnixMilli(1))
	rec := func(agent, source, dest transfer.AgentName, e audit.Event, by string) audit.Record {
		return audit.Record{Agent: agent, Role: audit.RoleSource, Transfer: id, Source: source, Destination: dest, Event: e, Principal: by}
	}
	for name, c := range map[string]struct {
		log                sourceLog
		taken              bool
		whose              string
		refused, cancelled int
	}{
		"nothing":                       {},
		"taken":                         {sourceLog{rec("ALPHA", "ALPHA", "BETA", audit.Failed, "eve"), rec("ALPHA", "ALPHA", "BETA", audit.Submitted, "ann")}, true, "ann", 0, 0},
		"taken, and refused to another": {sourceLog{rec("ALPHA", "", "BETA", audit.Refused, "eve"), rec("ALPHA", "ALPHA", "BETA", audit.Accepted, "ann")}, true, "ann", 1, 0},
		"refused":                       {sourceLog{rec("ALPHA", "", "BETA", audit.Refused, "ann")}, false, "", 1, 0},
		"a refused command":             {sourceLog{rec("ALPHA", "", "", audit.Refused, "eve")}, false, "", 0, 0},
		"a malformed request":           {sourceLog{rec("ALPHA", "", "", audit.Failed, "eve")}, false, "", 0, 0},
		"cancelled before":              {sourceLog{rec("ALPHA", "ALPHA", "", audit.Cancelled, "eve")}, false, "", 0, 1},
		"by another agent":              {sourceLog{rec("EVIL", "ALPHA", "BETA", audit.Submitted, "eve"), rec("EVIL", "EVIL", "ALPHA", audit.Submitted, "eve")}, false, "", 0, 0},
	} {
		got, err := accountOf(c.log, "ALPHA", id)
		if err != nil || got.taken != c.taken || got.whose != c.whose || len(got.refused) != c.refused || len(got.cancelled) != c.cancelled {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if by := got.submitter("mallory"); by != "mallory" && !c.taken || c.taken && by != "ann" { // a report of mallory
			t.Errorf("%s: its submitter is %s", name, by)
		}
	}
}
