// Package template keeps templates: requests with parameters in them, by names. Users submit transfers of their own
// from them. It is a duty of the source agent. The agent keeps a template; the program that sends from it fills it in,
// and submits the result as any other request.
//
// A parameter is written ${NAME} in a source, a destination, the job, metadata or an argument of a program. Variables
// of a transfer in arguments are no parameters, unless the template has a parameter of that name; see package variable.
package template

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ferry/internal/automation/duty"
	"ferry/internal/automation/variable"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// Limits of a template.
const (
	MaxSize    = 120 << 10 // bytes in JSON
	maxParams  = 64
	maxDefault = transfer.MaxPath // bytes of a value
)

const version = 2

// A Template is a request with parameters. As a file it has no Made, Origin and Originator.
type Template struct {
	V        int              `json:"v"`
	Name     string           `json:"name"`
	Params   []Param          `json:"params,omitempty"`
	Request  transfer.Request `json:"request"`            // it has no ID
	Schedule *Later           `json:"schedule,omitempty"` // nil: a transfer from it begins at once

	word.Origin                      // of the command that has made it
	Originator  *transfer.Originator `json:"originator,omitempty"`
	Made        time.Time            `json:"made,omitzero"`
}

// Owner is the principal that made the template.
func (t *Template) Owner() string { return t.Principal }

// A Later is the time at which transfers from a template begin. Its words are those of package schedule.
type Later struct {
	At    string `json:"at"`
	Every string `json:"every,omitempty"`
	Until string `json:"until,omitempty"`
	Count int64  `json:"count,omitempty"`
	Zone  string `json:"zone,omitempty"`
}

// maxWord bounds each of these words, in bytes.
const maxWord = 100

func (l *Later) check(of string) error {
	switch {
	case l == nil:
		return nil
	case l.At == "":
		return transfer.Errorf(transfer.KindUsage, "template %s has a schedule that does not say when it begins", of)
	case max(len(l.At), len(l.Every), len(l.Until), len(l.Zone)) > maxWord || l.Count < 0:
		return transfer.Errorf(transfer.KindUsage, "template %s has a schedule with a word of more than %d bytes, or a count below 0", of, maxWord)
	}
	return nil
}

// A Param is one parameter. Without a default it must be given.
type Param struct {
	Name    string  `json:"name"`
	Default *string `json:"default,omitempty"`
}

// CheckName refuses an invalid name of a template.
func CheckName(name string) error { return duty.CheckName("template", name) }

// New makes a template of a request, with a parameter for each variable in it. defaults are K=V; a K alone
// says that there is a parameter.
func New(name string, q *transfer.Request, defaults []string) (*Template, error) {
	t := &Template{V: version, Name: name, Request: *q}
	t.Request.ID, t.Request.Submitted, t.Request.Originator = transfer.ID{}, time.Time{}, transfer.Originator{}
	for _, d := range defaults {
		p := Param{}
		k, v, given := strings.Cut(d, "=")
		if p.Name = k; given {
			p.Default = &v
		}
		t.Params = append(t.Params, p)
	}
	used, err := t.variables(q)
	if err != nil {
		return nil, err
	}
	for _, name := range used {
		if t.param(name) == nil {
			t.Params = append(t.Params, Param{Name: name})
		}
	}
	return t, t.Check()
}

// Parse reads a template in JSON and checks all of it.
func Parse(data []byte) (*Template, error) {
	if len(data) > MaxSize {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the template has %d bytes; the limit is %d", len(data), MaxSize).WithHint("use patterns or directories")
	}
	t := &Template{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(t); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the template cannot be read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, transfer.Errorf(transfer.KindUsage, "the template cannot be read: there is more behind its end")
	}
	return t, t.Check()
}

// Check refuses a template that makes no valid request with any values of its parameters.
func (t *Template) Check() error {
	if t.V != version {
		return transfer.Errorf(transfer.KindVersion, "template version %d is not known here; this is version %d", t.V, version)
	}
	if err := CheckName(t.Name); err != nil {
		return err
	}
	if len(t.Params) > maxParams {
		return transfer.Errorf(transfer.KindTooLarge, "template %s has %d parameters; the limit is %d", t.Name, len(t.Params), maxParams)
	}
	used, err := t.variables(&t.Request)
	if err != nil {
		return err
	}
	for n, p := range t.Params {
		switch {
		case !transfer.IsWord(p.Name, 64, "_"):
			return transfer.Errorf(transfer.KindUsage, "parameter %.80q is not valid: 1 to 64 letters, digits or _", p.Name).WithHint("write it as --param K=DEFAULT, or --param K")
		case t.param(p.Name) != &t.Params[n]:
			return transfer.Errorf(transfer.KindUsage, "template %s has the parameter %s twice", t.Name, p.Name)
		case !slices.Contains(used, p.Name):
			return transfer.Errorf(transfer.KindUsage, "nothing in template %s uses the parameter %s", t.Name, p.Name).WithHint("write ${" + p.Name + "} where its value goes; a shell leaves it alone between '…'")
		case p.Default != nil:
			if err := checkValue(p.Name, *p.Default); err != nil {
				return err
			}
			if !utf8.ValidString(*p.Default) {
				return transfer.Errorf(transfer.KindUsage, "the default of %s is no UTF-8", p.Name).WithHint("give it with --set, which takes any bytes")
			}
		}
	}
	for _, name := range used {
		if t.param(name) == nil {
			return transfer.Errorf(transfer.KindUsage, "template %s uses ${%s}, and has no such parameter", t.Name, name)
		}
	}
	if err := t.Schedule.check(t.Name); err != nil {
		return err
	}
	if t.Request.Rest != nil || t.Request.Retry != nil {
		return transfer.Errorf(transfer.KindUsage, "the request of template %s is in parts, or a retry", t.Name)
	}
	q := t.Request
	q.ID = transfer.NewID(time.Now()) // any: whoever sends makes one
	return q.Check()
}

