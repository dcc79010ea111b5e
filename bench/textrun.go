package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ferry/bench/peers"
	"ferry/internal/content/codepage"
	"ferry/internal/transfer"
)

// textScenario measures the cost of text over binary, beside that of FTP.
func textScenario() Scenario {
	return Scenario{Name: "text", Run: runText,
		What: "The cost of text over binary: 1 GiB from EBCDIC to UTF-8 and back, the same page at both ends, two transfers at once, the converter by itself, and FTP's ASCII mode where vsftpd and curl are there."}
}

// textLanes are the lanes of the comparison of text with binary.
var textLanes = []Lane{QueueLane, DirectPlain}

// A textCase is one way to move a text, on each lane.
type textCase struct {
	name     string
	from, to Form // of the files and of their copies
	job      func(j Job) Job
	halves   int // number of transfers at once, each of one half; 0: one file
}

// The names of the cases.
const (
	caseBinary    = "binary"
	caseToUTF8    = "IBM-1047 to UTF-8"
	caseToEBCDIC  = "UTF-8 to IBM-1047"
	caseSame      = "text, UTF-8 at both ends"
	caseSameZ     = "text, IBM-1047 at both ends"
	caseCRLF      = "UTF-8, LF to CR LF"
	caseTwoBinary = "two halves, binary, one transfer"
	caseTwoText   = "two halves, IBM-1047 to UTF-8, one transfer"
	caseTwoAtOnce = "two halves, IBM-1047 to UTF-8, two at once"

	caseTurnBinary = "UTF-8, binary, by turns with text"
	caseTurnText   = "UTF-8, text, by turns with binary"
)

// textCases are Ferry's cases.
var textCases = []textCase{
	{caseBinary, FormEBCDIC, FormEBCDIC, func(j Job) Job { return j }, 0},
	{caseToUTF8, FormEBCDIC, FormUTF8, func(j Job) Job { return j.AsText(pageEBCDIC, pageUTF8) }, 0},
	{caseToEBCDIC, FormUTF8, FormEBCDIC, func(j Job) Job { return j.AsText(pageUTF8, pageEBCDIC) }, 0},
	{caseSame, FormUTF8, FormUTF8, func(j Job) Job { return j.AsText(pageUTF8, pageUTF8) }, 0},
	{caseSameZ, FormEBCDIC, FormEBCDIC, func(j Job) Job { return j.AsText(pageEBCDIC, pageEBCDIC) }, 0},
	{caseCRLF, FormUTF8, FormCRLF, func(j Job) Job { j.Content.EOL = "crlf"; return j.AsText(pageUTF8, pageUTF8) }, 0},
	{caseTwoBinary, FormEBCDIC, FormEBCDIC, func(j Job) Job { return j }, 1},
	{caseTwoText, FormEBCDIC, FormUTF8, func(j Job) Job { return j.AsText(pageEBCDIC, pageUTF8) }, 1},
	{caseTwoAtOnce, FormEBCDIC, FormUTF8, func(j Job) Job { return j.AsText(pageEBCDIC, pageUTF8) }, 2},
}

// turnCases are one file in binary mode, and the same as text without a change. Each is measured turns times in a
// round, one right after the other: their limit is less than the difference of the same transfer from one minute to the
// next.
var turnCases = []textCase{
	{caseTurnBinary, FormUTF8, FormUTF8, func(j Job) Job { return j }, 0},
	{caseTurnText, FormUTF8, FormUTF8, func(j Job) Job { return j.AsText(pageUTF8, pageUTF8) }, 0},
}

// A textRun is a run of the scenario.
type textRun struct {
	env    *Env
	dir    string
	whole  *Texts // one file
	halves *Texts // two files of half the size
	pairs  map[Lane]*Pair
	ftp    *peers.Server
	lacks  string // reason why there is no FTP
	copies int
	series []Series
}

func runText(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("text")
	if err != nil {
		return nil, err
	}
	defer remove()

	t := &textRun{env: e, dir: dir, pairs: map[Lane]*Pair{}}
	defer t.stop()
	size := int64(1 << 30)
	if e.Short {
		size = e.Total / 2
	}
	if err := t.start(ctx, size); err != nil {
		return nil, err
	}

	cases, err := t.cases()
	if err != nil {
		return nil, err
	}

	if t.series, err = e.Interleave(ctx, cases); err != nil {
		return nil, err
	}

	for _, lane := range textLanes {
		s, err := t.byTurns(ctx, lane)
		if err != nil {
			return nil, err
		}
		t.series = append(t.series, s...)
	}
	return t.report(size), nil
}

// byTurns measures turnCases on a lane.
func (t *textRun) byTurns(ctx context.Context, lane Lane) ([]Series, error) {
	var cases []Case
	for _, c := range turnCases {
		cases = append(cases, t.ferry(lane, c))
	}
	return t.env.ByTurns(ctx, cases)
}

// start makes the files, and starts all processes.
func (t *textRun) start(ctx context.Context, size int64) (err error) {
	source := filepath.Join(t.dir, "sets")
	t.env.Say("making texts of %.0f MB", float64(size)/1e6)
	if t.whole, err = MakeTexts(filepath.Join(source, "whole"), 1, size, []Form{FormUTF8, FormEBCDIC}, []Form{FormCRLF}); err != nil {
		return err
	}

	if t.halves, err = MakeTexts(filepath.Join(source, "halves"), 2, size/2, []Form{FormEBCDIC}, []Form{FormUTF8}); err != nil {
		return err
	}

	for _, lane := range textLanes {
		if lane.Lacks() != "" {
			continue
		}
		p, err := t.env.StartPair(ctx, PairConfig{Dir: filepath.Join(t.dir, "network", lane.Lane), SourceRoot: source, Lane: lane})
		if err != nil {
			return err
		}
		t.pairs[lane] = p
	}
	return t.serve(ctx)
}

