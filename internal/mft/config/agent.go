package config

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// A Note is the outcome of one part of a configuration.
type Note struct {
	File    string  `json:"file,omitempty"` // relative to the directory of the configuration
	Line    int     `json:"line,omitempty"`
	What    string  `json:"what,omitempty"` // a property, or another part of the file
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text"` // the corresponding setting of Ferry, or the reason why there is none
}

// A Setting is a flag of `ferry agent run`.
type Setting struct {
	Flag   string
	Values []string
	List   bool // the flag may be repeated
}

// An Agent is the configuration of one agent.
type Agent struct {
	Name     transfer.AgentName
	Settings []Setting
	Sandbox  []byte // rules of the files that users may read and write, in the form of --sandbox; nil: all files beneath the roots
}

// Files are the files of an agent.
type Files struct {
	Properties string // content of Properties
	Data       []byte // of it
	Sandboxes  string // path of the UserSandboxes.xml
	XML        []byte // content of Sandboxes; nil: the file does not exist
}

// ReadAgent makes an agent from its files, and returns a note for each property. The agent is nil if a note names a
// reason why it cannot be made. An error, of KindUsage, concerns the syntax of the properties file.
func ReadAgent(files Files) (*Agent, []Note, error) {
	all, err := ParseProperties(files.Data)
	if err != nil {
		return nil, nil, err
	}
	r := &agentReader{files: files, agent: &Agent{}, own: map[string]Property{}}
	keys := agentKeys()
	for n, p := range all {
		if slices.ContainsFunc(all[n+1:], func(q Property) bool { return q.Key == p.Key }) {
			r.note(p, Needless, "it is given again below, and that counts")
			continue
		}
		r.take(p, keys)
	}
	r.name()
	r.places()
	slices.SortStableFunc(r.notes, func(a, b Note) int { // in the order of the files; notes on a whole file come after the notes on its lines
		return cmp.Or(strings.Compare(b.File, a.File), cmp.Compare(uint(a.Line-1), uint(b.Line-1)))
	})
	if r.bad {
		return nil, r.notes, nil
	}
	return r.agent, r.notes, nil
}

type agentReader struct {
	files Files
	agent *Agent
	own   map[string]Property // properties that are read together, by key
	notes []Note
	bad   bool // no agent is made
}

func (r *agentReader) note(p Property, outcome Outcome, text string) {
	r.notes = append(r.notes, Note{r.files.Properties, p.Line, printed(p.Key), outcome, text})
}

// printed returns a key for display. Notes contain keys only, because a value may be a secret.
func printed(key string) string {
	if len(key) > 100 {
		return key[:100] + "…"
	}
	return key
}

// refuse records the reason why no agent is made.
func (r *agentReader) refuse(p Property, err error) {
	r.bad = true
	r.note(p, Missed, err.Error()+"; the agent is not made")
}

// take handles one property.
func (r *agentReader) take(p Property, keys map[string]key) {
	k, known := keys[p.Key]
	value := strings.TrimSpace(p.Value)
	switch {
	case !known:
		r.note(p, Missed, "the property is unknown")
	case value == "" && (p.Value == "" || !k.blank):
		r.note(p, Needless, "it has no value")
	case k.own:
		r.own[p.Key] = p
	case k.flag != "" && k.without != "" && strings.EqualFold(value, k.without):
		r.note(p, Needless, "it is off")
	case k.flag != "":
		v, err := k.convert(p.Value)
		if err != nil {
			r.note(p, Missed, err.Error())
			return
		}
		r.set(k.flag, v)
		r.note(p, Taken, "--"+k.flag+" "+v)
	case k.missed && !strings.EqualFold(value, k.without):
		r.note(p, Missed, k.why)
	default:
		r.note(p, Needless, k.why)
	}
}

func (r *agentReader) set(flag, value string) {
	r.agent.Settings = append(r.agent.Settings, Setting{Flag: flag, Values: []string{value}})
}

// name reads the agent's name and its kind.
func (r *agentReader) name() {
	p, ok := r.own["agentName"]
	name, err := transfer.ParseAgentName(strings.TrimSpace(p.Value))
	switch {
	case !ok:
		r.refuse(Property{Key: "agentName"}, transfer.Errorf(transfer.KindUsage, "there is no agentName"))
	case err != nil:
		r.refuse(p, err)
	default:
		r.agent.Name = name
		r.note(p, Taken, "agent "+string(name))
	}
	if p, ok := r.own["agentType"]; ok {
		if kind := strings.TrimSpace(p.Value); strings.EqualFold(kind, "STANDARD") {
			r.note(p, Needless, "each agent is one")
		} else {
			r.refuse(p, transfer.Errorf(transfer.KindUsage, "%.40q is a kind of agent that is not built", kind))
		}
	}
}

