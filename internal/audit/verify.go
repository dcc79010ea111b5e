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

	"ferry/internal/identity"
	"ferry/internal/transfer"
)

// A Report is what Verify has found. The log is sound if Found is 0: nothing in
// it was changed, no record is missing, and none is there twice.
type Report struct {
	Records   int64                `json:"records"`             // read
	Root      string               `json:"root"`                // of the records as they are
	Gaps      int64                `json:"gaps"`                // gap records: losses that are on record
	Late      int64                `json:"late,omitempty"`      // records that came although they were on record as lost
	Signed    int64                `json:"signed,omitempty"`    // records whose agents' signatures were checked
	Unsigned  int64                `json:"unsigned,omitempty"`  // records of agents that never had one, where signatures were to be checked
	Witnesses int64                `json:"witnesses,omitempty"` // agents whose checkpoints the log was held against
	Silent    []transfer.AgentName `json:"silent,omitempty"`    // agents that could not be asked
	Pending   int64                `json:"pending,omitempty"`   // bytes of an append that was not finished when the log was opened
	Found     int64                `json:"found"`               // problems
	Problems  []Problem            `json:"problems,omitempty"`  // the first hundred
}

// A Problem is something that an append and a crash of the process cannot have
// left, or records that are missing or came twice. A power cut can tear the hashes of the last append: until the log is
// opened for writing again, which mends them, they are problems too.
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

// Verify reads every record again and holds it against everything that is
// remembered of it: its checksum, the index, its leaf and all nodes of the tree
// as they are stored, the numbering of its agent, the state that the log saved
// of itself or has in memory, and the checkpoints in against, which others have
// kept. progress, if not nil, is called now and then.
//
// Any change of any file by someone who does not change the others to match is
// found: a record that was edited, deleted, inserted, swapped or cut off, and a
// changed hash. What cannot be found without a witness, that is without a
// checkpoint kept where the log's files cannot be written: the work of someone
// who may write all files, and writes records, index, hashes and state anew as
// if the log had always been so, or puts back a whole older copy of the
// directory. With a checkpoint both are found, except for records after the
// last checkpoint. That is why checkpoints are sent to the agents. Nor can it be
// found that such a one adds records at the end that no agent has sent; before
// the next start they are seen as Pending.
//
// The signatures of agents are checked by VerifySigned only.
func (l *Log) Verify(ctx context.Context, progress func(done, total int64), against ...Checkpoint) (Report, error) {
	return (&verifier{Log: l, against: against, streams: streams{}, progress: progress}).run(ctx)
}

// VerifySigned is Verify, and holds the seals of agents and whose they are against a network's
// certificates: who may write all files cannot write records in an agent's name.
func (l *Log) VerifySigned(ctx context.Context, roots *identity.Roots, against ...Checkpoint) (Report, error) {
	return (&verifier{Log: l, against: against, streams: streams{}, seals: newSeals(roots)}).run(ctx)
}

func (v *verifier) run(ctx context.Context) (Report, error) {
	if err := v.begin(); err != nil {
		return Report{}, logError(v.dir, err)
	}
	if err := v.walk(ctx); err != nil {
		return v.report, err
	}
	v.finish()
	v.report.Records = v.read
	v.report.Root = v.actual.root()
	return v.report, nil
}

// A verifier goes through a log from its first record.
type verifier struct {
	*Log
	against  []Checkpoint
	progress func(done, total int64)
	report   Report
	total    int64  // records that there should be
	bytes    int64  // of records that may be read
	nodes    window // over the stored hashes
	cells    window // over the index

	i       int64 // the next record
	at      int64 // where it should begin
	exact   bool  // nothing may be behind the last record
	read    int64 // records that were good frames
	actual  tree  // over the records as they are
	stored  tree  // over the leaves as they are stored: tells which nodes are wrong
	streams streams
	seals   *seals // nil: signatures are not checked
}

