package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"ferry/internal/transfer"
)

// Calls has the triggers of a transfer, and the programs before and after it.
type Calls struct {
	Triggers []string // as transfer.ParseTrigger takes them
	Programs map[transfer.CallPoint]*Program
}

// A Program is a program at a call point.
type Program struct {
	Text string   // its name, or a transfer.Program in JSON; empty: none
	Args []string // arguments, after those in JSON
}

// call sets triggers and programs in the request.
func (c *Calls) call(q *transfer.Request) error {
	for _, s := range c.Triggers {
		t, err := transfer.ParseTrigger(s)
		if err != nil {
			return err
		}
		q.Triggers = append(q.Triggers, t)
	}
	for _, at := range transfer.CallPoints() {
		given := c.Programs[at]
		if given == nil {
			continue
		}
		p, err := given.parse(at)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if q.Programs == nil {
			q.Programs = &transfer.Programs{}
		}
		q.Programs.Set(at, p)
	}
	return nil
}

// parse returns the program of the text, with the arguments behind it. It returns nil if there is none.
func (f *Program) parse(at transfer.CallPoint) (*transfer.Program, error) {
	if f.Text == "" {
		if len(f.Args) > 0 {
			return nil, transfer.Errorf(transfer.KindUsage, "--%s-arg is given, and no --%s", at, at)
		}
		return nil, nil
	}
	p := &transfer.Program{Name: f.Text}
	if strings.HasPrefix(f.Text, "{") {
		p = &transfer.Program{}
		d := json.NewDecoder(bytes.NewReader([]byte(f.Text)))
		d.DisallowUnknownFields()
		err := d.Decode(p)
		if err == nil && d.More() {
			err = errors.New("something follows the object")
		}
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "--%s is malformed: %w", at, err).
				WithHint("write a name, or JSON with name, args, timeout, retries, pause and success")
		}
	}
	p.Args = append(p.Args, f.Args...)
	return p, nil
}