// places reads the properties for the files that the agent may read and write: its roots, and its sandbox.
func (r *agentReader) places() {
	home := ""
	if p, ok := r.own["transferRoot"]; ok {
		dir, err := directory(strings.TrimSpace(p.Value))
		if err != nil {
			r.refuse(p, err)
			return
		}
		home = dir
		r.note(p, Taken, "--root "+dir+", where relative paths begin")
	}

	sandbox, isRoot := r.own["sandboxRoot"]
	users, isUsers := r.own["userSandboxes"]
	var within []string // directories that bound the files
	switch on := strings.TrimSpace(users.Value); {
	case isUsers && !strings.EqualFold(on, "true") && !strings.EqualFold(on, "false"):
		r.refuse(users, transfer.Errorf(transfer.KindUsage, "%.40q is neither true nor false", on))
	case isRoot && strings.EqualFold(on, "true"):
		r.refuse(sandbox, transfer.Errorf(transfer.KindUsage, "there is sandboxRoot beside userSandboxes=true, and only one of them can hold").WithHint("remove one of them"))
	case isRoot:
		within = r.sandboxRoot(sandbox)
	case strings.EqualFold(on, "true"):
		within = r.userSandboxes(users, home)
	}
	if isUsers && strings.EqualFold(strings.TrimSpace(users.Value), "false") {
		r.note(users, Needless, "it is off")
	}
	if p, ok := r.own["enableQueueInputOutput"]; ok && isRoot && r.queues() {
		r.note(p, Taken, "--sandbox has "+allQueues)
	} else if ok && !r.queues() && r.agent.Sandbox == nil && !r.bad {
		r.note(p, Missed, "there is no sandbox, and the agent reads and writes the queues that the rules of the network permit; deny /queue:* there")
	} else if ok {
		r.note(p, Needless, ofQueues)
	}
	if r.files.XML != nil && (!isUsers || !strings.EqualFold(strings.TrimSpace(users.Value), "true")) {
		r.notes = append(r.notes, Note{File: r.files.Sandboxes, Outcome: Needless, Text: "the agent has no userSandboxes=true, and does not read it"})
	}
	if !r.bad {
		r.roots(home, within)
	}
}

// roots sets the directories of --root. Relative paths are beneath home; within are further directories.
func (r *agentReader) roots(home string, within []string) {
	var all []string
	for _, dir := range append([]string{home}, within...) {
		if dir != "" && !slices.ContainsFunc(all, func(up string) bool { return beneath(dir, up) }) {
			all = append(all, dir)
		}
	}
	where := Note{File: r.files.Properties, What: "root", Outcome: Missed}
	switch {
	case len(all) == 0 && r.agent.Sandbox == nil:
		where.Text = "there is no sandbox and no transferRoot, and MQ MFT's agent reads and writes every file that its user may; give --root DIR, or --root / for that"
		r.notes = append(r.notes, where)
		return
	case len(all) == 0:
		where.Text = "no user may read or write any file; give --root DIR"
		r.notes = append(r.notes, where)
		return
	case r.agent.Sandbox == nil:
		where.Text = "there is no sandbox, and MQ MFT's agent reads and writes files outside of " + home + ", too; give --root DIR for each directory that it needs"
		r.notes = append(r.notes, where)
	case home == "":
		where.Outcome, where.Text = Taken, "--root "+strings.Join(all, " --root ")+": relative paths begin in "+all[0]+", and not in the home directory of the agent's user"
		r.notes = append(r.notes, where)
	default:
		for _, dir := range all[1:] {
			r.notes = append(r.notes, Note{File: r.files.Properties, What: "root", Outcome: Taken, Text: "--root " + dir})
		}
	}
	for n, dir := range all {
		if strings.Contains(path.Base(dir), ",") {
			all[n] += "/" // the text after a comma at the end would be an option
		}
	}
	r.agent.Settings = append(r.agent.Settings, Setting{Flag: "root", Values: all, List: true})
}

// beneath reports whether a directory is up, or lies beneath it.
func beneath(dir, up string) bool {
	return dir == up || strings.HasPrefix(dir, strings.TrimSuffix(up, "/")+"/")
}

// allQueues is the pattern of all application queues in rules.
const allQueues = "/queue:*"

// queues reports whether the agent reads and writes queues.
func (r *agentReader) queues() bool {
	return strings.EqualFold(strings.TrimSpace(r.own["enableQueueInputOutput"].Value), "true")
}

