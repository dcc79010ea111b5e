// Package queue implements application queues as a place: the messages of a queue are sent as one file, and a file
// lands as one message or as the messages of a group. Readers and Writers give access to the queues themselves.
//
// The path of a queue is queue:NAME and the options of its messages (Address). A transfer.Location records that a path
// is one of a queue; Parse accepts no other path.
package queue

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Prefix begins the path of a queue.
const Prefix = "queue:"

// Location returns the queue as in a request.
func (a *Address) Location() transfer.Location {
	return transfer.Location{Place: transfer.Queues, Path: a.Path()}
}

// Of parses the location of a queue. Picked messages are in a field of their own, and never in a location.
func Of(l transfer.Location) (a Address, err error) {
	if l.Place != transfer.Queues {
		return a, transfer.Errorf(transfer.KindUsage, "%s is in %s, and is no queue", l, l.Place)
	}
	if a, err = Parse(l.Path); err == nil && a.Picked != (Picked{}) {
		err = a.bad("the option %q, which a location does not have", optPicked)
	}
	return a, err
}

// Chosen parses the location of a queue and the picked messages of it. An empty path means that none were picked.
func Chosen(l transfer.Location, picked transfer.Path) (a Address, err error) {
	if a, err = Of(l); err != nil || picked == "" {
		return a, err
	}
	one, err := Parse(picked)
	if err == nil && (one.Picked == (Picked{}) || !a.names(one)) {
		err = transfer.Errorf(transfer.KindMalformed, "%s does not pick messages of %s", picked, l)
	}
	return one, err
}

// names reports whether two addresses are the same except for the picked messages.
func (a *Address) names(one Address) bool {
	bare := *a
	bare.Picked, one.Picked = Picked{}, Picked{}
	return one.Path() == bare.Path()
}

// Treatments of the delimiters that split a file.
const (
	KeepNone   = "none"
	KeepBefore = "before" // at the end of the message before it
	KeepAfter  = "after"  // at the beginning of the message after it
)

// Positions of a delimiter in the file made of messages; the default is between them.
const (
	AtBetween = "between"
	AtBefore  = "before" // each message
	AtAfter   = "after"  // each message
)

// AnyGroup stands for the complete group that became complete first.
const AnyGroup = "*"

const (
	MaxWait      = 24 * time.Hour
	maxDelimiter = 64  // bytes
	maxRegex     = 160 // bytes of a regular expression
)

// A Split defines how a file becomes the messages of a group. The zero Split makes it one message.
type Split struct {
	Size      int            // bytes of each message but the last
	Delimiter []byte         // between messages
	Regex     *regexp.Regexp // matches the delimiter between messages
	Keep      string         // of the delimiter; empty: KeepNone
}

// Any reports whether a file is split.
func (s *Split) Any() bool { return s.Size > 0 || len(s.Delimiter) > 0 || s.Regex != nil }

// A Picked describes the messages that a walk has found. Only these are sent, even if others arrive later.
type Picked struct {
	Mark     string // of the queue
	Writer   string // of a group
	Group    string // the group that AnyGroup stood for
	Last     uint64 // number of the newest message
	Messages uint64
	Bytes    uint64 // of the messages, without delimiters
}

// An Address is the parsed path of a queue.
type Address struct {
	Queue   transfer.QueueName
	Group   string        // of a source: only this complete group, or AnyGroup
	After   uint64        // of a source: only messages with greater numbers
	Between []byte        // of a source: the delimiter between its messages
	At      string        // of a source: AtBefore or AtAfter; empty: between them
	Wait    time.Duration // of a source: how long to wait for a message, or for the group
	Picked  Picked        // of a source; zero: no walk has picked yet
	Split   Split         // of a DEST
}

