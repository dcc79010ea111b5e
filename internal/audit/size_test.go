package audit

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// mostOfTransfer is the limit of the log for a transfer of one file, in bytes.
const mostOfTransfer = 3000

// transferRecords returns the records of a transfer of one file: five of its source and three
// of its destination.
func transferRecords(agent transfer.AgentName, k int) (list []Record) {
	id := idOf(uint64(k))
	rand.Read(id[9:])
	digest := make([]byte, 16)
	rand.Read(digest)
	item := transfer.Outcome{Type: transfer.ItemFile, Path: transfer.Path(fmt.Sprintf("/srv/beta/in/order-%d.csv", k)),
		Source: transfer.Path(fmt.Sprintf("/srv/alpha/order-%d.csv", k)), Size: 12345,
		Digest: fmt.Sprintf("xxh3:%x", digest), SrcSum: fmt.Sprintf("xxh3:%x", digest)}
	facts := &RequestFacts{Rule: "administrators", Dest: transfer.File("in/"), Durability: "full", Lane: "auto", Delivery: "fast", Compress: "none",
		Recovery: transfer.Duration(24 * time.Hour), Options: transfer.Options{Mode: "binary", Checksum: "xxh3", IfExists: "error"}}
	asked, opened, received := *facts, *facts, *facts
	asked.Sources = []transfer.Location{transfer.File(item.Source)}
	opened.Sources, opened.Resolved = asked.Sources, &transfer.Resolution{Base: "/srv/beta/in", Into: true}
	opened.Settings = transfer.Settings{ChunkSize: 1 << 20, WindowSize: 3, FrameSize: 4, CheckpointInterval: 1, Auto: true}
	received.Settings = opened.Settings
	counts := &transfer.Counts{Items: 1, Files: 1, Bytes: 12345}
	base := Record{Agent: agent, Incarnation: FormatIncarnation(1), Transfer: id, Source: agent, Destination: "BETA", Principal: "root",
		Originator: &transfer.Originator{User: "root", Host: "host"}}
	add := func(event Event, role string, change func(r *Record)) {
		r := base
		r.Event, r.Role = event, role
		r.Time = epoch.Add(time.Duration(k)*time.Second + time.Duration(len(list))*1234567)
		change(&r)
		list = append(list, r)
	}
	add(Submitted, RoleSource, func(r *Record) { r.Request, r.Text = &asked, "submitted at "+epoch.Format(time.RFC3339Nano) })
	add(Accepted, RoleSource, func(r *Record) { r.State = transfer.Accepted })
	add(Started, RoleSource, func(r *Record) { r.Request, r.Lane = &opened, "direct" })
	add(Items, RoleSource, func(r *Record) { r.Items = []transfer.Outcome{item} })
	add(Completed, RoleSource, func(r *Record) {
		r.State, r.Counts, r.Lane, r.Seconds, r.BytesWire = transfer.Successful, counts, "direct", 0.013598626, 12517
	})
	add(Started, RoleDestination, func(r *Record) { r.Request, r.Lane = &received, "direct" })
	add(Items, RoleDestination, func(r *Record) { r.Items = []transfer.Outcome{item} })
	add(Completed, RoleDestination, func(r *Record) { r.State, r.Counts, r.Seconds = transfer.Successful, counts, 0.010274411 })
	return list
}

// A transfer of one file takes at most 3,000 bytes of the log: its eight records, a seal for
// each agent, index and hashes.
func TestTransferTakesLittleOfTheLog(t *testing.T) {
	s := newSigning(t)
	dir := t.TempDir()
	l := open(t, dir)
	s.bind(t, l)
	size := func() (n int) {
		for _, name := range []string{recordsName, indexName, hashesName} {
			n += len(load(t, dir, name))
		}
		return n
	}
	const transfers = 100
	before, number := size(), uint64(0)
	for k := range transfers {
		list := transferRecords("A1", k)
		for _, part := range [][]Record{list[:5], list[5:]} {
			b := Batch{Agent: "A1", Incarnation: FormatIncarnation(1), Floor: 1}
			for i := range part {
				number++
				part[i].N = number
				b.Records = append(b.Records, encoded(t, part[i]))
			}
			b.Sign(s.a1, part[0].N)
			if _, err := s.by.Append(l, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := (size() - before) / transfers; got > mostOfTransfer {
		t.Errorf("a transfer takes %d bytes of the log; the limit is %d", got, mostOfTransfer)
	} else {
		t.Logf("a transfer takes %d bytes of the log", got)
	}
	s.signed(t, l, transfers*8, 0)
	closeLog(t, l)
}

// The vocabulary is a part of the format: another one makes existing logs unreadable.
func TestVocabularyBelongsToTheFormat(t *testing.T) {
	if id := packed.ID(); formatVersion != 2 || id != wantVocabulary {
		t.Errorf("version %d has the vocabulary %d; a new vocabulary needs a new version", formatVersion, id)
	}
}

const wantVocabulary = 970560723
