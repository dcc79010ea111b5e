// Package overlay reads the planted bugs of the project. Each is a patch in test/mutants/patches, which leaves out one
// step that a promise needs. The go command builds a program with the bug by its flag -overlay; the sources stay as
// they are.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A change replaces lines of one file. It stands for one hunk of a unified diff: https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html.
type change struct {
	file     string // relative to the root of the project, with slashes
	old, new string
}

// readPatch reads a unified diff. The line numbers of its hunks are not used: the lines of a hunk occur in the file
// exactly once.
func readPatch(name, text string) (all []change, err error) {
	file := ""
	for n, line := range strings.SplitAfter(text, "\n") {
		last := len(all) - 1
		switch {
		case line == "":
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "@@ ") && file != "":
			all = append(all, change{file: file})
		case last >= 0 && (line[0] == ' ' || line == "\n"):
			all[last].old += strings.TrimPrefix(line, " ")
			all[last].new += strings.TrimPrefix(line, " ")
		case last >= 0 && line[0] == '-':
			all[last].old += line[1:]
		case last >= 0 && line[0] == '+':
			all[last].new += line[1:]
		default:
			return nil, fmt.Errorf("%s:%d: %q is no line of a unified diff", name, n+1, line)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no hunk", name)
	}
	return all, nil
}

// apply returns the patched files by their paths. It takes the text of a file from read.
func apply(name string, changes []change, read func(file string) (string, error)) (map[string]string, error) {
	patched := map[string]string{}
	for _, c := range changes {
		text, ok := patched[c.file]
		if !ok {
			var err error
			if text, err = read(c.file); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		if n := strings.Count(text, c.old); n != 1 {
			return nil, fmt.Errorf("%s: a hunk's lines occur %d times in %s, want once; follow the change of the file:\n%s", name, n, c.file, c.old)
		}
		patched[c.file] = strings.Replace(text, c.old, c.new, 1)
	}
	return patched, nil
}

// Patched returns the files of the project with a planted bug, by their paths.
func Patched(root, bug string) (map[string]string, error) {
	name := filepath.Join("test", "mutants", "patches", bug+".patch")
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	changes, err := readPatch(name, string(text))
	if err != nil {
		return nil, err
	}
	return apply(name, changes, func(file string) (string, error) {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		return string(data), err
	})
}

// Write writes the patched files and the list of them that go build -overlay reads, and returns the path of the
// list. Both are beneath dir.
func Write(dir, root, bug string) (string, error) {
	patched, err := Patched(root, bug)
	if err != nil {
		return "", err
	}
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for file, text := range patched {
		written := filepath.Join(dir, bug, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(written), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(written, []byte(text), 0o644); err != nil {
			return "", err
		}
		list.Replace[filepath.Join(root, filepath.FromSlash(file))] = written
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, bug+".json")
	return path, os.WriteFile(path, data, 0o644)
}

// Bugs returns the names of the patches.
func Bugs(root string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(root, "test", "mutants", "patches", "*.patch"))
	for i, name := range names {
		names[i] = strings.TrimSuffix(filepath.Base(name), ".patch")
	}
	slices.Sort(names)
	return names, err
}
