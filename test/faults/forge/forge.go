package forge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Forgery is a message that no agent may accept.
type Forgery struct {
	What    string // the defect
	Subject string
	Reply   string // subject for an answer; empty if none is requested
	Data    []byte
}

// A Forger makes forgeries from messages that it has heard. It knows the source and destination of each transfer. It
// never makes a message that the true peer of a transfer might send in the present state: without accounts, an agent
// could not tell the two apart.
//
// Weights gives the frequencies of the four kinds of forgery: a field out of its range in the true peer's name; a
// message of an agent that has no part in the transfer; an exact repetition; and a message that belongs to another
// state.
type Forger struct {
	Strangers []string // agents without a part in any transfer; at least one
	Agents    []string // agents with transfers
	Weights   [4]int   // of range, stranger, replay, state; default 8, 5, 4, 3
	// Bait holds outcomes of files that no transfer sends, by the agent that owns the files. The forger reports them
	// for items of transfers in progress.
	Bait map[string][]transfer.Outcome
	// Quick gets the forgeries that must be sent at once: answers to an OPEN just heard, which may reach the source
	// before the true answer, and outcomes of a transfer that has not begun. If Quick is nil, the forger makes none of
	// them.
	Quick func(Forgery)

	r     *rand.Rand
	forms []form

	mu     sync.Mutex
	seen   map[string]*seen // by transfer ID
	ids    []string         // oldest first
	heard  []Forgery        // to be repeated; a ring
	next   int
	chunks []Forgery
	nextc  int
}

// form is a Form with its parsed sample and its oddities.
type form struct {
	Form
	sample any
	odd    []leaf
}

// seen holds the messages heard of one transfer.
type seen struct {
	id, source, destination string
	last                    map[string]any // by kind
}

// Limits on the messages that a forger keeps.
const (
	keptTransfers = 64
	recent        = 24 // transfers; most of them are not over yet
	keptMessages  = 512
	keptChunks    = 64
	keptChunk     = 300 << 10 // bytes of the largest chunk message that is kept
)

// New makes a Forger of the given forms: those of Replies and further ones.
func New(r *rand.Rand, forms ...Form) *Forger {
	f := &Forger{r: r, seen: map[string]*seen{}, Weights: [4]int{8, 5, 4, 3}}
	for _, m := range forms {
		f.forms = append(f.forms, form{m, m.tree(), m.oddities()})
	}
	return f
}

// Hear records a message that an agent has sent. It may be called while Next runs.
func (f *Forger) Hear(subject string, data []byte) {
	for _, m := range f.hear(subject, data) {
		f.Quick(m)
	}
}

func (f *Forger) hear(subject string, data []byte) (answers []Forgery) {
	data, err := compress.Messages.Unpack(data)
	if err != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m := Forgery{What: "a repeat", Subject: subject, Data: slices.Clone(data)}
	if strings.HasPrefix(subject, "ferry.data.") {
		if len(data) <= keptChunk {
			keep(&f.chunks, &f.nextc, keptChunks, m)
		}
		return nil
	}
	keep(&f.heard, &f.next, keptMessages, m)
	tree, err := parse(data)
	id := text(tree, "transfer")
	if err != nil || id == "" || !strings.HasPrefix(subject, "ferry.reply.") {
		return nil
	}
	s := f.seen[id]
	if s == nil {
		if text(tree, "kind") != string(wire.KindOpen) {
			return nil
		}
		if len(f.ids) == keptTransfers {
			delete(f.seen, f.ids[0])
			f.ids = f.ids[1:]
		}
		s = &seen{id: id, source: text(tree, "body", "request", "source"), destination: text(tree, "body", "request", "destination"), last: map[string]any{}}
		f.seen[id] = s
		f.ids = append(f.ids, id)
	}
	s.last[text(tree, "kind")] = tree
	switch {
	case f.Quick == nil:
	case text(tree, "kind") == string(wire.KindOpen):
		answers = f.answers(s)
	case text(tree, "kind") == string(wire.KindAccept) && len(f.Bait[s.source]) > 0:
		answers = f.early(s)
	}
	return answers
}

// early makes outcomes of the bait, before the source has sent any item.
func (f *Forger) early(s *seen) []Forgery {
	n := slices.IndexFunc(f.forms, func(m form) bool { return m.Kind == string(wire.KindOutcomes) })
	if n < 0 {
		return nil
	}
	m := &f.forms[n]
	to, from := s.ends(m.Kind)
	tree := setAt(setAt(setAt(s.base(m), f.outcomes(s, 0, 0), "outcomes"), 1<<40, "batch"), false, "last")
	data, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return []Forgery{{What: "early outcomes", Subject: m.Subject(to, from), Data: data}}
}

