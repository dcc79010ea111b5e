package ant

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A Script is a checked script.
type Script struct {
	File    string // as given
	Name    string // of the project
	Default string // target; empty: none
	basedir string // as written
	before  []*element
	targets map[string]*target
	order   []string // names of the targets, as in the script
}

// A target is a target of a script.
type target struct {
	name    string
	line    int
	depends []string
	needs   string // its attribute if
	avoids  string // its attribute unless
	tasks   []*element
}

// Parse parses a script and checks all of it. Errors are of KindUsage and KindTooLarge; they name the file and the line.
func Parse(file string, data []byte) (*Script, error) {
	root, err := elements(file, data)
	if err != nil {
		return nil, err
	}
	p := &parser{file: file}
	if root.name != "project" {
		return nil, p.bad(root.line, "the script begins with <%.60s>; a script of Ant is a <project>", root.name)
	}
	if err := p.check(root, parts["project"]); err != nil {
		return nil, err
	}
	s := &Script{File: file, Name: root.attrs["name"], Default: root.attrs["default"], basedir: root.attrs["basedir"], targets: map[string]*target{}}
	for _, e := range root.subs {
		switch e.name {
		case "target":
			t := &target{name: e.attrs["name"], line: e.line, needs: e.attrs["if"], avoids: e.attrs["unless"], tasks: e.subs}
			for name := range strings.SplitSeq(e.attrs["depends"], ",") {
				if name = strings.TrimSpace(name); name != "" {
					t.depends = append(t.depends, name)
				}
			}
			if before, twice := s.targets[t.name]; twice {
				return nil, p.bad(e.line, "the target %.60q stands at line %d already", t.name, before.line)
			}
			s.targets[t.name], s.order = t, append(s.order, t.name)
		case "description":
		default:
			s.before = append(s.before, e)
		}
	}
	if _, is := s.targets[s.Default]; s.Default != "" && !is {
		return nil, p.bad(root.line, "the default target %.60q is not in the script; it has %s", s.Default, s.names())
	}
	for _, name := range s.order {
		for _, d := range s.targets[name].depends {
			if _, is := s.targets[d]; !is {
				return nil, p.bad(s.targets[name].line, "the target %.60q depends on %.60q, which is not in the script; it has %s", name, d, s.names())
			}
		}
	}
	if _, err := s.steps(s.order...); err != nil {
		return nil, err
	}
	return s, nil
}

// names lists the targets for users.
func (s *Script) names() string {
	if len(s.order) == 0 {
		return "none"
	}
	return strings.Join(s.order[:min(len(s.order), 20)], ", ")
}

// Targets returns the targets to run: those that are named, or the default. An error is of KindUsage.
func (s *Script) Targets(named []string) ([]string, error) {
	for _, name := range named {
		if _, is := s.targets[name]; !is {
			return nil, at(s.File, 1, "the target %.60q is not in the script; it has %s", name, s.names())
		}
	}
	if len(named) == 0 && s.Default != "" {
		named = []string{s.Default}
	}
	return named, nil
}

