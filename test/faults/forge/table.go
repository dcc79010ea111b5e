package forge

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Form is one kind of message to be forged in its JSON form: its subject, a sample with every field set, and the
// ranges of its fields.
type Form struct {
	Name    string
	Subject func(to, from string) string // as the queue manager knows it
	Sample  any                          // every field set; see Fill
	Kind    string                       // of a message on REPLY about a transfer; empty if the form is no part of the conversation
	Asks    bool                         // the sender wants an answer in its inbox
	// Free lists regular expressions of field paths. These fields may have any value of their type, or the receiver
	// checks their ranges and answers with an error.
	Free []string
	// Odd holds values out of a field's range beyond those of its type, by regular expressions of field paths.
	Odd map[string][]any
}

func reply(to, from string) string { return "ferry.reply." + to + "." + from }

// envelope is a message on REPLY with its body.
type envelope struct {
	V        int    `json:"v"`
	Kind     string `json:"kind"`
	From     string `json:"from"`
	Transfer string `json:"transfer"`
	Body     any    `json:"body,omitempty"`
}

func said(kind wire.Kind, body any) Form {
	return Form{Name: string(kind), Kind: string(kind), Subject: reply, Sample: envelope{wire.Version, string(kind), "ALPHA", "01890a5d-ac96-774b-bcce-b302099a8057", body},
		Free: []string{
			`^v$`, `^kind$`, // another version's message may be answered
			`\.version$`,  // the version of a file, which its place defines
			`\.modified$`, // the time of a file, of any year
			`(error|reason)\.kind$|^body\.program\.kind$`, // a later version may have more of them
			`\.bits$`,          // the decided ones of the undecided items; its length is checked
			`^body$`,           // a message without a body may have one
			`^body\.request\.`, // answered with REFUSE where it is new
			`^body\.request$`,
			`^body\.targets\.list\[0\]\.(dest|several|resolved|mode|checksum|if_exists|disposition|recursive|long_lines|keep_|to_|from_|eol|replace)`, // likewise
			`^body\.targets$`, // without it there are none
			`^body\.targets\.more$`,
		},
		Odd: map[string][]any{
			`^transfer$`:                          {"x", "01890a5d-ac96-474b-bcce-b302099a8057", ""},
			`^from$`:                              {"", "A", "a b", "-X", "A,\"outcomes\":[", strings.Repeat("A", 29)},
			`\.epoch$`:                            {huge("4294967296")},
			`\.chunk_size$`:                       {1, 4095, 1<<20 + 1, 1 << 44},
			`\.window_size$`:                      {10_001, 1 << 40},
			`\.(frame_size|checkpoint_interval)$`: {1001, 1 << 40},
			`\.max_chunk$`:                        {0, 1<<20 + 1, 1 << 44},
			`\.items$`:                            {0, 1025},
			`^body\.lane$`:                        {"", "pigeon"},
			`\.direct\.mode$`:                     {"", "ssl"},
			`\.addresses\[0\]$`:                   {"", "host", ":1", "host:0", "host:65536", "host:-1", "a b:1", "host:1\n", strings.Repeat("a", 300) + ":1"},
			`\.addresses$`:                        {[]any{"a:1", "a:1", "a:1", "a:1", "a:1", "a:1", "a:1", "a:1", "a:1"}},
			`\.(pin|token)$`:                      {"x", "00", strings.Repeat("0", 65), strings.Repeat("g", 64)},
			`_incarnation$|\.instance$`:           {"a b", "\x00", strings.Repeat("0", 65)},
			`\.n$`:                                {0, 1<<40 + 1},
			`\.list$`:                             {[]any{}},
			`^body\.resolution\.base$`:            {"a\x00", "\x00%00", "\x00%zz", strings.Repeat("a", 4097)},
			`\]\.(path|source)$`:                  {"a\x00", "\x00%", "\x00%0", "\x00%zz", "\x00%00"},
			`\.prefix$`:                           {[]any{}, []any{map[string]any{"end": 5, "sum": ""}, map[string]any{"end": 5, "sum": ""}}},
			`\.prefix\[0\]\.end$`:                 {0, 2},
			`\.type$`:                             {0, 4, 255, 256},
			`\.credit$`:                           {huge("1152921504606846977")},
		}}
}

// way is a valid offer of the direct lane.
var way = wire.Direct{Mode: wire.DirectTLS, Addresses: []string{"127.0.0.1:9"}, Pin: strings.Repeat("0", 64), Token: strings.Repeat("0", 64), Dial: true}

// open and accept return messages with every field set and in its range.
func open() *wire.Open {
	o := Fill(&wire.Open{})
	o.Request.Settings, o.Direct, o.Targets.After = settings, &way, 0
	o.Request.Items, o.Request.Rest, o.Request.Triggers = nil, nil, nil
	o.Request.Programs = o.Request.Programs.OfDest()
	return o
}

