package campaign

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The table stands in the document between these two lines.
const (
	tableBegin = "<!-- campaigns: written by make test-faults -->"
	tableEnd   = "<!-- end of campaigns -->"
)

// A Standing is the sum of a campaign's results for the present code.
type Standing struct {
	Last     Result
	Count    int     // cases on the code as it is
	Findings int     // on the code as it is
	Ever     int     // cases on any code
	Found    int     // on any code
	Whole    *Result // the last run of the last code that reached the whole count without a finding; nil: none
}

// Standings reads all results beneath the module's root and compares them with the present code.
func Standings(root string) ([]Standing, error) {
	names, err := filepath.Glob(filepath.Join(root, resultsDir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []Standing
	for _, name := range names {
		rs, err := results(name)
		if err != nil {
			return nil, err
		}
		if len(rs) == 0 {
			continue
		}
		s := Standing{Last: rs[len(rs)-1]}
		code, err := Code(root, s.Last.Packages)
		if errors.Is(err, fs.ErrNotExist) {
			code, err = "", nil // a package has moved since: no run was on the code as it is
		}
		if err != nil {
			return nil, err
		}
		s.Whole = whole(rs)
		for _, r := range rs {
			s.Ever += r.Count
			s.Found += r.Findings
			if r.Code == code {
				s.Count += r.Count
				s.Findings += r.Findings
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// whole returns the last run of the last code on which a campaign reached its count and found nothing.
func whole(rs []Result) (last *Result) {
	count, found := map[string]int{}, map[string]int{}
	for n := range rs {
		r := &rs[n]
		count[r.Code] += r.Count
		found[r.Code] += r.Findings
		if count[r.Code] >= r.Full && found[r.Code] == 0 {
			last = r
		}
	}
	for last != nil && found[last.Code] > 0 { // found after the count was full
		code := last.Code
		last = whole(slices.DeleteFunc(slices.Clone(rs), func(r Result) bool { return r.Code == code }))
	}
	return last
}

// Reached reports whether the count stands for the code as it is.
func (s Standing) Reached() bool { return s.Count >= s.Last.Full && s.Findings == 0 }

// Table is the table of all campaigns in the words of the document.
func Table(all []Standing) string {
	var b strings.Builder
	b.WriteString("| campaign | what is done | tried on this code | to be tried | found on this code | tried ever | found ever | reached with nothing found |\n|---|---|---:|---:|---:|---:|---:|---|\n")
	for _, s := range all {
		reached := "not yet"
		if w := s.Whole; w != nil {
			reached = w.When.Format("2006-01-02") + ", " + w.Commit
		}
		fmt.Fprintf(&b, "| %s | %s | %d %s | %d | %d | %d | %d | %s |\n", s.Last.Campaign, s.Last.What, s.Count, s.Last.Unit,
			s.Last.Full, s.Findings, s.Ever, s.Found, reached)
	}
	return b.String()
}

// WriteTable brings the document up to date. A document that is not there, or
// has no place for the table, is an error.
func WriteTable(root string) error {
	all, err := Standings(root)
	if err != nil {
		return err
	}
	name := filepath.Join(root, document)
	old, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there", document)
	}
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(tableBegin))
	_, tail, ok2 := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", document, tableBegin, tableEnd)
	}
	text := fmt.Sprintf("%s%s\n\n%s\n%s%s", head, tableBegin, Table(all), tableEnd, tail)
	if text == string(old) {
		return nil
	}
	tmp := name + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}
