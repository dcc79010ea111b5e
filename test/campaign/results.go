package campaign

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Result is one line of a campaign's results file, of one run.
type Result struct {
	Campaign string    `json:"campaign"`
	What     string    `json:"what"`
	Unit     string    `json:"unit"`
	Full     int       `json:"full"`
	Packages []string  `json:"packages,omitempty"`
	Code     string    `json:"code"` // digest of the sources of Packages
	Commit   string    `json:"commit"`
	Seed     uint64    `json:"seed"`
	Count    int       `json:"count"`
	Findings int       `json:"findings"`
	Seconds  float64   `json:"seconds"`
	When     time.Time `json:"when"`
}

const (
	resultsDir = "test/faults/results"
	document   = "docs/reliability.md"
)

// record appends a run to its campaign's results and brings the table in the
// document up to date.
func record(c *C, took time.Duration, failed bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	rev, clean := commit(root)
	if !clean {
		fmt.Printf("campaign %s: not recorded, for there are sources that are not committed\n", c.spec.Name)
		return nil
	}
	code, err := Code(root, c.spec.Packages)
	if err != nil {
		return err
	}
	r := Result{Campaign: c.spec.Name, What: c.spec.What, Unit: c.spec.Unit, Full: c.spec.Full, Packages: c.spec.Packages,
		Code: code, Commit: rev, Seed: c.Seed, Count: c.done, Seconds: took.Round(time.Millisecond).Seconds(), When: time.Now().UTC().Truncate(time.Second)}
	if failed {
		r.Findings = 1
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := filepath.Join(root, resultsDir, c.spec.Name+".jsonl")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return WriteTable(root)
}

// results reads a campaign's results, oldest first.
func results(name string) ([]Result, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Result
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		var r Result
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Code is a digest of the sources, tests apart, of packages; of all of the
// product where there are none.
func Code(root string, packages []string) (string, error) {
	if len(packages) == 0 {
		packages = []string{"internal", "cmd"}
	}
	var files []string
	for _, p := range packages {
		err := filepath.WalkDir(filepath.Join(root, p), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "faulty" || d.Name() == "bench" || d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test")) {
				return filepath.SkipDir
			}
			if !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	slices.Sort(files)
	h := sha256.New()
	for _, name := range slices.Compact(files) {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		rel, _ := filepath.Rel(root, name)
		fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(rel), len(data))
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// commit names the commit that is checked out, and reports whether the sources are its own: a case on other sources
// could never be repeated.
func commit(root string) (rev string, clean bool) {
	git := func(args ...string) string {
		c := exec.Command("git", args...)
		c.Dir = root
		out, err := c.Output()
		if err != nil {
			return "?"
		}
		return strings.TrimSpace(string(out))
	}
	rev = git("rev-parse", "--short", "HEAD")
	return rev, rev != "?" && git("status", "--porcelain", "--", "cmd", "internal", "test", ":!"+resultsDir) == ""
}

// moduleRoot is the directory above the working directory that has go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if up := filepath.Dir(dir); up != dir {
			dir = up
			continue
		}
		return "", errors.New("no go.mod above the working directory")
	}
}