// quick is the number of forged answers to an OPEN.
const quick = 8

// answers makes ACCEPTs of the OPEN heard last, each with a field out of its range.
func (f *Forger) answers(s *seen) (all []Forgery) {
	n := slices.IndexFunc(f.forms, func(m form) bool { return m.Kind == string(wire.KindAccept) })
	if n < 0 {
		return nil
	}
	m := &f.forms[n]
	to, from := s.ends(m.Kind)
	base := set(set(m.sample, m.sample, []step{"from"}, from), m.sample, []step{"transfer"}, s.id)
	base = setAt(base, number(s.last[string(wire.KindOpen)], "body", "nonce"), "nonce")
	base = setAt(base, []any{}, "resolved") // no item has a DEST of its own
	for range quick {
		l, _ := pick(f.r, m.odd)
		if l.at[0] == "from" || l.at[0] == "transfer" {
			continue // it would not reach the source
		}
		o := oddly(base, m.sample, l)
		all = append(all, Forgery{What: "a quick accept with " + o.Field, Subject: m.Subject(to, from), Data: o.Data})
	}
	return all
}

func keep(ring *[]Forgery, next *int, most int, m Forgery) {
	if len(*ring) < most {
		*ring = append(*ring, m)
		return
	}
	(*ring)[*next%most] = m
	*next++
}

// Next makes a forgery. It returns false while the forger has heard too little.
func (f *Forger) Next() (Forgery, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.r.IntN(f.Weights[0] + f.Weights[1] + f.Weights[2] + f.Weights[3])
	for n, make := range []func() (Forgery, bool){f.odd, f.stranger, f.repeat, f.misplaced} {
		if k -= f.Weights[n]; k < 0 {
			return make()
		}
	}
	return Forgery{}, false
}

func pick[T any](r *rand.Rand, all []T) (v T, ok bool) {
	if len(all) == 0 {
		return v, false
	}
	return all[r.IntN(len(all))], true
}

// some returns a recent transfer that the destination has accepted, or nil.
func (f *Forger) some() *seen {
	id, _ := pick(f.r, f.ids[max(0, len(f.ids)-recent):])
	if s := f.seen[id]; s != nil && s.last[string(wire.KindAccept)] != nil {
		return s
	}
	return nil
}

// ends returns the receiver and the sender of messages of a kind.
func (s *seen) ends(kind string) (to, from string) {
	switch wire.Kind(kind) {
	case wire.KindOpen, wire.KindCancel, wire.KindOutcomesAck, wire.KindAlive:
		return s.destination, s.source
	}
	return s.source, s.destination
}

// base returns the last message of the form's kind in a transfer. If there is none, it returns the sample in the true
// peer's name.
func (s *seen) base(m *form) any {
	if was := s.last[m.Kind]; was != nil {
		return was
	}
	_, from := s.ends(m.Kind)
	return set(set(m.sample, m.sample, []step{"from"}, from), m.sample, []step{"transfer"}, s.id)
}

// odd makes a message in the true peer's name with a field out of its range.
func (f *Forger) odd() (Forgery, bool) {
	m := &f.forms[f.r.IntN(len(f.forms))]
	l, ok := pick(f.r, m.odd)
	if !ok {
		return Forgery{}, false
	}
	to, from, base := f.anybody(), f.anybody(), m.sample
	if m.Kind != "" {
		s := f.some()
		if s == nil {
			return Forgery{}, false
		}
		to, from = s.ends(m.Kind)
		base = s.base(m)
	}
	o := oddly(base, m.sample, l)
	return Forgery{What: fmt.Sprintf("%s with %s = %.60v", m.Name, o.Field, o.Value), Subject: m.Subject(to, from), Reply: m.reply(to, from), Data: o.Data}, true
}

// reply returns the subject for an answer, or "" if the form asks for none.
func (m *Form) reply(to, from string) string {
	if !m.Asks {
		return ""
	}
	return wire.InboxSubject(from, to, strings.Repeat("A", wire.InboxSecret), 1)
}

func (f *Forger) anybody() string {
	a, _ := pick(f.r, f.Agents)
	return a
}

