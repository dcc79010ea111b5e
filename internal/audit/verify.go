package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A Report has the findings of Verify. The log is sound if Found is 0: no record was changed, none is missing, and none
// is there twice.
type Report struct {
	Records   int64                `json:"records"`             // read
	Root      string               `json:"root"`                // of the records as read
	Gaps      int64                `json:"gaps"`                // gap records: recorded losses
	Late      int64                `json:"late,omitempty"`      // records that came although they were recorded as lost
	Signed    int64                `json:"signed,omitempty"`    // records with a checked signature
	Unsigned  int64                `json:"unsigned,omitempty"`  // agents' records without a signature, if signatures were to be checked
	Witnesses int64                `json:"witnesses,omitempty"` // agents with a checkpoint compared with the log
	Silent    []transfer.AgentName `json:"silent,omitempty"`    // agents that could not be asked
	Pending   int64                `json:"pending,omitempty"`   // bytes of an append that was unfinished when the log was opened
	Found     int64                `json:"found"`               // problems
	Problems  []Problem            `json:"problems,omitempty"`  // the first hundred
	Accepted  int64                `json:"accepted,omitempty"`  // gaps that the agents of the missing records have accepted
	Breaks    []Problem            `json:"breaks,omitempty"`    // the first hundred of those
}

// A Problem is damage that an append and a crash of the process cannot have caused, or a missing or repeated record. A
// power cut can damage the hashes of the last append. They are problems, too, until the log is opened for writing,
// which repairs them.
type Problem struct {
	Index int64  `json:"index"` // of the record; -1: not of one record
	Text  string `json:"text"`
}

const maxProblems = 100

func (r *Report) add(index int64, format string, args ...any) {
	if r.Found++; len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{index, fmt.Sprintf(format, args...)})
	}
}

func (r *Report) accept(index int64, format string, args ...any) {
	if r.Accepted++; len(r.Breaks) < maxProblems {
		r.Breaks = append(r.Breaks, Problem{index, fmt.Sprintf(format, args...)})
	}
}

// Verify reads every record again and checks:
//
//   - its checksum, its entry in the index, its leaf and all stored nodes of the tree
//   - the numbering of its agent
//   - the state that the log saved of itself or has in memory
//   - the checkpoints in against, which others have kept
//   - the author of a record that accepts gaps, if members of the network have keys in the log
//
// progress, if not nil, is called from time to time.
//
// Verify finds any change of any file unless the other files are changed to match: a record that was edited, deleted,
// inserted, swapped or cut off, and a changed hash. A witness is a checkpoint kept where the log's files cannot be
// written. Without one Verify cannot find two attacks by a process with write access to all files: it writes records,
// index, hashes and state anew as if the log had always been so, or it restores an older copy of the whole directory.
// With a checkpoint Verify finds both, except for records after the last checkpoint. Therefore checkpoints are sent to
// the agents. Nor does Verify find records that such a process adds at the end and no agent has sent. Before the next
// start they are shown as Pending.
//
// Only VerifySigned checks the signatures of agents.
func (l *Log) Verify(ctx context.Context, progress func(done, total int64), against ...Checkpoint) (Report, error) {
	return verify(ctx, l, &verifier{against: against, progress: progress})
}

// VerifySigned is Verify, and checks the seals of agents and the owners of their keys against a network's certificates.
// So it finds records in an agent's name by a process that only has write access to the files.
func (l *Log) VerifySigned(ctx context.Context, roots *identity.Roots, against ...Checkpoint) (Report, error) {
	v := &verifier{against: against}
	v.seals = newSeals(roots, &v.report)
	return verify(ctx, l, v)
}

func verify(ctx context.Context, l *Log, v *verifier) (Report, error) {
	sub, err := l.subject()
	if err != nil {
		return Report{}, logError(l.files.dir, err)
	}
	v.begin(sub)
	if err := v.walk(ctx); err != nil {
		return v.report, err
	}
	v.finish()
	v.report.Records = v.read
	v.report.Root = v.actual.root()
	return v.report, nil
}

// A subject is the part of a log that is verified: its files, as they were at one time.
type subject struct {
	files *files
	found findings
	tip   *tip     // of a log opened for appending, which continues; nil: opened for reading
	exact bool     // nothing may follow the last record
	moved []string // files that were moved away or replaced under a writer
}

// subject takes the log for a verification.
func (l *Log) subject() (subject, error) {
	if l.lock == nil {
		return subject{files: &l.files, found: l.openedAs}, nil
	}
	l.writing.Lock() // held briefly, while the files are exactly the log
	found, err := l.files.readFindings()
	t, exact := l.tip, l.failed == nil
	l.writing.Unlock()
	if err != nil {
		return subject{}, err
	}
	moved, err := l.files.moved()
	return subject{&l.files, found, &t, exact, moved}, err
}

