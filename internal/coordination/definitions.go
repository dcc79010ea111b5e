package coordination

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of the definitions that coordination keeps.
const (
	allDefinitions  = 512 << 20 // bytes of all agents together
	definitionsWait = 64        // changes that wait to be written
)

// A definitions keeps the last known definitions of each agent, in one file of a directory for each agent that has some.
// The first line of a file is a definitionsHead, and each further line a wire.Definition, in the order of their nouns and
// keys. One goroutine changes the files, and each change replaces a file as a whole; so they may be read at any time.
type definitions struct {
	dir  string
	room int64 // for all agents
	work chan func()

	mu   sync.Mutex
	of   map[transfer.AgentName]definitionsHead
	size int64 // of all files
}

// A definitionsHead describes the definitions of an agent.
type definitionsHead struct {
	V      int            `json:"v"`
	Mark   string         `json:"mark"`
	Told   time.Time      `json:"told"`
	Left   int            `json:"left,omitempty"`
	Counts map[string]int `json:"counts"` // by noun
	size   int64          // of the file; 0: there is none
}

const definitionsVersion = 1

// definitionsEnd is the end of the names of the files.
const definitionsEnd = ".jsonl"

// openDefinitions reads the heads of the files in a directory, which need not exist. A file that cannot be read counts
// as none: its agent tells its definitions anew.
func openDefinitions(dir string, warn func(path string, err error)) (*definitions, error) {
	d := &definitions{dir: dir, room: allDefinitions, work: make(chan func(), definitionsWait), of: map[transfer.AgentName]definitionsHead{}}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindUnreadable, "the definitions of agents cannot be read: %w", err)
	}
	for _, f := range files {
		text, is := strings.CutSuffix(f.Name(), definitionsEnd)
		name, err := transfer.ParseAgentName(text)
		if !is || err != nil || string(name) != text {
			continue
		}
		head, _, err := d.load(name)
		if err != nil {
			warn(d.path(name), err)
			continue
		}
		d.of[name] = head
		d.size += head.size
	}
	return d, nil
}

func (d *definitions) path(agent transfer.AgentName) string {
	return filepath.Join(d.dir, string(agent)+definitionsEnd)
}

// load reads the file of an agent. The definitions are lines, which are not decoded.
func (d *definitions) load(agent transfer.AgentName) (head definitionsHead, lines []byte, err error) {
	data, err := os.ReadFile(d.path(agent))
	if errors.Is(err, fs.ErrNotExist) {
		return head, nil, nil
	}
	if err != nil {
		return head, nil, transfer.Errorf(transfer.KindUnreadable, "the definitions of agent %s cannot be read: %w", agent, err)
	}
	first, lines, _ := bytes.Cut(data, []byte("\n"))
	if err := json.Unmarshal(first, &head); err != nil || head.V != definitionsVersion {
		return head, nil, transfer.Errorf(transfer.KindMalformed, "the definitions of agent %s are damaged, or of another version", agent)
	}
	head.size = int64(len(data))
	return head, lines, nil
}

// read returns the definitions of an agent with a noun ("": all), in the order of their nouns and keys.
func (d *definitions) read(agent transfer.AgentName, noun string) (all []wire.Definition, err error) {
	_, lines, err := d.load(agent)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(lines) {
		var one wire.Definition
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "the definitions of agent %s are damaged: %w", agent, err)
		}
		if noun == "" || one.Noun == noun {
			all = append(all, one)
		}
	}
	return all, nil
}

// head returns the description of the definitions of an agent; zero: it has never told them.
func (d *definitions) head(agent transfer.AgentName) definitionsHead {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[agent]
}

// change makes a change that an agent has told. Only run may call it, and forget.
func (d *definitions) change(agent transfer.AgentName, k *wire.Keep, now time.Time) error {
	old := d.head(agent)
	if k.Base != "" && k.Base != old.Mark {
		return transfer.Errorf(transfer.KindConflict, "coordination has other definitions of agent %s", agent)
	}
	var all []wire.Definition
	if k.Base != "" {
		if len(k.Put) == 0 && len(k.Gone) == 0 && k.Mark == old.Mark && k.Left == old.Left {
			return nil // the agent has only compared
		}
		var err error
		if all, err = d.read(agent, ""); err != nil {
			return transfer.Errorf(transfer.KindConflict, "%w", err) // the agent tells all
		}
	}
	next := definitionsHead{V: definitionsVersion, Mark: k.Mark, Told: now.UTC(), Left: k.Left, Counts: map[string]int{}}
	data, err := changed(&next, all, k)
	if err != nil {
		return err
	}
	if err := d.fits(agent, int64(len(data)), old.size); err != nil {
		return err
	}
	if len(next.Counts) == 0 {
		return d.drop(agent, next)
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the definitions of agent %s cannot be written: %w", agent, err)
	}
	if err := keyfile.Replace(d.path(agent), data); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the definitions of agent %s cannot be written: %w", agent, err)
	}
	next.size = int64(len(data))
	d.set(agent, next)
	return nil
}

// changed returns the content of a file after a change of the definitions in it, and counts them in its head.
func changed(head *definitionsHead, all []wire.Definition, k *wire.Keep) ([]byte, error) {
	by := map[wire.DefinitionName]wire.Definition{}
	for _, one := range all {
		by[one.DefinitionName] = one
	}
	for _, gone := range k.Gone {
		delete(by, gone)
	}
	for _, one := range k.Put {
		by[one.DefinitionName] = one
	}
	size, now := 0, make([]wire.Definition, 0, len(by))
	for _, one := range by {
		now = append(now, one)
		size += one.Size()
		head.Counts[one.Noun]++
	}
	if size > wire.MaxDefinitions {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the definitions of an agent have %d bytes; coordination keeps %d", size, wire.MaxDefinitions)
	}
	slices.SortFunc(now, func(a, b wire.Definition) int { return cmp.Or(cmp.Compare(a.Noun, b.Noun), cmp.Compare(a.Key, b.Key)) })
	data := append(wire.Marshal(head), '\n')
	for n := range now {
		data = append(append(data, wire.Marshal(&now[n])...), '\n')
	}
	return data, nil
}