// stranger makes a message about a transfer from an agent that has no part in it. The message has the stranger's name,
// or the true name on a subject of the stranger.
func (f *Forger) stranger() (Forgery, bool) {
	name, _ := pick(f.r, f.Strangers)
	who := transfer.AgentName(name).Token()
	if f.r.IntN(8) == 0 {
		c, ok := pick(f.r, f.chunks)
		if part := strings.Split(c.Subject, "."); ok && len(part) == 5 && part[3] != who {
			part[3] = who
			return Forgery{What: "a stranger's chunk message", Subject: strings.Join(part, "."), Data: f.spoiled(c.Data)}, true
		}
		return Forgery{}, false
	}
	m := &f.forms[f.r.IntN(len(f.forms))]
	if m.Kind == "" { // its sender needs no part in a transfer
		to := f.anybody()
		out, ok := f.write(m.Name, m.Subject(to, who), m.sample)
		out.Reply = m.reply(to, who)
		return out, ok
	}
	s := f.some()
	if s == nil {
		return Forgery{}, false
	}
	to, from := s.ends(m.Kind)
	if who == to || who == from {
		return Forgery{}, false // the stranger sent it itself
	}
	tree := s.base(m)
	if m.Kind == string(wire.KindOpen) && f.r.IntN(2) == 0 {
		return f.write("a stranger's own OPEN", m.Subject(to, who), f.own(tree, m, name))
	}
	if f.r.IntN(3) > 0 {
		tree = f.bumped(tree)
	}
	subject := who
	switch f.r.IntN(4) {
	case 0: // the true name on a subject that only the stranger can use
	case 1:
		subject = from // the other way round
		tree = set(tree, m.sample, []step{"from"}, name)
	default:
		tree = set(tree, m.sample, []step{"from"}, name)
	}
	return f.write("a stranger's "+m.Name, m.Subject(to, subject), tree)
}

// own makes a valid OPEN of a transfer of the given agent. No data follows it.
func (f *Forger) own(tree any, m *form, who string) any {
	id := transfer.NewID(time.Now()).String()
	tree = set(tree, m.sample, []step{"from"}, who)
	tree = set(tree, m.sample, []step{"transfer"}, id)
	tree = setAt(tree, id, "request", "id")
	return setAt(tree, who, "request", "source")
}

// bumped changes the numbers that tell states apart. The message stays in range, and an agent would accept it from the
// true peer.
func (f *Forger) bumped(tree any) any {
	for _, k := range []string{"nonce", "epoch", "batch", "seq"} {
		if get(tree, "body", k) != nil {
			tree = set(tree, tree, []step{"body", k}, number(tree, "body", k)+uint64(f.r.IntN(3)))
		}
	}
	return tree
}

// spoiled returns a chunk message unchanged, cut, or with one bit changed after its header.
func (f *Forger) spoiled(data []byte) []byte {
	data = slices.Clone(data)
	switch {
	case len(data) <= wire.HeaderSize:
	case f.r.IntN(3) == 0:
		data = data[:f.r.IntN(len(data))]
	case f.r.IntN(2) == 0:
		data[wire.HeaderSize+f.r.IntN(len(data)-wire.HeaderSize)] ^= 1 << f.r.IntN(8)
	}
	return data
}

// repeat returns a message that the forger has heard, sometimes with damage after the header of a chunk message.
func (f *Forger) repeat() (Forgery, bool) {
	if f.r.IntN(3) > 0 {
		return pick(f.r, f.heard)
	}
	c, ok := pick(f.r, f.chunks)
	return c, ok
}

func (f *Forger) write(what, subject string, tree any) (Forgery, bool) {
	data, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return Forgery{What: what, Subject: subject, Data: data}, true
}

// A misplacement is a message that the true peer could send in another state of the transfer.
type misplacement struct {
	kind   wire.Kind
	change func(f *Forger, s *seen, tree any) any
}

func change(keys ...any) func(uint64) func(*Forger, *seen, any) any {
	return func(v uint64) func(*Forger, *seen, any) any {
		return func(_ *Forger, _ *seen, tree any) any { return setAt(tree, v, keys...) }
	}
}

func setAt(tree, value any, keys ...any) any {
	at := []step{"body"}
	for _, k := range keys {
		at = append(at, k)
	}
	return set(tree, tree, at, value)
}

func add(key string, n uint64) func(*Forger, *seen, any) any {
	return func(_ *Forger, _ *seen, tree any) any { return setAt(tree, number(tree, "body", key)+n, key) }
}

