package coordination

import (
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/transfer"
)

// A countedLog is an audit log in memory that counts how often it is read.
type countedLog struct {
	records []audit.Record
	reads   int
}

func (l *countedLog) Find(f audit.Filter, fn func(int64, []byte, *audit.Record) error) error {
	l.reads++
	for n := range l.records {
		if r := &l.records[n]; f.Among[r.Transfer] && r.Role == f.Role {
			if err := fn(int64(n), nil, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestArrivedReadsTheLogOnce: the outcomes of all transfers that are asked about are counted by one pass through the log,
// each as its own destination has recorded it.
func TestArrivedReadsTheLogOnce(t *testing.T) {
	id := func(n int64) transfer.ID { return transfer.NewID(time.UnixMilli(n)) }
	a, b, c := id(1), id(2), id(3)
	record := func(of transfer.ID, agent transfer.AgentName, role string, outs ...transfer.Outcome) audit.Record {
		return audit.Record{Agent: agent, Role: role, Transfer: of, Event: audit.Items, Items: outs}
	}
	file := transfer.Outcome{Type: transfer.ItemFile, Size: 5}
	lost := transfer.Outcome{Type: transfer.ItemFile, Err: transfer.Errorf(transfer.KindLost, "unknown")}
	log := &countedLog{records: []audit.Record{
		record(a, "BETA", audit.RoleDestination, file, file), record(b, "GAMMA", audit.RoleDestination, file, lost), record(b, "BETA", audit.RoleDestination, file),
		record(a, "ALPHA", audit.RoleSource, file), record(c, "BETA", audit.RoleDestination, file), record(a, "BETA", audit.RoleDestination, file),
	}}
	counts, err := arrived(log, []status.Begun{{ID: a, Source: "ALPHA", Destination: "BETA"}, {ID: b, Source: "ALPHA", Destination: "GAMMA"}})
	if err != nil || log.reads != 1 || counts[0].Files != 3 || counts[0].Bytes != 15 || counts[1].Files != 1 || counts[1].Items != 1 {
		t.Errorf("%d reads gave %+v, %v", log.reads, counts, err)
	}
	if _, err := arrived(log, nil); err != nil || log.reads != 1 {
		t.Errorf("%d reads for no transfer, %v", log.reads, err)
	}
}
