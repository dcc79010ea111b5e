package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"ferry/internal/transfer"
)

// recordScenario measures record files, as the z/OS report's charts 1 to 9 do.
func recordScenario() Scenario {
	return Scenario{Name: "record", Run: runRecord,
		What: "Charts 1 to 9 of IBM's z/OS report: 1 GB in files of 1 MB to 1 GB, text and binary, to record files, from them and between them, and between plain files; cost by side."}
}

// A route is the kind of the source files and of the copies: plain files in UTF-8, or record files in EBCDIC.
type route struct {
	name             string
	charts           string // charts of the z/OS report about the same
	from             Form
	binary, text     Form // of the copies
	source, dest     transfer.Records
	fromPage, toPage string // text mode
}

// routes are all measured routes.
var routes = []route{
	{"plain to plain", "", FormUTF8, FormUTF8, FormEBCDIC, transfer.Records{}, transfer.Records{}, pageUTF8, pageEBCDIC},
	{"plain to FB 80", "1, 2", FormUTF8, FormUTF8, FormFixed, transfer.Records{}, recordsFixed, pageUTF8, pageEBCDIC},
	{"plain to VB 84", "1, 2", FormUTF8, FormCut, FormVariable, transfer.Records{}, recordsVariable, pageUTF8, pageEBCDIC},
	{"FB 80 to plain", "4, 5", FormFixed, FormFixed, FormUTF8, recordsFixed, transfer.Records{}, pageEBCDIC, pageUTF8},
	{"VB 84 to plain", "4, 5", FormVariable, FormData, FormUTF8, recordsVariable, transfer.Records{}, pageEBCDIC, pageUTF8},
	{"FB 80 to FB 80", "6 to 9", FormFixed, FormFixed, FormFixed, recordsFixed, recordsFixed, pageEBCDIC, pageEBCDIC},
}

// job returns the request of a route, and the form of the copies.
func (r route) job(text bool, lane Lane) (Job, Form) {
	j := Job{Lane: lane.Lane, Durability: transfer.DurabilityProcess}
	j.Content.FromRecords, j.Content.ToRecords = r.source, r.dest
	if text {
		return j.AsText(r.fromPage, r.toPage), r.text
	}
	return j, r.binary
}

// A recordTrial is one case: a route, size and mode on a lane.
type recordTrial struct {
	route  route
	size   int // of each file in MB
	text   bool
	lane   Lane
	series Series
}

func (t *recordTrial) name() string {
	return fmt.Sprintf("%s, %d MB files, %s, %s", t.route.name, t.size, dataText(t.text), t.lane.Name)
}

// A recordRun is a run of the scenario.
type recordRun struct {
	env    *Env
	dir    string
	unit   int64 // bytes of 1 MB
	total  int   // MB of one measurement
	sizes  []int // of files in MB
	pair   *Pair
	trials []*recordTrial
}

func runRecord(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("record")
	if err != nil {
		return nil, err
	}
	defer remove()

	r := &recordRun{env: e, dir: dir, unit: 1 << 20, total: 1000, sizes: []int{1, 10, 100, 1000}}
	if e.Short {
		r.unit, r.total, r.sizes = max(8<<10, e.Total/100), 20, []int{1, 20}
	}

	sets := filepath.Join(dir, "sets")
	if err := os.Mkdir(sets, 0o755); err != nil {
		return nil, unwritable(sets, err)
	}

	if r.pair, err = e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, "network"), SourceRoot: sets, Lane: DirectPlain}); err != nil {
		return nil, err
	}
	defer r.pair.Close()

	// One size after the other: the files of all sizes would not fit in memory.
	for _, size := range r.sizes {
		if err := r.run(ctx, size); err != nil {
			return nil, err
		}
	}
	return r.report(), nil
}

// run makes the files of one size, measures every case with them, and removes them.
func (r *recordRun) run(ctx context.Context, size int) error {
	r.env.Say("making %d files of %d MB in three forms", r.total/size, size)
	texts, err := MakeTexts(filepath.Join(r.dir, "sets", fmt.Sprintf("files%d", size)), r.total/size, int64(size)*r.unit,
		[]Form{FormUTF8, FormFixed, FormVariable}, []Form{FormEBCDIC, FormData, FormCut})
	if err != nil {
		return err
	}

	var trials []*recordTrial
	var cases []Case
	for _, route := range routes {
		for _, text := range []bool{false, true} {
			for _, lane := range textLanes {
				t := &recordTrial{route: route, size: size, text: text, lane: lane}
				j, becomes := route.job(text, lane)
				trials, cases = append(trials, t), append(cases, r.pair.Case(t.name(), texts.Set(route.from, becomes), j, false))
			}
		}
	}

	series, err := r.env.Interleave(ctx, cases)
	if err != nil {
		return err
	}

	for i, t := range trials {
		t.series = series[i]
	}

	r.trials = append(r.trials, trials...)
	return texts.Remove()
}