// steps returns the targets that run for some of them: each behind those that it depends on, and once.
func (s *Script) steps(names ...string) (all []*target, err error) {
	const begun, done = 1, 2
	state := map[string]int{}
	var visit func(name string) error
	visit = func(name string) error {
		t := s.targets[name]
		switch state[name] {
		case done:
			return nil
		case begun:
			return at(s.File, t.line, "the target %.60q depends on itself", name)
		}
		state[name] = begun
		for _, d := range t.depends {
			if err := visit(d); err != nil {
				return err
			}
		}
		state[name] = done
		all = append(all, t)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dir returns the directory that a script's relative paths begin at, without its properties.
func (s *Script) dir() string {
	dir := filepath.Dir(s.File)
	if s.basedir == "" {
		return dir
	}
	return under(dir, s.basedir)
}

// under returns a path that begins at a directory unless it is absolute.
func under(dir, path string) string {
	if path = filepath.FromSlash(path); filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// sorted returns the keys of a map in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// checkForm refuses an element if its attributes or parts do not belong together.
func checkForm(e *element) error {
	switch e.name {
	case "property":
		return formOfProperty(e)
	case "echo":
		if e.has("append") && !e.has("file") {
			return errors.New("append of <echo> belongs to file")
		}
	case "fail":
		if len(e.subs) > 1 || len(e.subs) == 1 && (e.has("if") || e.has("unless")) {
			return errors.New("<fail> takes one <condition>, and no if or unless beside it")
		}
		if len(e.subs) == 1 && len(e.subs[0].subs) != 1 {
			return fmt.Errorf("the <condition> of <fail> takes one condition; it has %d", len(e.subs[0].subs))
		}
	case "condition":
		if e.has("property") && len(e.subs) != 1 {
			return fmt.Errorf("<condition> takes one condition; it has %d", len(e.subs))
		}
	case "not":
		if len(e.subs) != 1 {
			return fmt.Errorf("<not> takes one condition; it has %d", len(e.subs))
		}
	case "and", "or", "xor":
		if len(e.subs) == 0 {
			return fmt.Errorf("<%s> has no condition", e.name)
		}
	case "fte:filecopy", "fte:filemove", "fte:call":
		return formOfRequest(e)
	case "fte:filespec":
		return formOfSpec(e)
	case "fte:metadata":
		return formOfMetadata(e)
	}
	return nil
}

// formOfProperty refuses a <property> that does not define in exactly one way.
func formOfProperty(e *element) error {
	if e.has("name") {
		ways := 0
		for _, attr := range []string{"value", "location"} {
			if e.has(attr) {
				ways++
			}
		}
		if e.text != "" {
			ways++
		}
		if ways != 1 || e.has("file") || e.has("environment") || e.has("prefix") {
			return errors.New("<property> with a name takes either value, location or a text, and nothing else")
		}
		return nil
	}
	if e.has("file") == e.has("environment") || e.has("value") || e.has("location") || e.text != "" {
		return errors.New("<property> takes either name, file or environment")
	}
	if e.has("environment") && e.has("prefix") {
		return errors.New("prefix of <property> belongs to file")
	}
	return nil
}

// formOfRequest refuses a transfer or a call if its parts are missing or stand twice.
func formOfRequest(e *element) error {
	count := map[string]int{}
	for _, s := range e.subs {
		if count[s.name]++; count[s.name] > 1 && s.name != "fte:filespec" {
			return fmt.Errorf("<%s> stands twice in <%s>", s.name, e.name)
		}
		if s.name == "fte:filespec" && e.name == "fte:filecopy" && s.has("srcqueue") {
			return errors.New("srcqueue of <fte:filespec> takes messages away from a queue; use <fte:filemove>")
		}
	}
	for _, needed := range []string{"fte:filespec", "fte:command"} {
		if is := needed == "fte:command"; is == (e.name == "fte:call") && count[needed] == 0 {
			return fmt.Errorf("<%s> has no <%s>", e.name, needed)
		}
	}
	if strings.EqualFold(e.attrs["outcome"], "defer") && !e.has("idproperty") {
		return fmt.Errorf(`outcome="defer" of <%s> needs idproperty, for <fte:awaitoutcome>`, e.name)
	}
	return nil
}

// formOfSpec refuses a <fte:filespec> without exactly one source and one destination, and options of other kinds.
func formOfSpec(e *element) error {
	for _, one := range [][]string{{"srcfilespec", "srcqueue"}, {"dstfile", "dstdir", "dstds", "dstpds", "dstqueue"}} {
		var given []string
		for _, attr := range one {
			if e.has(attr) {
				given = append(given, attr)
			}
		}
		if len(given) != 1 {
			return fmt.Errorf("<fte:filespec> takes one of %s; it has %d %s", strings.Join(one, ", "), len(given), strings.Join(given, " "))
		}
	}
	for _, group := range []struct{ prefix, needs string }{{"srcmsg", "srcqueue"}, {"srcqueuetimeout", "srcqueue"}, {"dstmsg", "dstqueue"}} {
		for _, attr := range sorted(e.attrs) {
			if strings.HasPrefix(attr, group.prefix) && !e.has(group.needs) {
				return fmt.Errorf("%s of <fte:filespec> belongs to %s", attr, group.needs)
			}
		}
	}
	for _, both := range [][]string{{"srcmsgdelimbytes", "srcmsgdelimtext"}, {"dstmsgdelimbytes", "dstmsgdelimpattern", "dstmsgsize"}} {
		n := 0
		for _, attr := range both {
			if e.has(attr) {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("<fte:filespec> takes one of %s", strings.Join(both, ", "))
		}
		position := both[0][:len("srcmsgdelim")] + "position"
		if n == 0 && e.has(position) {
			return fmt.Errorf("%s of <fte:filespec> says where a delimiter is, and there is none", position)
		}
	}
	if !strings.Contains(e.attrs["conversion"], "$") && !strings.EqualFold(e.attrs["conversion"], "text") {
		for _, attr := range []string{"srcencoding", "dstencoding", "srceol", "dsteol"} {
			if e.has(attr) {
				return fmt.Errorf(`%s of <fte:filespec> needs conversion="text"`, attr)
			}
		}
	}
	return nil
}

// formOfMetadata refuses metadata without entries, and a name that stands twice.
func formOfMetadata(e *element) error {
	seen := map[string]bool{}
	for _, s := range e.subs {
		name := s.attrs["name"]
		if seen[name] {
			return fmt.Errorf("the <fte:entry> %.60q stands twice in <fte:metadata>", name)
		}
		seen[name] = true
	}
	if len(seen) == 0 {
		return errors.New("<fte:metadata> has no <fte:entry>")
	}
	return nil
}
