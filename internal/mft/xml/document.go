package xml

import (
	"fmt"
	"slices"

	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// A Document is a parsed message. Exactly one of its pointers is set, or Items of a definition file.
type Document struct {
	ID         transfer.ID // of the transfer, given by the request; zero: none
	Transfer   *Transfer
	Call       *ManagedCall
	Cancel     *Cancel
	Unschedule *Unschedule
	Monitor    *Monitor
	Unmonitor  *Unmonitor
	Template   *Template
	Ping       *Ping
	Items      []Item // of transferSpecifications

	// Ignored are the elements that do not concern the transfer, named for users: the first maxIgnored, each once.
	Ignored []string
}

// Bounds of Ignored, which a document could make larger than itself.
const (
	maxIgnored     = 100
	maxIgnoredText = 200 // characters of an element
)

// ignore lists an element that does not concern the transfer.
func (d *Document) ignore(text string) {
	text = fmt.Sprintf("%.*s", maxIgnoredText, text)
	if len(d.Ignored) < maxIgnored && !slices.Contains(d.Ignored, text) {
		d.Ignored = append(d.Ignored, text)
	}
}

// A Transfer is a managedTransfer.
type Transfer struct {
	Originator  transfer.Originator
	Schedule    *Schedule
	Trigger     *Trigger
	Source      transfer.AgentName
	Destination transfer.AgentName
	Reply       string // address of an answer
	Job         string
	Set         Set
}

// A Set is a transferSet.
type Set struct {
	Priority int
	Recovery int // seconds; -1: unlimited, 0: at once
	Meta     map[string]string
	Programs Programs
	Items    []Item
	Own      map[string]string // Ferry's attributes
}

// Programs run before and after a transfer, at its ends.
type Programs struct {
	PreSource, PostSource, PreDest, PostDest *Command
}

// A Command is a program to run.
type Command struct {
	Name       string
	Type       string // executable, antscript or jcl
	SuccessRC  string // result codes that are no failure, as "0" or "<4|>7"; empty: 0
	RetryCount int
	RetryWait  int // seconds
	Args       []string
	Targets    []string          // of an antscript
	Properties map[string]string // of an antscript
}

// An Item is one of a transfer.
type Item struct {
	Mode     string // binary or text
	Checksum string
	Source   Source
	Dest     Dest
	line     int
}

// A Source is the origin of an item.
type Source struct {
	Recursive bool
	Delete    bool
	File      File
	Queue     *Queue // instead of File
	AsGiven   bool   // the path has the same meaning as in `ferry send`
	KeepBlank bool
}

// A Dest is the destination of an item.
type Dest struct {
	Type    string // file, directory, dataset, pds or queue
	Exist   string
	File    File
	Queue   *Queue // instead of File
	Long    string // treatment of lines that are longer than a record: truncate, wrap or fail
	Replace string
}

// A File is a path with the properties of its text.
type File struct {
	Path     transfer.Path
	Encoding string
	EOL      string // lf, crlf or nl; empty: the agent's
	line     int
}

// A Schedule defines when a transfer begins.
type Schedule struct {
	Start    string // yyyy-MM-ddThh:mm, as written
	TimeBase string // admin, source or utc
	Zone     string
	Every    int    // intervals; 0: once
	Interval string // minutes … years
	Until    string // as Start; empty: no end by time
	Count    int    // occurrences; 0: no end by number
}

// A Trigger is the condition of a transfer, checked when it begins. All of its conditions must hold, each for at least
// one of its files.
type Trigger struct {
	Log        bool // a condition that does not hold is recorded
	Conditions []TriggerCondition
}

// A TriggerCondition is a condition on files of the source agent.
type TriggerCondition struct {
	Size       bool   // of the files; otherwise their existence
	Comparison string // = or !=, of sizes >=
	Value      string // exist; of sizes a number
	Units      string // of sizes: b, kb, mb or gb
	Files      []transfer.Path
}

// A ManagedCall is a program to run at an agent.
type ManagedCall struct {
	Originator transfer.Originator
	Agent      transfer.AgentName
	Reply      string
	Job        string
	Meta       map[string]string
	Command    Command
}

// A Cancel ends a transfer.
type Cancel struct {
	Originator transfer.Originator
	Transfer   transfer.ID
	Reply      string
}

// A Ping asks an agent whether it is there.
type Ping struct {
	Originator transfer.Originator
	Agent      transfer.AgentName
	Reply      string
}

// An Unschedule ends a scheduled transfer.
type Unschedule struct {
	Originator transfer.Originator
	ID         string
	Reply      string
}

// MaxDocument is the greatest length of a document in bytes.
const MaxDocument = tree.MaxDocument

// Is reports whether a message begins as an XML document does, in any supported encoding. A message of Ferry's own
// begins with a brace.
func Is(data []byte) bool { return tree.Is(data) }

// Parse parses a document. Its errors are of KindDocument and KindTooLarge.
func Parse(data []byte) (*Document, error) {
	root, err := tree.Parse(data)
	if err != nil {
		return nil, err
	}
	d, r := &Document{}, &documentReader{}
	r.doc = d
	r.document(root)
	if r.Err != nil {
		return nil, r.Err
	}
	slices.Sort(d.Ignored)
	return d, nil
}

// Reply returns the address of an answer, or the empty text if the document requests none.
func (d *Document) Reply() string { return d.head().reply }

// Originator returns the requester named in the document, or zero if it names none.
func (d *Document) Originator() transfer.Originator { return d.head().originator }

// A head has the fields that most documents begin with.
type head struct {
	originator transfer.Originator
	reply      string
}

func (d *Document) head() head {
	switch {
	case d.Transfer != nil:
		return head{d.Transfer.Originator, d.Transfer.Reply}
	case d.Call != nil:
		return head{d.Call.Originator, d.Call.Reply}
	case d.Cancel != nil:
		return head{d.Cancel.Originator, d.Cancel.Reply}
	case d.Ping != nil:
		return head{d.Ping.Originator, d.Ping.Reply}
	case d.Unschedule != nil:
		return head{d.Unschedule.Originator, d.Unschedule.Reply}
	case d.Monitor != nil:
		return head{d.Monitor.Originator, d.Monitor.Reply}
	case d.Unmonitor != nil:
		return head{d.Unmonitor.Originator, d.Unmonitor.Reply}
	}
	return head{}
}
