package xml

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
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	if root.name != "userSandboxes" {
		return nil, malformed("begins with <%.60s>; sandboxes begin with <userSandboxes>", root.name)
	}
	r := &sandboxReader{}
	agent := r.must(root, "agent")
	var all []Sandbox
	for _, e := range r.subs(agent, "sandbox") {
		s := Sandbox{Line: e.line, User: r.need(e, "user"), Regex: r.word(e, "userPattern", "wildcard", "regex") == "regex",
			Read: r.area(e, "read"), Write: r.area(e, "write")}
		r.done(e)
		all = append(all, s)
		if r.count++; r.count > maxSandboxes {
			r.bad(e, "there are more than %d sandboxes and patterns, the limit", maxSandboxes)
			break
		}
	}
	r.done(agent)
	r.done(root)
	return all, r.err
}

type sandboxReader struct {
	reader
	count int
}

// area reads an element of a sandbox. A missing element allows nothing.
func (r *sandboxReader) area(e *element, name string) (a Area) {
	at := r.sub(e, name)
	if at == nil {
		return a
	}
	a.Include, a.Exclude = r.patterns(at, "include"), r.patterns(at, "exclude")
	r.done(at)
	return a
}

func (r *sandboxReader) patterns(e *element, name string) (all []AreaPattern) {
	for _, p := range r.subs(e, name) {
		kind := r.attr(p, "type")
		if kind == "" {
			kind = "file"
		}
		text := r.raw(p, "name") // as it is: a name of a file may end in a blank
		if text == "" {
			r.bad(p, "<%s> has no attribute name", p.name)
		}
		all = append(all, AreaPattern{Line: p.line, Name: text, Type: kind})
		r.done(p)
	}
	r.count += len(all)
	return all
}