// sandboxRoot makes rules of the directories that a sandbox allows, and of those that it denies.
func (r *agentReader) sandboxRoot(p Property) (within []string) {
	dirs, err := directories(p.Value)
	if err != nil {
		r.refuse(p, err)
		return nil
	}
	var denied []string
	for _, dir := range dirs {
		if no, is := strings.CutPrefix(dir, "!"); is {
			denied = append(denied, no)
		} else {
			within = append(within, dir)
		}
	}
	for _, dir := range within {
		for _, no := range denied {
			if beneath(dir, no) {
				r.refuse(p, transfer.Errorf(transfer.KindUsage, "%s is allowed, and !%s denies a directory above it", dir, no).WithHint("remove one of them"))
				return nil
			}
		}
	}
	if len(within) == 0 {
		r.refuse(p, transfer.Errorf(transfer.KindUsage, "it names no directory that is allowed").WithHint("write / for all"))
		return nil
	}
	places := below(within)
	if r.queues() {
		places = append(places, allQueues)
	}
	files := policy.Rule{Name: "sandboxRoot", Who: []string{"*"}, May: mayFiles(), Read: places, Write: places, Except: below(denied)}
	r.rules(p, []policy.Rule{files})
	r.note(p, Taken, "--sandbox, and --root for each directory that is allowed")
	return within
}

// below returns the patterns of some directories and of all files beneath them.
func below(dirs []string) (all []string) {
	for _, dir := range dirs {
		all = append(all, strings.TrimSuffix(dir, "/")+"/**")
	}
	return all
}

// mayFiles returns the authorities to read and write, mayElse all others.
func mayFiles() []transfer.Authority { return authorities(true) }
func mayElse() []transfer.Authority  { return authorities(false) }

func authorities(ofPaths bool) (all []transfer.Authority) {
	for _, a := range transfer.Authorities() {
		if a.OfPaths() == ofPaths && a != transfer.AuthDelegate { // a sandbox does not decide it
			all = append(all, a)
		}
	}
	return all
}

// rules makes the sandbox of the agent. It only concerns files, and leaves all other decisions to the rules of the
// network.
func (r *agentReader) rules(p Property, files []policy.Rule) {
	all := append([]policy.Rule{{Name: "all but files", Who: []string{"*"}, May: mayElse()}}, files...)
	data, err := json.MarshalIndent(&policy.Policy{V: policy.Version, Rules: all}, "", " ")
	if err == nil {
		_, err = policy.Parse(data)
	}
	if err != nil {
		r.refuse(p, err)
		return
	}
	r.agent.Sandbox = data
}

// withoutQueues takes the patterns of queues out of a sandbox: the agent has no queues in MQ MFT, even if its sandboxes
// name some.
func (r *agentReader) withoutQueues(s *mftxml.Sandbox) {
	for _, list := range []*[]mftxml.AreaPattern{&s.Read.Include, &s.Read.Exclude, &s.Write.Include, &s.Write.Exclude} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(p mftxml.AreaPattern) bool {
			if !ofQueue(p) {
				return false
			}
			r.notes = append(r.notes, Note{File: r.files.Sandboxes, Line: p.Line, What: "queue", Outcome: Needless, Text: "the agent has no queues: enableQueueInputOutput is not true"})
			return true
		})
	}
}

// userSandboxes makes rules of a UserSandboxes.xml.
func (r *agentReader) userSandboxes(p Property, home string) (within []string) {
	if r.files.XML == nil {
		r.refuse(p, transfer.Errorf(transfer.KindUsage, "there is no UserSandboxes.xml beside it"))
		return nil
	}
	sandboxes, err := mftxml.ParseSandboxes(r.files.XML)
	if err != nil {
		r.refuse(p, err)
		return nil
	}
	r.note(p, Taken, "--sandbox, of UserSandboxes.xml")
	var files []policy.Rule
	for n := range sandboxes {
		if !r.queues() {
			r.withoutQueues(&sandboxes[n])
		}
		rules, dirs, notes := sandboxRules(&sandboxes[n], n+1, home)
		for _, note := range notes {
			note.File = r.files.Sandboxes
			r.notes = append(r.notes, note)
			r.bad = r.bad || note.Outcome == Missed
		}
		files = append(files, rules...)
		within = append(within, dirs...)
	}
	if r.bad {
		r.refuse(p, transfer.Errorf(transfer.KindUsage, "Ferry's rules cannot express UserSandboxes.xml with the same decisions"))
		return nil
	}
	r.rules(p, files)
	return within
}
