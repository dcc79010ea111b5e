package coordination

import (
	"bytes"
	"encoding/json"
	"strings"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

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
	err = s.definitions.change(agent, body, s.cfg.Clock.Now())
	switch transfer.KindOf(err) {
	case transfer.KindUnwritable, transfer.KindInternal: // the agent is told, too, but an operator looks here
		s.quiet.Warn("the definitions of an agent are not kept; it tells them again", "agent", agent, "error", err)
	}
	return err
}

// askKept answers with the definitions of one agent, or of all that are away.
func askKept(s *Service, a *receivedQuestion, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.KeptAsked](a.Kind, a.Body)
	if err != nil {
		return err
	}
	page := &keptPage{service: s, principal: a.Principal, ask: body, most: page(a)}
	if page.last, err = openPosition(s.definitions, body.After); err != nil {
		return err
	}
	for _, st := range s.picture.Agents() {
		if body.Agent == st.Agent || body.Agent == "" && (st.Status == wire.AgentStopped || st.Status == wire.AgentUnreachable) {
			page.of = append(page.of, st)
		}
	}
	add := page.addAll
	if body.Key != "" || body.Suffix != "" {
		add = page.addFound
	}
	if err := s.definitions.view(add); err != nil {
		s.quiet.Warn("the definitions of agents cannot be read", "error", err)
		return err
	}
	if page.full {
		page.kept.Next = sealPosition(s.definitions, page.last)
	}
	ans.Body = wire.Marshal(page.kept)
	return nil
}

// A keptPosition is the last definition that pages have looked at; zero: none. With an agent alone, it is before the
// first definition of that.
type keptPosition struct {
	agent transfer.AgentName
	key   string
}

// sealPosition seals a position for the asker, which may not know the names of all definitions.
func sealPosition(d *definitions, at keptPosition) []byte {
	return d.pages.Seal(nil, nil, keyOf(string(at.agent), at.key), nil)
}

func openPosition(d *definitions, sealed []byte) (at keptPosition, err error) {
	if len(sealed) == 0 {
		return at, nil
	}
	key, err := d.pages.Open(nil, nil, sealed, nil)
	if err != nil {
		return at, transfer.Errorf(transfer.KindConflict, "coordination has started again since the page before").WithHint("list the definitions again")
	}
	agent, name, _ := words(key)
	return keptPosition{transfer.AgentName(agent), name}, nil
}

// A keptPage is the page of an answer to wire.AskKept.
type keptPage struct {
	service   *Service
	principal string // the asker
	ask       *wire.KeptAsked
	of        []wire.AgentStatus // the agents in question, in the order of their names

	kept                wire.Kept
	last                keptPosition // the page goes on behind it
	full                bool         // there may be more
	agents, definitions int          // in the page
	size, most          int          // in bytes
	looked              int          // bytes that were looked at
}

// room counts one more agent or definition where it fits. A page has at least one of each, so that the next page goes on
// behind it. Where it does not fit, room notes that there is more.
func (p *keptPage) room(count *int, size int) bool {
	if *count > 0 && p.size+size > p.most {
		p.full = true
		return false
	}
	*count++
	p.size += size
	return true
}

// Bounds of a page.
const (
	keptAgentSize = 128      // bytes of an agent without definitions, or of an entry of the database beside its value
	keptLooked    = 16 << 20 // bytes that a page looks at. An asker may see none of them, and must not keep others waiting
)

// passed notes that a definition of so many bytes was looked at. It reports whether the page looks at the next one.
func (p *keptPage) passed(at keptPosition, size int) bool {
	p.last = at
	p.looked += size + keptAgentSize
	p.full = p.looked > keptLooked
	return !p.full
}

// addAll adds the definitions of the agents in question, one agent after the other.
func (p *keptPage) addAll(tx ledger.StoreTx) error {
	for n := range p.of {
		st := &p.of[n]
		if st.Agent < p.last.agent {
			continue
		}
		if err := p.addAgent(tx, st); err != nil || p.full {
			return err
		}
	}
	return nil
}