// serve starts vsftpd if it and curl are installed.
func (t *textRun) serve(ctx context.Context) (err error) {
	for _, program := range []string{"vsftpd", "curl"} {
		if _, err := peers.Find(program); err != nil {
			t.lacks = fmt.Sprintf("not run: the program %s is not installed; `make bench-peers` installs it", program)
			return nil
		}
	}
	if t.ftp, err = peers.Start(ctx, peers.FTPText, t.place()); err != nil {
		return err
	}
	set := t.whole.Set(FormUTF8, FormUTF8)
	return t.ftp.ProveText(ctx, "sets/"+set.Name()+"/"+set.Names[0])
}

// place returns the place of FTP.
func (t *textRun) place() peers.Place {
	return peers.Place{Dir: filepath.Join(t.dir, "peers"), Root: t.dir}
}

func (t *textRun) stop() {
	for _, p := range t.pairs {
		p.Close()
	}
	if t.ftp != nil {
		t.ftp.Close()
	}
}

func (t *textRun) cases() (all []Case, err error) {
	for _, lane := range textLanes {
		for _, c := range textCases {
			all = append(all, t.ferry(lane, c))
		}
	}
	for _, c := range peers.TextClients() {
		all = append(all, t.peer(c))
	}
	converters, err := t.converters()
	return append(all, converters...), err
}

// onLane returns the name of a case on a lane.
func onLane(name string, l Lane) string { return name + ", " + l.Name }

// ferry returns the case of Ferry on a lane.
func (t *textRun) ferry(lane Lane, c textCase) Case {
	texts := t.whole
	if c.halves > 0 {
		texts = t.halves
	}

	p, set := t.pairs[lane], texts.Set(c.from, c.to)
	j := c.job(Job{Lane: lane.Lane, Durability: transfer.DurabilityProcess})
	if p == nil {
		return Case{Name: onLane(c.name, lane), Lacks: lane.Lacks()}
	}

	one := p.Case(onLane(c.name, lane), set, j, false)
	if c.halves > 1 {
		one.Run = func(ctx context.Context) (Sample, error) { return p.MoveSpread(ctx, set, j, c.halves) }
	}
	return one
}

// peer returns a case of FTP's ASCII mode, with the file in UTF-8.
func (t *textRun) peer(c peers.Client) Case {
	return Case{Name: c.Name, Lacks: t.lacks, Run: func(ctx context.Context) (Sample, error) {
		t.copies++
		set := t.whole.Set(FormUTF8, FormUTF8)
		to := fmt.Sprintf("copies/%d", t.copies)
		s, err := measurePeer(ctx, c, t.place(), t.ftp, peers.Work{Set: "sets/" + set.Name(), To: to, Files: set.Names},
			func() error { return nil })
		if err != nil {
			return s, err
		}
		s.Bytes, s.Files = set.Bytes(), int64(len(set.Names))
		if err := set.Verify(filepath.Join(t.dir, to, set.Name())); err != nil {
			return s, err
		}
		return s, os.RemoveAll(filepath.Join(t.dir, to))
	}}
}

// converterPages are the cases of the converter alone, on one processor, without files.
var converterPages = []pages{toUTF8, toEBCDIC, {pageEBCDIC, "IBM-037"}}

// converterCase returns the name of a case of the converter.
func converterCase(p pages) string { return "converter: " + p.from + " to " + p.to }

// The input of the converter: this many bytes of the text, repeatedly, in blocks like chunks.
const (
	converterText  = 16 << 20
	converterBlock = 256 << 10
	converterTimes = 32
)

func (t *textRun) converters() (all []Case, err error) {
	input := map[string][]byte{}
	for page, form := range map[string]Form{pageUTF8: FormUTF8, pageEBCDIC: FormEBCDIC} {
		set := t.whole.Set(form, form)
		data, err := head(filepath.Join(set.Dir, set.Names[0]), converterText)
		if err != nil {
			return nil, err
		}
		p, err := codepage.Lookup(page)
		if err != nil {
			return nil, err
		}
		input[page] = data[:bytes.LastIndex(data, p.Newline())+1] // whole lines, because they are repeated
	}

	times := converterTimes
	if t.env.Short {
		times = 1
	}

	for _, p := range converterPages {
		all = append(all, Case{Name: converterCase(p), Run: func(context.Context) (Sample, error) {
			return convert(p, input[p.from], times)
		}})
	}
	return all, nil
}

// head returns the beginning of a file, up to n bytes.
func head(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the text %s cannot be read: %w", path, err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the text %s cannot be read: %w", path, err)
	}

	data := make([]byte, min(n, info.Size()))
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the text %s cannot be read: %w", path, err)
	}
	return data, nil
}

// convert measures the conversion of a text, times times in one goroutine.
func convert(p pages, text []byte, times int) (Sample, error) {
	var o codepage.Options
	var err, err2 error
	o.From, err = codepage.Lookup(p.from)
	o.To, err2 = codepage.Lookup(p.to)
	if err := errors.Join(err, err2); err != nil {
		return Sample{}, err
	}

	c, err := codepage.New(o)
	if err != nil {
		return Sample{}, err
	}

	dst := make([]byte, 0, 2*converterBlock)
	start := time.Now()
	for range times {
		for at := 0; at < len(text); at += converterBlock {
			if dst, err = c.Convert(dst[:0], text[at:min(at+converterBlock, len(text))]); err != nil {
				return Sample{}, err
			}
		}
	}
	return Sample{Wall: time.Since(start), Bytes: int64(times) * int64(len(text))}, nil
}