// A verifier reads a log from its first record on and checks it.
type verifier struct {
	files    *files
	against  []Checkpoint
	progress func(done, total int64)
	report   Report
	total    int64  // records that should be there
	bytes    int64  // bytes of records that may be read
	nodes    window // over the stored hashes
	cells    window // over the index

	i       int64 // index of the next record
	at      int64 // its expected offset
	exact   bool  // nothing may follow the last record
	read    int64 // records with good frames
	actual  tree  // over the records as read
	stored  tree  // over the leaves as stored: shows the wrong nodes
	streams streams
	seals   *seals // nil: signatures are not checked

	settled settlements
	bound   bool // the log has keys of members
}

// begin compares the sizes of the files, and their names.
func (v *verifier) begin(sub subject) {
	f := sub.found
	v.files, v.exact, v.at, v.streams = sub.files, sub.exact, headerSize, streams{}
	for _, name := range sub.moved {
		v.report.add(-1, "%s in %s is not the file that this process writes: it was removed or replaced", name, v.files.dir)
	}

	v.nodes, v.cells = window{t: v.files.hashes, n: f.nodes}, window{t: v.files.index, n: f.indexed}
	v.total, v.bytes = f.hashed, f.bytes
	if f.stateErr != nil {
		v.report.add(-1, "%v", f.stateErr)
	}

	if sub.tip != nil { // appends continue; their records are not checked
		v.total = sub.tip.tree.size
		v.remember(Checkpoint{v.total, sub.tip.tree.root()})
	} else if f.st != nil {
		v.total = max(v.total, f.st.Size)
	}

	if f.st != nil && f.st.Size <= v.total {
		v.remember(Checkpoint{f.st.Size, f.st.Root})
	}

	if need := tlog.StoredHashCount(v.total); v.nodes.n < need {
		v.report.add(-1, "%s has %d hashes; %d records need %d", hashesName, v.nodes.n, v.total, need)
	}

	if v.cells.n < v.total {
		v.report.add(-1, "%s has %d entries; there are %d records", indexName, v.cells.n, v.total)
	}
}

// remember adds the log's own checkpoints to those of others.
func (v *verifier) remember(c Checkpoint) {
	v.against = append([]Checkpoint{c}, v.against...)
}

func (v *verifier) walk(ctx context.Context) error {
	w := newWalker(v.files.records, v.at, v.bytes)
	for ; v.i < v.total; v.i++ {
		if v.i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return transfer.Errorf(transfer.KindCancelled, "the audit log was not verified to its end: %w", err)
			}
			if v.progress != nil {
				v.progress(v.i, v.total)
			}
		}
		v.at = w.at
		body, err := w.next()
		if err != nil {
			if w = v.resume(err); w == nil {
				return nil
			}
			continue
		}
		v.record(body)
	}

	v.at = w.at
	return nil
}

// resume reports a place without a valid record, and continues with the next record in the index. The tree continues
// with the stored leaf, so that one bad record is one problem.
func (v *verifier) resume(err error) *walker {
	if err == io.EOF {
		v.report.add(v.i, "records %d to %d are missing: %s ends before them", v.i, v.total-1, recordsName)
		return nil
	}

	v.report.add(v.i, "%s: %v", recordsName, err)
	c, cerr := v.files.index.cell(v.i + 1)
	leaf, ok := v.hash(tlog.StoredHashIndex(0, v.i))
	if v.i+1 >= v.cells.n || cerr != nil || !ok || c.at <= v.at || c.at >= v.bytes {
		if v.i+1 < v.total {
			v.report.add(v.i, "records %d to %d cannot be reached behind it", v.i+1, v.total-1)
		}
		return nil
	}

	v.leaf(leaf, leaf)
	return newWalker(v.files.records, c.at, v.bytes)
}

// record checks a record with a good frame.
func (v *verifier) record(body []byte) {
	v.read++
	rec, err := Decode(body)
	late := false
	if err == nil {
		late, err = v.streams.observe(&rec, v.i)
	}
	if err != nil {
		v.report.add(v.i, "%v", err)
	}

	if late {
		v.report.Late++
	}
	switch {
	case err != nil:
	case rec.Agent == Coordination:
		v.told(&rec)
	case rec.Event == Settled && rec.Reason != "":
		v.settled.take(v.i, &rec, v.seals.network())
	}

	if v.i < v.cells.n {
		if b, cerr := v.cells.get(v.i); cerr != nil {
			v.report.add(v.i, "%s: %v", indexName, cerr)
		} else if parseCell(b) != cellOf(&rec, v.at) && err == nil {
			v.report.add(v.i, "%s does not agree with the record", indexName)
		}
	}

	actual := tlog.RecordHash(body)
	if err == nil {
		v.seals.next(v.i, &rec, actual)
	}
	stored, ok := v.hash(tlog.StoredHashIndex(0, v.i))
	if !ok {
		stored = actual // one problem for all missing ones is enough
	} else if stored != actual {
		v.report.add(v.i, "it is not the record that was appended here: its hash differs from the stored one")
	}

	v.leaf(actual, stored)
}