// addAgent adds the definitions of an agent that the asker may see.
func (p *keptPage) addAgent(tx ledger.StoreTx, st *wire.AgentStatus) error {
	again := st.Agent == p.last.agent // the page before has the agent
	if !again && !p.room(&p.agents, len(st.Agent)+keptAgentSize) {
		return nil
	}
	of, err := p.describe(tx, st)
	if err != nil {
		return err
	}
	prefix, after := keyOf(string(st.Agent), p.ask.Noun, ""), []byte(nil)
	from := prefix
	if again && p.last.key != "" {
		after = keyOf(string(st.Agent), p.ask.Noun, p.last.key)
		from = after
	}
	p.last.agent = st.Agent
	if !again {
		p.last.key = ""
	}
	c := tx.Bucket(bDefinitions).Cursor()
	for key, v := c.Seek(from); bytes.HasPrefix(key, prefix); key, v = c.Next() {
		if bytes.Equal(key, after) {
			continue
		}
		d, err := p.seen(st.Agent, v)
		if err != nil {
			return err
		}
		if d != nil && !p.room(&p.definitions, len(v)) {
			break
		}
		if d != nil {
			of.Definitions = append(of.Definitions, *d)
		}
		if _, _, name := words(key); !p.passed(keptPosition{st.Agent, name}, len(v)) {
			break
		}
	}
	if len(of.Definitions) > 0 || !again {
		p.kept.Agents = append(p.kept.Agents, of)
	}
	return nil
}

// addFound adds the definitions of the agents in question with a key, or with keys that end in a suffix.
func (p *keptPage) addFound(tx ledger.StoreTx) error {
	at := map[string]*wire.AgentStatus{}
	for n := range p.of {
		at[string(p.of[n].Agent)] = &p.of[n]
	}
	prefix, after := keyOf(p.ask.Noun, ""), []byte(nil)
	if p.ask.Key != "" {
		prefix = keyOf(p.ask.Noun, p.ask.Key, "")
	}
	from := prefix
	if p.last.key != "" {
		after = keyOf(p.ask.Noun, p.last.key, string(p.last.agent))
		if bytes.Compare(after, from) > 0 {
			from = after
		}
	}
	c := tx.Bucket(bNames).Cursor()
	for key, _ := c.Seek(from); bytes.HasPrefix(key, prefix); key, _ = c.Next() {
		noun, name, agent := words(key)
		if bytes.Equal(key, after) {
			continue
		}
		size := 0
		if st := at[agent]; st != nil && strings.HasSuffix(name, p.ask.Suffix) {
			var err error
			if size, err = p.addOne(tx, st, noun, name); err != nil || p.full {
				return err
			}
		}
		if !p.passed(keptPosition{transfer.AgentName(agent), name}, size) {
			return nil
		}
	}
	return nil
}

// addOne adds a definition where the asker may see it. It returns its size in the database.
func (p *keptPage) addOne(tx ledger.StoreTx, st *wire.AgentStatus, noun, name string) (size int, err error) {
	v := tx.Bucket(bDefinitions).Get(keyOf(string(st.Agent), noun, name))
	if v == nil {
		return 0, transfer.Errorf(transfer.KindInternal, "the definitions of agent %s lack %s %s, which is in the list of names", st.Agent, noun, name)
	}
	d, err := p.seen(st.Agent, v)
	if err != nil || d == nil || !p.room(&p.definitions, len(v)+len(st.Agent)+keptAgentSize) {
		return len(v), err
	}
	of, err := p.describe(tx, st)
	of.Definitions = []wire.Definition{*d}
	p.kept.Agents = append(p.kept.Agents, of)
	return len(v), err
}

// describe returns an agent without its definitions.
func (p *keptPage) describe(tx ledger.StoreTx, st *wire.AgentStatus) (wire.KeptAgent, error) {
	head, err := headOf(tx, st.Agent)
	return wire.KeptAgent{Agent: st.Agent, Status: st.Status, Age: st.Age, Told: head.Told, Missing: head.Missing[p.ask.Noun], Sandbox: head.Sandbox}, err
}

// seen decodes a definition; nil: the asker may not see it.
func (p *keptPage) seen(agent transfer.AgentName, v []byte) (*wire.Definition, error) {
	d := &wire.Definition{}
	if err := json.Unmarshal(v, d); err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "a definition of agent %s cannot be read: %w", agent, err)
	}
	sees, err := p.service.rights.seesDefinition(p.principal, agent, d)
	if err != nil || !sees {
		return nil, err
	}
	return d, nil
}
