package monitor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// Limits of a definition. An error names the limit.
const (
	MaxDefinition = 32 << 10 // bytes of a definition in JSON
	maxMonitors   = 1000     // of one agent
	maxPattern    = 1024     // bytes
	MaxLevels     = 100
	maxBatch      = 1000
	maxUnchanged  = 10_000
	minPoll       = 100 * time.Millisecond
	MaxPoll       = 24 * time.Hour
	maxSettle     = 24 * time.Hour
)

// DefaultPoll is the default interval between two polls.
const DefaultPoll = 5 * time.Second

// DefaultSettle is the default of `ferry monitor create` for the time without change before a file is sent.
const DefaultSettle = 5 * time.Second

// definitionVersion is the version of Definition.
const definitionVersion = 2

// A Definition is the resource, the condition and the request of a monitor. It is also the document for export and
// import.
type Definition struct {
	V           int                `json:"v"`
	Name        string             `json:"name"` // in capitals; see ParseName
	Agent       transfer.AgentName `json:"agent"`
	Dir         transfer.Location  `json:"dir"`               // a directory or a queue; see OnQueue
	Match       string             `json:"match,omitempty"`   // pattern of the names of files
	Exclude     string             `json:"exclude,omitempty"` // of those that match
	Regex       bool               `json:"regex,omitempty"`   // both are regular expressions, and not patterns
	Levels      int                `json:"recursive,omitempty"`
	Condition   Condition          `json:"condition"`
	Settle      transfer.Duration  `json:"settle,omitempty"` // time that a file must be unchanged; 0: none
	Poll        transfer.Duration  `json:"poll"`
	Exact       bool               `json:"exact_polls,omitempty"` // polls begin Poll apart, and no notification makes one come earlier
	Ordered     bool               `json:"ordered,omitempty"`     // a transfer begins when the one before has ended
	Batch       int                `json:"batch"`                 // files of one transfer, or groups of messages, at most
	TriggerFile *TriggerFile       `json:"trigger_file,omitempty"`
	Defaults    map[string]string  `json:"defaults,omitempty"` // of variables that a monitor does not have
	// To is the name of the destination agent with variables; the destination of Request then is Agent. Empty: the
	// destination of Request counts.
	To string `json:"destination_agent,omitempty"`
	// Request is the submitted request, with variables. Its ID is empty: each trigger gets its own.
	Request transfer.Request `json:"request"`
}

// A TriggerFile defines how the lines of a file that triggers name the files to send.
type TriggerFile struct {
	DestFirst bool   `json:"destination_first,omitempty"` // the destination precedes the source
	Regex     string `json:"regex,omitempty"`             // with one group or two; empty: a comma separates the two
	// To is the kind of destination that each line must have; empty: a line without one uses the destination of the
	// request.
	To string `json:"to,omitempty"`
}

// Kinds of destination of a line.
const (
	ToFile      = "file"
	ToDirectory = "directory"
)

// ParseName checks the name of a monitor and returns it in capitals, because case does not distinguish monitors.
func ParseName(s string) (string, error) {
	if !transfer.IsName(s, 64, "_.-") {
		return "", transfer.Errorf(transfer.KindUsage, "monitor name %.80q is not valid: 1 to 64 letters, digits or _ . -, beginning with a letter or digit", s)
	}
	return strings.ToUpper(s), nil
}

