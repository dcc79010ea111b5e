package xml

import "ferry/internal/mft/xml/tree"

// maxSandboxes is the largest number of sandboxes in a file, and of patterns in all of them.
const maxSandboxes = 4000

// A Sandbox is a sandbox of a UserSandboxes.xml: the paths that its users may read and write. Only the first sandbox of
// a file that matches a user applies.
type Sandbox struct {
	Line  int
	User  string // a pattern for the names of users
	Regex bool   // it is a regular expression; otherwise a pattern with * and ?
	Read  Area
	Write Area
}

// An Area is the paths that match a pattern of Include and none of Exclude.
type Area struct {
	Include, Exclude []AreaPattern
}

// An AreaPattern is a pattern for paths or for queues.
type AreaPattern struct {
	Line int
	Name string
	Type string // file, or another word of the document
}

// ParseSandboxes parses a UserSandboxes.xml. Its errors are those of Parse.
func ParseSandboxes(data []byte) ([]Sandbox, error) {
	root, err := tree.Parse(data)
	if err != nil {
		return nil, err
	}
	if root.Name != "userSandboxes" {
		return nil, tree.Malformed("begins with <%.60s>; sandboxes begin with <userSandboxes>", root.Name)
	}
	r := &sandboxReader{}
	agent := r.Must(root, "agent")
	var all []Sandbox
	for _, e := range r.Subs(agent, "sandbox") {
		s := Sandbox{Line: e.Line, User: r.Need(e, "user"), Regex: r.Word(e, "userPattern", "wildcard", "regex") == "regex",
			Read: r.area(e, "read"), Write: r.area(e, "write")}
		r.Done(e)
		all = append(all, s)
		if r.count++; r.count > maxSandboxes {
			r.Bad(e, "there are more than %d sandboxes and patterns, the limit", maxSandboxes)
			break
		}
	}
	r.Done(agent)
	r.Done(root)
	return all, r.Err
}

type sandboxReader struct {
	tree.Reader
	count int
}

// area reads an element of a sandbox. A missing element allows nothing.
func (r *sandboxReader) area(e *tree.Element, name string) (a Area) {
	at := r.Sub(e, name)
	if at == nil {
		return a
	}
	a.Include, a.Exclude = r.patterns(at, "include"), r.patterns(at, "exclude")
	r.Done(at)
	return a
}

func (r *sandboxReader) patterns(e *tree.Element, name string) (all []AreaPattern) {
	for _, p := range r.Subs(e, name) {
		kind := r.Attr(p, "type")
		if kind == "" {
			kind = "file"
		}
		text := r.Raw(p, "name") // as it is: a name of a file may end in a blank
		if text == "" {
			r.Bad(p, "<%s> has no attribute name", p.Name)
		}
		all = append(all, AreaPattern{Line: p.Line, Name: text, Type: kind})
		r.Done(p)
	}
	r.count += len(all)
	return all
}