// Export writes the template as Parse reads it, without its maker.
func (t *Template) Export() ([]byte, error) {
	q, err := json.Marshal(&t.Request)
	var of map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(q, &of)
	}
	for _, name := range []string{"id", "submitted", "originator"} { // which a request has when it is sent
		delete(of, name)
	}
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(struct {
		V       int                        `json:"v"`
		Name    string                     `json:"name"`
		Params  []Param                    `json:"params,omitempty"`
		Request map[string]json.RawMessage `json:"request"`
		Later   *Later                     `json:"schedule,omitempty"`
	}{t.V, t.Name, t.Params, of, t.Schedule}, "", "  ")
}

func checkValue(name, value string) error {
	if len(value) > maxDefault || strings.ContainsRune(value, 0) {
		return transfer.Errorf(transfer.KindUsage, "the value of %s has a NUL, or more than %d bytes", name, maxDefault)
	}
	return nil
}

// param is the first parameter of a name; nil where there is none.
func (t *Template) param(name string) *Param {
	for n := range t.Params {
		if t.Params[n].Name == name {
			return &t.Params[n]
		}
	}
	return nil
}

// variables are the names of the parameters in a request, in alphabetical order.
func (t *Template) variables(q *transfer.Request) ([]string, error) {
	found := map[string]bool{}
	find := func(name string, forms []string) (string, error) {
		if len(forms) > 0 {
			return "", transfer.Errorf(transfer.KindUsage, "${%s{%s}} is no parameter of a template", name, forms[0]).WithHint("write it as ${" + name + "}")
		}
		found[name] = true
		return "x", nil // a value that fits everywhere
	}
	once := *q
	once.Programs = nil
	_, err := variable.InRequest(&once, find)
	_, err2 := variable.InPrograms(q.Programs, func(name string, forms []string) (string, error) {
		if variable.OfTransfer(name) && !found[name] && t.param(name) == nil {
			return "", transfer.Errorf(transfer.KindUsage, "%s is a variable of the transfer", name)
		}
		return find(name, forms)
	})
	err = cmp.Or(err, err2)
	return slices.Sorted(maps.Keys(found)), err
}

// ParseSet reads values that are given as K=V.
func ParseSet(entries []string) (map[string]string, error) {
	set := map[string]string{}
	for _, e := range entries {
		k, v, ok := strings.Cut(e, "=")
		if _, twice := set[k]; !ok || k == "" || twice {
			return nil, transfer.Errorf(transfer.KindUsage, "--set %.80q is malformed, or repeats one", e).WithHint("write it as K=V, once for each parameter")
		}
		set[k] = v
	}
	return set, nil
}

// Fill is the request of the template with values for its parameters. It has neither an ID nor a
// submitter of its own.
func (t *Template) Fill(set map[string]string) (*transfer.Request, error) {
	var names, missing []string
	values := map[string]string{}
	for _, p := range t.Params {
		names = append(names, p.Name)
		v, given := set[p.Name]
		switch {
		case given:
			if err := checkValue(p.Name, v); err != nil {
				return nil, err
			}
			values[p.Name] = v
		case p.Default != nil:
			values[p.Name] = *p.Default
		default:
			missing = append(missing, p.Name)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if t.param(k) == nil {
			has := "it has none"
			if len(names) > 0 {
				has = "it has " + strings.Join(names, ", ")
			}
			return nil, transfer.Errorf(transfer.KindUsage, "template %s has no parameter %.80q; %s", t.Name, k, has)
		}
	}
	if len(missing) > 0 {
		return nil, transfer.Errorf(transfer.KindUsage, "template %s needs %s, which has no default", t.Name, strings.Join(missing, ", ")).WithHint("give --set " + missing[0] + "=…")
	}
	return variable.InRequest(&t.Request, func(name string, _ []string) (string, error) {
		if t.param(name) == nil {
			return "", transfer.Errorf(transfer.KindUsage, "template %s has no parameter %.80q", t.Name, name)
		}
		return values[name], nil
	})
}