// ParseDefinition parses the document of a monitor. It refuses unknown fields.
func ParseDefinition(data []byte) (*Definition, error) {
	if len(data) > MaxDefinition {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the definition of a monitor has more than %d bytes, the limit", MaxDefinition)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	d := &Definition{}
	err := dec.Decode(d)
	if err == nil && dec.More() {
		err = transfer.Errorf(transfer.KindMalformed, "something follows it")
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the definition of a monitor cannot be read: %w", err).WithHint("`ferry monitor export` writes one")
	}
	if d.V != definitionVersion {
		return nil, transfer.Errorf(transfer.KindVersion, "the definition of a monitor has version %d; this version of Ferry reads %d", d.V, definitionVersion)
	}
	return d, d.Check()
}

// Check sets defaults, and refuses a definition that cannot be watched or submitted.
func (d *Definition) Check() (err error) {
	d.V = definitionVersion
	if d.Name, err = ParseName(d.Name); err != nil {
		return err
	}
	if _, err := transfer.ParseAgentName(string(d.Agent)); err != nil {
		return err
	}
	if err := d.Dir.CheckDest(); err != nil {
		return err
	}
	if d.Condition.Kind == "" {
		if d.Condition.Kind = ConditionMatch; d.OnQueue() {
			d.Condition.Kind = ConditionNotEmpty
		}
	}
	if d.Poll == 0 {
		d.Poll = transfer.Duration(DefaultPoll)
	}
	d.Batch = max(d.Batch, 1)
	if err := d.checkRanges(); err != nil {
		return err
	}
	if err := d.checkWatched(); err != nil {
		return err
	}
	if d.TriggerFile != nil {
		if _, err := d.TriggerFile.form(); err != nil {
			return err
		}
	}
	if err := d.checkDefaults(); err != nil {
		return err
	}
	if err := d.checkTask(); err != nil {
		return err
	}
	if b, err := json.Marshal(d); err != nil || len(b) > MaxDefinition {
		return transfer.Errorf(transfer.KindTooLarge, "the definition of a monitor has more than %d bytes, the limit", MaxDefinition)
	}
	return nil
}

func (d *Definition) checkRanges() error {
	poll := time.Duration(d.Poll)
	switch {
	case poll < minPoll || poll > MaxPoll:
		return transfer.Errorf(transfer.KindUsage, "a poll interval of %s is out of range; it goes from %s to %s", d.Poll, minPoll, MaxPoll)
	case d.Settle < 0 || time.Duration(d.Settle) > maxSettle:
		return transfer.Errorf(transfer.KindUsage, "a settle time of %s is out of range; it goes from 0 to %s", d.Settle, maxSettle)
	case d.Settle > 0 && !d.MaySettle():
		return transfer.Errorf(transfer.KindUsage, "a settle time does not go with the condition %s; it goes with %s and %s", d.Condition, ConditionMatch, ConditionSize)
	case d.Levels < 0 || d.Levels > MaxLevels:
		return transfer.Errorf(transfer.KindUsage, "recursion through %d levels of directories is out of range; it goes from 0 to %d", d.Levels, MaxLevels)
	case d.Batch > maxBatch:
		return transfer.Errorf(transfer.KindUsage, "a batch of %d files is out of range; it goes from 1 to %d", d.Batch, maxBatch)
	case d.TriggerFile != nil && d.Batch > 1:
		return transfer.Errorf(transfer.KindUsage, "a trigger file names the files of one transfer; it goes with no batch of %d files", d.Batch)
	case d.Condition.Kind == ConditionNoMatch && (d.TriggerFile != nil || d.Batch > 1):
		return transfer.Errorf(transfer.KindUsage, "the condition nomatch triggers when no file is there; it goes with no batch and no trigger file")
	}
	return nil
}

// Destination returns the destination agent, with its variables.
func (d *Definition) Destination() transfer.AgentName {
	return transfer.AgentName(cmp.Or(d.To, string(d.Request.Destination)))
}

// OnQueue reports whether the monitor watches a queue instead of a directory.
func (d *Definition) OnQueue() bool { return d.Dir.Place == transfer.Queues }

// MaySettle reports whether the definition's files can wait for a time without change. The condition unchanged counts
// polls instead.
func (d *Definition) MaySettle() bool {
	return !d.OnQueue() && (d.Condition.Kind == "" || d.Condition.Kind == ConditionMatch || d.Condition.Kind == ConditionSize)
}

// checkDefaults refuses invalid and ambiguous names of defaults.
func (d *Definition) checkDefaults() error {
	seen := map[string]bool{}
	for name := range d.Defaults {
		low := strings.ToLower(name)
		if !transfer.IsWord(name, 64, "_") || seen[low] {
			return transfer.Errorf(transfer.KindUsage, "the variable %.80q, which has a default, is no name of one, or is there twice: letters, digits or _, in either case", name)
		}
		seen[low] = true
	}
	return nil
}