// Words of the options in a path.
const (
	optGroup          = "group"
	optAfter          = "after"
	optBetween        = "delimiter"
	optAt             = "delimiter-at"
	optWait           = "wait"
	optSplitSize      = "split-size"
	optSplitDelimiter = "split-delimiter"
	optSplitRegex     = "split-regex"
	optKeep           = "keep"
	optMark           = "mark"
	optWriter         = "writer"
	optPickedGroup    = "picked-group"
	optPicked         = "picked" // LAST-MESSAGES-BYTES
)

// Parse parses the path of a queue: queue:NAME, and options as in the query of a URL. Only Item.Picked and
// RequestItem.Picked have the options of picked messages.
func Parse(p transfer.Path) (a Address, err error) {
	text, ok := strings.CutPrefix(strings.TrimRight(string(p), "/"), Prefix)
	if !ok {
		return a, transfer.Errorf(transfer.KindUsage, "%s is not the path of a queue", p)
	}
	if len(text) > transfer.MaxName {
		return a, transfer.Errorf(transfer.KindUsage, "the queue %.60s… and its options have %d bytes; the limit is %d", text, len(text), transfer.MaxName)
	}
	name, query, _ := strings.Cut(text, "?")
	if a.Queue, err = transfer.ParseQueueName(name); err != nil {
		return a, err
	}
	opts, err := url.ParseQuery(query)
	if err != nil {
		return a, a.bad("options that cannot be read: %v", err)
	}
	for word, values := range opts {
		if len(values) != 1 {
			return a, a.bad("the option %q %d times", word, len(values))
		}
		if err := a.take(word, values[0]); err != nil {
			return a, err
		}
	}
	if err := a.check(); err != nil {
		return a, err
	}
	if a.Split.Keep == KeepNone {
		a.Split.Keep = ""
	}
	return a, nil
}

func (a *Address) bad(format string, args ...any) error {
	return transfer.Errorf(transfer.KindUsage, "the queue "+string(a.Queue)+" has "+format, args...)
}

func (a *Address) take(word, value string) (err error) {
	switch word {
	case optGroup:
		a.Group = value
		return CheckGroup(value)
	case optPickedGroup:
		a.Picked.Group = value
		return transfer.CheckGroup(value)
	case optAfter:
		if a.After, err = strconv.ParseUint(value, 10, 62); err != nil || a.After == 0 {
			return a.bad("after=%.40q, and the numbers of messages begin at 1", value)
		}
	case optBetween:
		a.Between, err = ParseDelimiter(value)
	case optAt:
		a.At, err = ParseAt(value)
	case optWait:
		if a.Wait, err = time.ParseDuration(value); err != nil || a.Wait <= 0 || a.Wait > MaxWait {
			err = a.bad("wait=%.40q, and waits for 1s to %s", value, MaxWait)
		}
	case optSplitSize:
		a.Split.Size, err = ParseSplitSize(value)
	case optSplitDelimiter:
		a.Split.Delimiter, err = ParseDelimiter(value)
	case optSplitRegex:
		a.Split.Regex, err = ParseRegex(value)
	case optKeep:
		a.Split.Keep = value
		if value != KeepNone && value != KeepBefore && value != KeepAfter {
			return a.bad("keep=%.40q; it is one of none, before, after", value)
		}
	case optMark:
		a.Picked.Mark = value
	case optWriter:
		a.Picked.Writer = value
		if strings.ContainsAny(value, ".*> \t\r\n") {
			return a.bad("a writer %.40q that is none", value)
		}
	case optPicked:
		a.Picked.Last, a.Picked.Messages, a.Picked.Bytes, err = readPicked(value)
	default:
		return a.bad("an option %.40q that is unknown", word)
	}
	return err
}

func readPicked(value string) (last, messages, bytes uint64, err error) {
	t := strings.Split(value, "-")
	var n [3]uint64
	for k := range n {
		if len(t) != len(n) {
			err = strconv.ErrSyntax
		} else if err == nil {
			n[k], err = strconv.ParseUint(t[k], 10, 62)
		}
	}
	if err != nil || n[0] == 0 || n[1] == 0 || n[1] > n[0] {
		return 0, 0, 0, transfer.Errorf(transfer.KindUsage, "the messages %.60q that were picked cannot be read", value)
	}
	return n[0], n[1], n[2], nil
}