func (v *verifier) begin() (err error) {
	v.at = headerSize
	var t tip
	f := v.openedAs
	if v.lock != nil {
		v.writing.Lock() // for the moment in which the files are the log, exactly
		f, err = v.look()
		t, v.exact = v.tip, v.failed == nil
		v.writing.Unlock()
		if err == nil {
			err = v.checkNames()
		}
		if err != nil {
			return err
		}
	}

	v.nodes, v.cells = window{t: v.hashes, n: f.nodes}, window{t: v.index, n: f.indexed}
	v.total, v.bytes = f.hashed, f.bytes
	if f.stateErr != nil {
		v.report.add(-1, "%v", f.stateErr)
	}

	if v.lock != nil { // appends go on; what they add is not looked at
		v.total = t.tree.size
		v.remember(Checkpoint{t.tree.size, t.tree.root()})
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
	return nil
}

// checkNames finds files that were moved away or replaced under a writer.
func (v *verifier) checkNames() error {
	names, err := v.moved()
	for _, name := range names {
		v.report.add(-1, "%s in %s is not the file that this process writes: it was removed or replaced", name, v.dir)
	}
	return err
}

// remember adds what the log knows of itself to what others know of it.
func (v *verifier) remember(c Checkpoint) {
	v.against = append([]Checkpoint{c}, v.against...)
}

func (v *verifier) walk(ctx context.Context) error {
	w := newWalker(v.records, v.at, v.bytes)
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

// resume reports a place that holds no record, and goes on with the next one
// that the index knows. The tree goes on with the leaf that is stored, so that
// one bad record is one problem.
func (v *verifier) resume(err error) *walker {
	if err == io.EOF {
		v.report.add(v.i, "records %d to %d are missing: %s ends before them", v.i, v.total-1, recordsName)
		return nil
	}

	v.report.add(v.i, "%s: %v", recordsName, err)
	c, cerr := v.index.cell(v.i + 1)
	leaf, ok := v.hash(tlog.StoredHashIndex(0, v.i))
	if v.i+1 >= v.cells.n || cerr != nil || !ok || c.at <= v.at || c.at >= v.bytes {
		if v.i+1 < v.total {
			v.report.add(v.i, "records %d to %d cannot be reached behind it", v.i+1, v.total-1)
		}
		return nil
	}

	v.leaf(leaf, leaf)
	return newWalker(v.records, c.at, v.bytes)
}

// record checks a record whose frame is good.
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
	if err == nil && rec.Agent == Coordination {
		v.told(&rec)
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
		v.sealed(&rec, actual)
	}
	stored, ok := v.hash(tlog.StoredHashIndex(0, v.i))
	if !ok {
		stored = actual // one problem for all that are missing is enough
	} else if stored != actual {
		v.report.add(v.i, "it is not the record that was appended here: its hash differs from the stored one")
	}

	v.leaf(actual, stored)
}

// told takes what coordination has put on record about the log.
func (v *verifier) told(rec *Record) {
	switch {
	case rec.Event == GapFound && rec.Gap == nil:
		v.report.Gaps++
		v.report.add(v.i, "%s", rec.Text)
	case rec.Event == GapFound:
		v.report.Gaps++ // missing() says which of them have not come
	case rec.Event == Disputed && rec.Gap != nil:
		v.report.add(v.i, "records %d to %d of %s/%s came twice, each time with another content: somebody else has used the agent's name",
			rec.Gap.From, rec.Gap.To, rec.Gap.Agent, rec.Gap.Incarnation)
	}
}

// missing reports the gaps that nothing has filled.
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
	for _, g := range list {
		v.report.add(g.Index, "records %d to %d of %s are missing", g.From, g.To, g.of)
	}
}

// leaf adds the record to both trees and compares what completes with it.
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

// finish looks at what is left over, and at checkpoints that were not reached.
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
		return // the tail cannot be judged
	}

	v.missing()
	v.loose()
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