func accept() *wire.Accept {
	a := Fill(&wire.Accept{})
	a.Settings, a.Lane, a.Direct, a.Resolved[0].Error = settings, transfer.LaneDirect, &way, nil
	return a
}

func resolved() *wire.Resolved {
	r := Fill(&wire.Resolved{})
	r.List[0].Error, r.Known = nil, r.List[0].N
	return r
}

func resync() *wire.Resync {
	r := Fill(&wire.Resync{})
	r.Direct = &way
	return r
}

var settings = transfer.Settings{ChunkSize: 4096, WindowSize: 1, FrameSize: 1, CheckpointInterval: 1, Auto: true}

// Replies returns the forms of all messages between two agents.
func Replies() []Form {
	forms := []Form{
		said(wire.KindOpen, open()),
		said(wire.KindAccept, accept()),
		said(wire.KindResolved, resolved()),
		said(wire.KindBusy, Fill(&wire.Busy{})),
		said(wire.KindRefuse, Fill(&wire.Refuse{})),
		said(wire.KindAck, Fill(&wire.Ack{})),
		said(wire.KindResync, resync()),
		said(wire.KindOutcomes, Fill(&wire.Outcomes{})),
		said(wire.KindOutcomesAck, Fill(&wire.OutcomesAck{})),
		said(wire.KindCancel, Fill(&wire.Cancel{})),
		said(wire.KindAlive, Fill(&wire.Alive{})),
		said(wire.KindCancelled, nil),
	}
	return forms
}

// Asks returns the forms of all questions to agents. Any user may ask, and a question may have no effect but its
// answer.
func Asks() []Form {
	var forms []Form
	for _, kind := range []wire.Kind{wire.AskPing, wire.AskStatus, wire.AskPreview} {
		a := Fill(&wire.Ask{})
		a.Kind, a.Request.Items, a.Request.Recursive = kind, transfer.ItemsAt(transfer.File("/"), transfer.Match("**")), true
		a.Request.Settings = settings
		forms = append(forms, Form{Name: "ask " + string(kind), Sample: a, Asks: true,
			Subject: func(to, from string) string { return "ferry.ask." + to + "." + from }})
	}
	return forms
}

// odd returns values that the field may not have.
func (f *Form) odd(l leaf) (all []any) {
	path := l.path()
	for pattern, values := range f.Odd {
		if regexp.MustCompile(pattern).MatchString(path) {
			all = append(all, values...)
		}
	}
	for _, pattern := range f.Free {
		if regexp.MustCompile(pattern).MatchString(path) {
			return all
		}
	}
	switch v := l.value.(type) {
	case json.Number:
		all = append(all, -1, huge("-9223372036854775808"), huge("4611686018427387905"), huge("9223372036854775807"),
			huge("9223372036854775808"), huge("18446744073709551615"), huge("18446744073709551616"), huge("1e300"), huge("0.5"), "1", []any{}, map[string]any{})
	case string:
		all = append(all, 7, true, []any{}, map[string]any{"a": 1}, strings.Repeat("x", 70_000))
	case bool:
		all = append(all, 7, "true", []any{})
	case []any:
		all = append(all, 7, "x", map[string]any{"a": 1})
		if len(v) > 0 {
			all = append(all, tooMany(v[0]))
		}
	case map[string]any:
		all = append(all, 7, "x", []any{1})
	case nil:
	default:
		panic(fmt.Sprintf("a field of type %T", v))
	}
	return all
}

// tooMany returns a list with more items than any may have, or more bytes than a message of control may have. A queue
// manager does not take a message of much more.
func tooMany(item any) []any {
	data, err := json.Marshal(item)
	if err != nil {
		panic(err)
	}
	return slices.Repeat([]any{item}, min(5000, wire.MaxControl/len(data)+1))
}

// An Oddity is a message with one field out of its range.
type Oddity struct {
	Field string
	Value any
	Data  []byte
}

// oddities returns every field of a form with each value that it may not have.
func (f *Form) oddities() (all []leaf) {
	for _, l := range leaves(f.tree()) {
		for _, v := range f.odd(l) {
			all = append(all, leaf{l.at, v})
		}
	}
	return all
}

// oddly returns base, a message that an agent sent, with the value of l in its field. It takes missing parts of base
// from the sample.
func oddly(base, sample any, l leaf) Oddity {
	data, err := json.Marshal(set(base, sample, l.at, l.value))
	if err != nil {
		panic(err)
	}
	return Oddity{l.path(), l.value, data}
}

// tree returns the sample as parsed JSON.
func (f *Form) tree() any {
	data, err := json.Marshal(f.Sample)
	if err != nil {
		panic(err)
	}
	tree, err := parse(data)
	if err != nil {
		panic(err)
	}
	return tree
}