// check refuses contradictory options.
func (a *Address) check() error {
	ways := 0
	for _, is := range []bool{a.Split.Size > 0, len(a.Split.Delimiter) > 0, a.Split.Regex != nil} {
		if is {
			ways++
		}
	}
	switch {
	case ways > 1:
		return a.bad("several of split-size, split-delimiter and split-regex; a file is split in one way")
	case a.Split.Keep != "" && len(a.Split.Delimiter) == 0 && a.Split.Regex == nil:
		return a.bad("keep, and no delimiter to be kept")
	case a.At != "" && len(a.Between) == 0:
		return a.bad("delimiter-at, and no delimiter")
	case (a.Picked.Mark != "") != (a.Picked.Last > 0), a.Picked.Writer != "" && (a.Group == "" || a.Picked.Last == 0), (a.Picked.Group != "") != (a.Group == AnyGroup && a.Picked.Last > 0):
		return a.bad("half of the description of the picked messages")
	case a.Group != "" && a.After > 0:
		return a.bad("a group, which is sent as a whole, and a message after which to begin")
	case ways > 0 && a.OfSource():
		return a.bad("options of a source and of a destination")
	}
	return nil
}

// OfSource reports whether an address has an option that applies only to a source.
func (a *Address) OfSource() bool {
	return a.Group != "" || a.After > 0 || len(a.Between) > 0 || a.Wait > 0 || a.Picked.Last > 0
}

// Path is the inverse of Parse. Each address has only one spelling.
func (a *Address) Path() transfer.Path {
	opts := url.Values{}
	set := func(word, value string) {
		if value != "" {
			opts.Set(word, value)
		}
	}
	set(optGroup, a.Group)
	if a.After > 0 {
		set(optAfter, strconv.FormatUint(a.After, 10))
	}
	set(optBetween, FormatDelimiter(a.Between))
	set(optAt, a.At)
	if a.Wait > 0 {
		set(optWait, a.Wait.String())
	}
	if a.Split.Size > 0 {
		set(optSplitSize, strconv.Itoa(a.Split.Size))
	}
	set(optSplitDelimiter, FormatDelimiter(a.Split.Delimiter))
	if a.Split.Regex != nil {
		set(optSplitRegex, a.Split.Regex.String())
	}
	set(optKeep, a.Split.Keep)
	if p := &a.Picked; p.Last > 0 {
		set(optMark, p.Mark)
		set(optWriter, p.Writer)
		set(optPickedGroup, p.Group)
		set(optPicked, strconv.FormatUint(p.Last, 10)+"-"+strconv.FormatUint(p.Messages, 10)+"-"+strconv.FormatUint(p.Bytes, 10))
	}
	text := Prefix + string(a.Queue)
	if len(opts) > 0 {
		text += "?" + opts.Encode()
	}
	return transfer.Path(text)
}

// Plain returns the path of a queue without the numbers of the messages that a walk has picked. It returns other paths
// unchanged.
func Plain(p transfer.Path) transfer.Path {
	a, err := Parse(p)
	if err != nil || a.Picked == (Picked{}) {
		return p
	}
	if a.Group == AnyGroup && a.Picked.Group != "" {
		a.Group = a.Picked.Group
	}
	a.Picked = Picked{}
	return a.Path()
}

// permitPath returns the queue's path in the form of rules.
func (a *Address) permitPath() string { return "/" + Prefix + string(a.Queue) }

// span returns the span of the picked messages.
func (a *Address) span() wire.QueueSpan {
	s := wire.QueueSpan{Queue: a.Queue, Mark: a.Picked.Mark, Writer: a.Picked.Writer, Group: cmp.Or(a.Picked.Group, a.Group), Last: a.Picked.Last}
	if a.After > 0 {
		s.First = a.After + 1
	}
	return s
}