// told processes a record of coordination about the log.
func (v *verifier) told(rec *Record) {
	switch {
	case rec.Event == Bound:
		v.bound = true
	case rec.Event == GapFound && rec.Gap == nil:
		v.report.Gaps++
		v.report.add(v.i, "%s", rec.Text)
	case rec.Event == GapFound:
		v.report.Gaps++ // missing() reports those that have not come
	case rec.Event == Disputed && rec.Gap != nil:
		v.report.add(v.i, "records %d to %d of %s/%s came twice, each time with another content: another process has used the agent's name",
			rec.Gap.From, rec.Gap.To, rec.Gap.Agent, rec.Gap.Incarnation)
	}
}

// missing reports the gaps that no record has filled. A gap that the agent itself has accepted later is no problem. Where
// the network has identities, the person behind it must be proved.
func (v *verifier) missing() {
	type gap struct {
		span
		of stream
	}
	var list []gap
	for key, p := range v.streams {
		for _, g := range p.open {
			list = append(list, gap{g, key})
		}
	}

	slices.SortFunc(list, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.From, b.From), strings.Compare(a.of.String(), b.of.String()))
	})
	signed := v.seals != nil || v.bound
	for _, g := range list {
		if s := v.settled.of(g.of.agent, signed); g.Index < s.index {
			v.report.accept(g.Index, "records %d to %d of %s are missing; accepted on %s by %s: %s", g.From, g.To, g.of,
				s.rec.Time.UTC().Format("2006-01-02 15:04:05Z"), shownPrincipal(s.rec.Principal), s.rec.Reason)
			continue
		}
		text := ""
		if s := v.settled.last[g.of.agent]; g.Index < s.index {
			text = fmt.Sprintf("; record %d, which accepts that, proves no person: %v", s.index, s.err)
		}
		v.report.add(g.Index, "records %d to %d of %s are missing%s", g.From, g.To, g.of, text)
	}
}

// leaf adds the record to both trees and compares the completed nodes with the stored ones.
func (v *verifier) leaf(actual, stored tlog.Hash) {
	v.actual.add(actual)
	first := tlog.StoredHashIndex(0, v.i)
	for level, h := range v.stored.add(stored) {
		if got, ok := v.hash(first + int64(level)); ok && got != h {
			v.report.add(v.i, "the stored hash of %d records that end here does not follow from theirs", int64(1)<<level)
		}
	}
	for _, c := range v.against {
		if c.Size == v.i+1 {
			v.checkpoint(c)
		}
	}
}

func (v *verifier) hash(x int64) (h tlog.Hash, ok bool) {
	if x >= v.nodes.n {
		return h, false
	}
	b, err := v.nodes.get(x)
	if err != nil {
		v.report.add(v.i, "%s: %v", hashesName, err)
		return h, false
	}
	return tlog.Hash(b), true
}

func (v *verifier) checkpoint(c Checkpoint) {
	want, err := parseRoot(c.Root)
	if err != nil {
		v.report.add(-1, "the checkpoint at %d records: %v", c.Size, err)
	} else if root := v.actual.root(); root != hex.EncodeToString(want[:]) {
		v.report.add(c.Size-1, "the first %d records are not those of the checkpoint: the root is %s and was %s", c.Size, root, c.Root)
	}
}

// finish checks for data after the last record, and for checkpoints that were not reached.
func (v *verifier) finish() {
	if v.progress != nil {
		v.progress(v.i, v.total)
	}

	for _, c := range v.against {
		switch {
		case c.Size < 0:
			v.report.add(-1, "a checkpoint has the size %d", c.Size)
		case c.Size > v.actual.size:
			v.report.add(-1, "the checkpoint has %d records; only %d are here", c.Size, v.actual.size)
		case c.Size == 0 && c.Root != new(tree).root():
			v.report.add(-1, "the checkpoint of no records has a root of others")
		}
	}

	if v.i < v.total {
		return // the tail cannot be checked
	}

	v.missing()
	v.seals.finish()
	v.report.Pending = v.bytes - v.at
	switch {
	case v.exact && v.report.Pending != 0:
		v.report.add(-1, "%s goes on for %d bytes behind the last record", recordsName, v.report.Pending)
	case v.report.Pending > maxAppend:
		v.report.add(-1, "%s goes on for %d bytes behind the last hash, more than an unfinished append", recordsName, v.report.Pending)
	case v.report.Pending == 0 && v.nodes.n > tlog.StoredHashCount(v.total):
		v.report.add(-1, "%s goes on behind the last record", hashesName)
	case v.report.Pending == 0 && v.cells.n > v.total:
		v.report.add(-1, "%s goes on behind the last record", indexName)
	}
}
