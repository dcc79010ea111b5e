package exit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"ferry/internal/transfer"
)

// factsVersion is the version of the facts.
const factsVersion = 1

// The facts are the input of an exit: one JSON object. files is its last member.
type facts struct {
	V           int                 `json:"v"`
	Exit        string              `json:"exit"`
	Agent       transfer.AgentName  `json:"agent"`
	Transfer    transfer.ID         `json:"transfer"`
	Source      transfer.AgentName  `json:"source_agent"`
	Destination transfer.AgentName  `json:"destination_agent"`
	Originator  transfer.Originator `json:"originator"`
	Principal   string              `json:"principal"`
	Job         string              `json:"job,omitempty"`
	Metadata    map[string]string   `json:"metadata,omitempty"`
	Dest        transfer.Path       `json:"destination,omitempty"` // DEST, at the destination's end as it was resolved
	Monitor     string              `json:"monitor,omitempty"`
	Request     *transfer.Request   `json:"request,omitempty"` // of a monitor: the request of the trigger
	State       transfer.State      `json:"state,omitempty"`   // of an end
	Counts      *transfer.Counts    `json:"counts,omitempty"`
	Time        time.Time           `json:"submitted"`
}

func factsOf(c *transfer.Call) *facts {
	q := c.Request
	f := &facts{V: factsVersion, Transfer: q.ID, Source: q.Source, Destination: q.Destination, Originator: q.Originator, Principal: c.Principal, Job: q.Job,
		Metadata: q.Meta, Dest: q.Dest.Path, Time: q.Submitted}
	if c.Into != "" {
		f.Dest = c.Into
	}
	if c.At.Post() {
		f.State, f.Counts = c.State, &c.Counts
	}
	return f
}

// encode returns the facts in JSON, with the files. The error is of KindExit if they are too long.
func (f *facts) encode(ctx context.Context, files transfer.ExitFiles) ([]byte, error) {
	b, err := plain(f)
	if err != nil || files == nil {
		return append(b, '\n'), err
	}
	b = append(bytes.TrimSuffix(b, []byte("}")), `,"files":[`...)
	first := true
	err = files(ctx, func(one transfer.ExitFile) error {
		line, err := plain(one)
		if err != nil {
			return err
		}
		if !first {
			b = append(b, ',')
		}
		if first = false; len(b)+len(line) > transfer.MaxExitFacts {
			return transfer.Errorf(transfer.KindExit, "the facts for the exit have more than %d bytes, the limit: there are too many files", transfer.MaxExitFacts).
				WithHint("send them in several transfers")
		}
		b = append(append(b, '\n'), line...)
		return nil
	})
	return append(b, "]}\n"...), err
}

// plain returns a value in JSON, without the escapes that a text in HTML needs: a shell script reads a name with & as
// it is.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// An answer is the output of an exit: one JSON object.
type answer struct {
	Action   string             `json:"action"`             // proceed or cancel
	Message  string             `json:"message,omitempty"`  // for the audit log, and the reason of a cancel
	Metadata map[string]*string `json:"metadata,omitempty"` // of source-start and monitor: entries to set; null removes one
	Files    *[]chosen          `json:"files,omitempty"`    // of source-start: the files to send; all others are left out
}

// A chosen is a file that an exit has chosen.
type chosen struct {
	Source transfer.Path `json:"source"`
	Name   transfer.Path `json:"name,omitempty"` // beneath DEST; empty: as it is
	Item   *int          `json:"item,omitempty"` // as in the facts; nil: see givenFiles.find
}

// givenFiles are the files that an exit was given, by their sources, of each source in the order of their items.
type givenFiles map[transfer.Path][]transfer.ExitFile

func (g givenFiles) add(f transfer.ExitFile) {
	g[f.Source] = append(g[f.Source], transfer.ExitFile{Name: f.Name, Item: f.Item, Dest: f.Dest})
}

// find returns the file that an exit has chosen; nil: it was not given. Without an item the file is that of item 0, as in
// the facts. If item 0 does not have the source, the file is that of the only item with it.
func (g givenFiles) find(c *chosen) *transfer.ExitFile {
	all, item := g[c.Source], 0
	if c.Item != nil {
		item = *c.Item
	} else if len(all) == 1 {
		return &all[0]
	}
	for n := range all {
		if all[n].Item == item {
			return &all[n]
		}
	}
	return nil
}

// The actions of an answer.
const (
	proceed = "proceed"
	cancel  = "cancel"
)

// bad returns the failure of an exit.
func bad(at transfer.CallPoint, name, format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindExit, at.Noun()+" "+name+" "+format, args...)
}