var misplacements = []misplacement{
	{wire.KindAck, add("epoch", 1000)},
	{wire.KindAck, change("seq")(1 << 50)},
	{wire.KindAck, change("safe")(0)},
	{wire.KindAck, func(_ *Forger, _ *seen, tree any) any {
		return setAt(tree, map[string]any{"item": 1 << 30, "offset": 1}, "safe")
	}},
	{wire.KindAck, change("credit")(1 << 59)},
	{wire.KindAck, change("bytes")(1 << 59)},
	{wire.KindAccept, add("nonce", 7)},
	{wire.KindAccept, add("epoch", 7)},
	{wire.KindBusy, otherwise},
	{wire.KindRefuse, otherwise},
	{wire.KindResync, func(_ *Forger, s *seen, tree any) any {
		return setAt(tree, 1, "epoch") // the epoch of the first ACCEPT at the earliest
	}},
	{wire.KindOutcomes, func(f *Forger, s *seen, tree any) any { return setAt(tree, f.outcomes(s, 1<<30, 0), "outcomes") }},
	{wire.KindOutcomes, func(f *Forger, s *seen, tree any) any { return setAt(tree, f.outcomes(s, 0, 2), "outcomes") }},
	{wire.KindOutcomes, func(f *Forger, s *seen, tree any) any { return setAt(tree, f.outcomes(s, 0, 0), "outcomes") }},
	{wire.KindOutcomes, func(f *Forger, _ *seen, tree any) any {
		return setAt(setAt(tree, []any{}, "outcomes"), true, "last")
	}},
	{wire.KindOutcomesAck, change("batch")(1 << 50)},
	{wire.KindOpen, func(_ *Forger, _ *seen, tree any) any {
		return setAt(tree, transfer.NewID(time.Now()).String(), "request", "id")
	}},
	{wire.KindOpen, func(f *Forger, _ *seen, tree any) any { return setAt(tree, f.Strangers[0], "request", "source") }},
	{wire.KindOpen, func(f *Forger, _ *seen, tree any) any { return setAt(tree, f.Strangers[0], "request", "destination") }},
	{wire.KindOpen, func(_ *Forger, _ *seen, tree any) any { return setAt(tree, "0123456789abcdef", "source_incarnation") }},
	{wire.KindOpen, func(_ *Forger, _ *seen, tree any) any { return setAt(tree, "pigeon", "request", "mode") }},
	{wire.KindOpen, func(_ *Forger, _ *seen, tree any) any { return set(tree, tree, []step{"v"}, 99) }},
}

// otherwise names an OPEN and an epoch that never existed.
func otherwise(_ *Forger, s *seen, tree any) any {
	last := s.last[string(wire.KindAccept)]
	tree = setAt(tree, number(last, "body", "nonce")+1000, "nonce")
	if get(tree, "body", "epoch") != nil {
		tree = setAt(tree, number(last, "body", "epoch")+1000, "epoch")
	}
	return tree
}

// outcomes returns the bait of the source as outcomes of the items that begin at from. If kind is 0, each outcome keeps
// the type of the bait.
func (f *Forger) outcomes(s *seen, from uint64, kind transfer.ItemType) []any {
	all := []any{}
	for n, o := range f.Bait[s.source] {
		o.Item = from + uint64(n)
		if kind != 0 {
			o.Type = kind
		}
		data, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		tree, _ := parse(data)
		all = append(all, tree)
	}
	return all
}

// misplaced makes a message that the true peer could send in another state.
func (f *Forger) misplaced() (Forgery, bool) {
	s := f.some()
	p := misplacements[f.r.IntN(len(misplacements))]
	n := slices.IndexFunc(f.forms, func(m form) bool { return m.Kind == string(p.kind) })
	if s == nil || n < 0 {
		return Forgery{}, false
	}
	m := &f.forms[n]
	to, from := s.ends(m.Kind)
	return f.write(m.Name+" in the wrong state", m.Subject(to, from), p.change(f, s, s.base(m)))
}

// Doors returns the addresses of direct ports in the messages heard.
func (f *Forger) Doors() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		for _, k := range []wire.Kind{wire.KindOpen, wire.KindAccept} {
			list, _ := get(s.last[string(k)], "body", "direct", "addresses").([]any)
			for _, a := range list {
				if a, ok := a.(string); ok && !slices.Contains(all, a) {
					all = append(all, a)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
