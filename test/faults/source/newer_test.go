//go:build linux

package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"ferry/test/judge"
)

// A newcomer creates a newer file under the name of a source during its deletion, as a program does that does not know
// Ferry.
type newcomer struct {
	name string
	do   func(path, content string) error
}

// atomic newcomers act in one step.
var atomic = []newcomer{
	{"renamed over it", func(path, content string) error {
		tmp := filepath.Join(filepath.Dir(filepath.Dir(path)), "new-"+filepath.Base(filepath.Dir(path))+filepath.Base(path))
		if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
			return err
		}
		return os.Rename(tmp, path)
	}},
}

// stepwise newcomers act while Ferry is stopped.
var stepwise = append([]newcomer{
	{"removed and made anew", func(path, content string) error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.WriteFile(path, []byte(content), 0o644)
	}},
	{"written over", func(path, content string) error { return os.WriteFile(path, []byte(content), 0o644) }},
	{"appended to", func(path, content string) error {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(content)
		return errors.Join(err, f.Close())
	}},
	{"moved away and made anew", func(path, content string) error {
		if err := os.Rename(path, filepath.Join(filepath.Dir(filepath.Dir(path)), "away-"+filepath.Base(path)+content[:8])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.WriteFile(path, []byte(content), 0o644)
	}},
}, atomic...)

// come creates a newer file at a path, and returns its sum.
func come(r *rand.Rand, path string, ways []newcomer) (how string, now judge.Sum, err error) {
	way := ways[r.IntN(len(ways))]
	if err := way.do(path, fmt.Sprintf("%016x newer", r.Uint64())); err != nil {
		return way.name, now, err
	}
	now, err = sumOf(path)
	return way.name, now, err
}