// verdict returns the choice of an answer, and its message. known has the files that the exit was given.
// failure says why the transfer does not go on: the exit has
// cancelled it, or the answer breaks the rules.
func verdict(at transfer.CallPoint, name string, q *transfer.Request, known givenFiles, said []byte) (c *transfer.Choice, message string, failure *transfer.Error) {
	var a answer
	if err := decode(said, &a); err != nil {
		return nil, "", bad(at, name, "has given an answer that cannot be read: %w", err).WithHint(`it writes one JSON object to its standard output, such as {"action":"proceed"}`)
	}
	start := at == transfer.SourceStartExit
	end := at == transfer.SourceEndExit || at == transfer.DestEndExit
	switch {
	case len(a.Message) > transfer.MaxExitMessage:
		return nil, "", bad(at, name, "has given a message of %d bytes; the limit is %d", len(a.Message), transfer.MaxExitMessage)
	case a.Action == cancel && end:
		return nil, a.Message, bad(at, name, "cannot cancel a transfer that has ended: %s", a.Message)
	case a.Action == cancel:
		stopped := "transfer"
		if at == transfer.MonitorExit {
			stopped = "trigger"
		}
		if a.Message == "" {
			a.Message = "it gave no reason"
		}
		return nil, a.Message, bad(at, name, "has cancelled the %s: %s", stopped, a.Message)
	case a.Action != proceed:
		return nil, "", bad(at, name, "has answered with the action %.40q; it is proceed or cancel", a.Action)
	case a.Files != nil && !start:
		return nil, "", bad(at, name, "has chosen files, which the source-start exit alone may")
	case len(a.Metadata) > 0 && !start && at != transfer.MonitorExit:
		return nil, "", bad(at, name, "has changed metadata, which the source-start exit and the monitor exit alone may")
	}
	c = &transfer.Choice{Meta: a.Metadata}
	if err := transfer.CheckLabels(q.Job, c.ApplyMeta(q.Meta)); err != nil {
		return nil, "", bad(at, name, "has given metadata that cannot be: %w", err)
	}
	if a.Files != nil {
		c.Chosen = true
		if c.Files, failure = choose(at, name, *a.Files, known); failure != nil {
			return nil, "", failure
		}
	}
	if len(c.Meta) == 0 && !c.Chosen {
		c = nil
	}
	return c, a.Message, nil
}

// decode reads one JSON object with known members alone, each of them once. An exit may have put a text of the
// submitter into its answer as it was, and that text must not take the place of a member.
func decode(said []byte, a *answer) error {
	d := json.NewDecoder(bytes.NewReader(said))
	d.DisallowUnknownFields()
	err := d.Decode(a)
	if err == io.EOF {
		return errors.New("there is none")
	}
	if err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows its end")
	}
	return once(json.NewDecoder(bytes.NewReader(said)), "")
}

// members are the members of the objects of an answer: of itself, and of the chosen files. Those of metadata have any
// name.
var members = map[string][]string{"": {"action", "message", "metadata", "files"}, "files": {"source", "name", "item"}}

// once checks that no object in a value has a member twice, and that the members of an answer are spelled as they are:
// encoding/json takes the last one, and ignores case. in is the member with the value. The value was decoded before, so
// it is not nested deeply.
func once(d *json.Decoder, in string) error {
	first, err := d.Token()
	begin, is := first.(json.Delim)
	if err != nil || !is {
		return err
	}
	known, seen := members[in], map[string]bool{}
	for d.More() {
		inner := in
		if begin == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			inner = key.(string)
			if seen[inner] {
				return fmt.Errorf("it has the member %.40q twice", inner)
			}
			if seen[inner] = true; known != nil && !slices.Contains(known, inner) {
				return fmt.Errorf("unknown field %.40q", inner)
			}
		}
		if err := once(d, inner); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// choose returns the chosen files of an answer, each with its name.
func choose(at transfer.CallPoint, name string, files []chosen, known givenFiles) (all []transfer.ChosenFile, failure *transfer.Error) {
	type target struct {
		dest transfer.Location
		name transfer.Path
	}
	sources, names := map[*transfer.ExitFile]bool{}, map[target]bool{}
	for n := range files {
		f := &files[n]
		own := known.find(f)
		switch {
		case own == nil && f.Item == nil && len(known[f.Source]) > 0:
			return nil, bad(at, name, "has chosen the file %s, which several items of the request have; its answer lacks the item", f.Source)
		case own == nil:
			return nil, bad(at, name, "has chosen the file %s, which it was not given", f.Source)
		case sources[own]:
			return nil, bad(at, name, "has chosen the file %s twice", f.Source)
		case f.Name == "":
			f.Name = own.Name
		default:
			if err := transfer.CheckExitName(f.Name); err != nil {
				return nil, bad(at, name, "has chosen a name that cannot be: %w", err)
			}
		}
		to := target{own.Dest, f.Name}
		if names[to] {
			return nil, bad(at, name, "has given two files the name %s", f.Name)
		}
		sources[own], names[to] = true, true
		all = append(all, transfer.ChosenFile{Item: own.Item, Source: f.Source, Name: f.Name})
	}
	return all, nil
}