// fits returns an error of KindTooLarge where an agent would take more than half of the room that the others leave: so no
// agent can take it all.
func (d *definitions) fits(agent transfer.AgentName, size, old int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if share := (d.room - (d.size - old) + 1) / 2; size > share && size > old {
		return transfer.Errorf(transfer.KindTooLarge, "the definitions of agent %s have %d bytes; its share is %d, half of those that other agents leave of %d",
			agent, size, share, d.room)
	}
	return nil
}

func (d *definitions) set(agent transfer.AgentName, head definitionsHead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size += head.size - d.of[agent].size
	d.of[agent] = head
}

// drop removes the file of an agent without definitions. Its mark stays in memory.
func (d *definitions) drop(agent transfer.AgentName, head definitionsHead) error {
	if err := os.Remove(d.path(agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return transfer.Errorf(transfer.KindUnwritable, "the definitions of agent %s cannot be removed: %w", agent, err)
	}
	d.set(agent, head)
	return nil
}

// forget removes the definitions of an agent that was removed from the registry.
func (d *definitions) forget(agent transfer.AgentName) error {
	if err := d.drop(agent, definitionsHead{}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, agent)
	return nil
}

// later has run call fn. It reports false where too much waits already.
func (d *definitions) later(fn func()) bool {
	select {
	case d.work <- fn:
		return true
	default:
		return false
	}
}

// run makes the changes, one after the other, until ctx ends.
func (d *definitions) run(ctx context.Context) {
	for {
		select {
		case fn := <-d.work:
			fn()
		case <-ctx.Done():
			return
		}
	}
}

// askKeep takes the definitions of an agent that the registry has.
func askKeep(s *Service, a *receivedQuestion, _ *wire.Answer) error {
	agent, err := wire.AgentOf(a.Principal)
	if err == nil && !s.picture.Known(agent).Known {
		err = transfer.Errorf(transfer.KindNotFound, "no agent %s was ever heard of", agent)
	}
	var body *wire.Keep
	if err == nil {
		body, err = wire.ReadBody[wire.Keep](a.Kind, a.Body)
	}
	if err == nil && s.cfg.Claim != nil {
		err = s.cfg.Claim.fence()
	}
	if err != nil {
		return err
	}
	return s.definitions.change(agent, body, s.cfg.Clock.Now())
}

// askKept answers with the definitions of one agent, or of all that are away.
func askKept(s *Service, a *receivedQuestion, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.KeptAsked](a.Kind, a.Body)
	if err != nil {
		return err
	}
	page := &keptPage{most: page(a)}
	for _, st := range s.picture.Agents() {
		switch {
		case body.Agent != "" && st.Agent != body.Agent,
			body.Agent == "" && st.Status != wire.AgentStopped && st.Status != wire.AgentUnreachable,
			st.Agent < body.AfterAgent, st.Agent == body.AfterAgent && body.AfterKey == "":
			continue
		}
		if err := addKept(s, page, a.Principal, &st, body); err != nil {
			return err
		}
		if page.kept.More {
			break
		}
	}
	ans.Body = wire.Marshal(page.kept)
	return nil
}

// A keptPage is the page of an answer to wire.AskKept.
type keptPage struct {
	kept                wire.Kept
	agents, definitions int // in the page
	size, most          int // in bytes
}

// room counts one more agent or definition where it fits. A page has at least one of each, so that the next page goes on
// behind it. Where it does not fit, room notes that there is more.
func (p *keptPage) room(count *int, size int) bool {
	if *count > 0 && p.size+size > p.most {
		p.kept.More = true
		return false
	}
	*count++
	p.size += size
	return true
}

// addKept adds the definitions of an agent that a principal may see, and that a question asks for.
func addKept(s *Service, page *keptPage, principal string, st *wire.AgentStatus, ask *wire.KeptAsked) error {
	again := st.Agent == ask.AfterAgent // the page before has its first definitions
	if !again && !page.room(&page.agents, len(st.Agent)+128) {
		return nil
	}
	head := s.definitions.head(st.Agent)
	of := wire.KeptAgent{Agent: st.Agent, Status: st.Status, Age: st.Age, Told: head.Told, Left: head.Left}
	var all []wire.Definition
	if head.Counts[ask.Noun] > 0 {
		var err error
		if all, err = s.definitions.read(st.Agent, ask.Noun); err != nil {
			s.quiet.Warn("the definitions of an agent are left out", "agent", st.Agent, "error", err)
			of.Told = time.Time{}
		}
	}
	for n := range all {
		d := &all[n]
		if again && d.Key <= ask.AfterKey || !strings.HasSuffix(d.Key, ask.Suffix) {
			continue
		}
		sees, err := s.rights.seesDefinition(principal, st.Agent, d)
		if err != nil {
			return err
		}
		if !sees {
			continue
		}
		if !page.room(&page.definitions, d.Size()) {
			break
		}
		of.Definitions = append(of.Definitions, *d)
	}
	if len(of.Definitions) > 0 || !again && !page.kept.More {
		page.kept.Agents = append(page.kept.Agents, of)
	}
	return nil
}