// size returns the length in bytes of the file made of the picked messages.
func (a *Address) size() int64 {
	n := a.Picked.Messages
	if a.At == "" {
		n = max(n, 1) - 1
	}
	return int64(a.Picked.Bytes + uint64(len(a.Between))*n)
}

// delimited returns a piece of a message as it is in the file, with its delimiter.
func (a *Address) delimited(p *wire.QueuePiece, first bool) []byte {
	switch {
	case len(a.Between) == 0:
	case a.At == AtAfter && p.Last:
		return slices.Concat(p.Data, a.Between)
	case a.At == AtBefore && p.Offset == 0, a.At == "" && p.Offset == 0 && !first:
		return slices.Concat(a.Between, p.Data)
	}
	return p.Data
}

// CheckGroup refuses a text that is neither the ID of a group nor AnyGroup.
func CheckGroup(id string) error {
	if id == AnyGroup {
		return nil
	}
	return transfer.CheckGroup(id)
}

// ParseAt parses the position of a delimiter; the empty text is between two messages.
func ParseAt(s string) (string, error) {
	switch s {
	case AtBetween:
		return "", nil
	case AtBefore, AtAfter:
		return s, nil
	}
	return "", transfer.Errorf(transfer.KindUsage, "the place %.40q of a delimiter is not known; it is one of between, before, after", s)
}

// ParseDelimiter parses 0xHEX; it returns any other text as it is.
func ParseDelimiter(s string) (d []byte, err error) {
	d = []byte(s)
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		if d, err = hex.DecodeString(digits); err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "the delimiter %.80q is not valid: an even number of hexadecimal digits follows 0x", s)
		}
	}
	if len(d) == 0 || len(d) > maxDelimiter {
		return nil, transfer.Errorf(transfer.KindUsage, "the delimiter %.80q is not valid: it has %d bytes; 1 to %d are possible", s, len(d), maxDelimiter)
	}
	return d, nil
}

// FormatDelimiter is the inverse of ParseDelimiter.
func FormatDelimiter(d []byte) string {
	if bytes.HasPrefix(d, []byte("0x")) || bytes.ContainsFunc(d, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "0x" + hex.EncodeToString(d)
	}
	return string(d)
}

// ParseSplitSize parses the size of messages, such as 64K.
func ParseSplitSize(s string) (int, error) {
	n, err := transfer.ParseSize(s)
	if err != nil || n < 1 || n > wire.MaxQueueMessage {
		return 0, transfer.Errorf(transfer.KindUsage, "the size %.40q of messages is not valid: 1 to %d bytes", s, wire.MaxQueueMessage)
	}
	return n, nil
}

// ParseRegex parses a regular expression for the delimiter between messages.
func ParseRegex(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	switch {
	case s == "" || len(s) > maxRegex:
		return nil, transfer.Errorf(transfer.KindUsage, "the regular expression %.80q is not valid: it has %d bytes; 1 to %d are possible", s, len(s), maxRegex)
	case err != nil:
		return nil, transfer.Errorf(transfer.KindUsage, "the regular expression %.80q is not valid: %v", s, err)
	case re.MatchString(""):
		return nil, transfer.Errorf(transfer.KindUsage, "the regular expression %.80q matches where nothing is, and would split between any two bytes", s)
	}
	return re, nil
}

// waiting converts errors of a Reader or Writer that do not concern the queue itself to a kind that waits.
func waiting(err error) error {
	switch transfer.KindOf(err) {
	case transfer.KindNoManager, transfer.KindTimeout, transfer.KindInternal:
		e := transfer.AsError(err)
		return &transfer.Error{Kind: transfer.KindUnreachable, Text: e.Text, Hint: cmp.Or(e.Hint, "it goes on when the queue manager answers"), Err: err}
	}
	return err
}
