// Package variable puts values in the place of variables in the requests of monitors and templates.
//
// A variable is written ${NAME}, in letters of either case, digits and _. Its value is put there as it is and is not
// read again: a ${ in a value is text. $${ stands for ${ itself.
//
// Arguments of programs may have variables of the transfer, too, which have values only when the program runs.
package variable

import (
	"strings"

	"ferry/internal/transfer"
)

// maxResult bounds the text that Expand returns, in bytes.
const maxResult = 64 << 10

// Values returns the value of a variable. Its arguments are the variable's name and the contents of further braces
// behind it, as "toUpper" of ${FileName{toUpper}}. An error of KindUsage says that there is no such variable.
type Values func(name string, forms []string) (string, error)

// Expand returns a text with the values of its variables.
func Expand(text string, values Values) (string, error) {
	var b strings.Builder
	err := expand(text, func(s string) { b.WriteString(s) }, func(name string, forms []string, _ string) error {
		value, err := values(name, forms)
		b.WriteString(value)
		if err == nil {
			err = tooLong(text, b.Len())
		}
		return err
	})
	if err == nil {
		err = tooLong(text, b.Len())
	}
	if err != nil {
		return "", err
	}
	return b.String(), nil
}

func tooLong(text string, size int) error {
	if size <= maxResult {
		return nil
	}
	return transfer.Errorf(transfer.KindTooLarge, "%.80q is, or becomes, longer than %d bytes", text, maxResult)
}

// expand reads a text. It calls plain for the text between the variables, and one for each variable, with the variable
// as it is written.
func expand(text string, plain func(string), one func(name string, forms []string, written string) error) error {
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "${")
		if !ok {
			plain(rest)
			return nil
		}
		if strings.HasSuffix(before, "$") { // $${
			plain(before[:len(before)-1] + "${")
			rest = after
			continue
		}
		plain(before)
		name, forms, left, err := read(after)
		if err != nil {
			return transfer.Errorf(transfer.KindUsage, "%.80q: %w", text, err).WithHint("a variable is written ${NAME}; $${ stands for ${ itself")
		}
		if err := one(name, forms, "${"+after[:len(after)-len(left)]); err != nil {
			return err
		}
		rest = left
	}
}

// read reads a variable, behind its ${.
func read(s string) (name string, forms []string, rest string, err error) {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= '0' && s[n] <= '9' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	if name, s = s[:n], s[n:]; name == "" {
		return "", nil, "", transfer.Errorf(transfer.KindUsage, "${ without a name")
	}
	for strings.HasPrefix(s, "{") {
		form, after, ok := strings.Cut(s[1:], "}")
		if !ok || len(forms) == maxForms {
			return "", nil, "", transfer.Errorf(transfer.KindUsage, "${%s has a { without its }, or more than %d of them", name, maxForms)
		}
		forms, s = append(forms, form), after
	}
	if !strings.HasPrefix(s, "}") {
		return "", nil, "", transfer.Errorf(transfer.KindUsage, "${%s has no }", name)
	}
	return name, forms, s[1:], nil
}

const maxForms = 8

// InRequest returns a copy of a request with the values of its variables: in the sources and destinations of its items,
// in its job, in its metadata and in the arguments of its programs; see InPrograms.
func InRequest(q *transfer.Request, values Values) (*transfer.Request, error) {
	r := *q
	var failed error
	in := func(s string) string {
		s, err := Expand(s, values)
		if failed == nil {
			failed = err
		}
		return s
	}
	at := func(l transfer.Location) transfer.Location {
		l, err := InLocation(l, values)
		if failed == nil {
			failed = err
		}
		return l
	}
	r.Dest, r.Base, r.Job = at(q.Dest), at(transfer.File(q.Base)).Path, in(q.Job)
	r.Items = make([]transfer.RequestItem, len(q.Items))
	for n, it := range q.Items {
		it.Source, it.Dest = at(it.Source), at(it.Dest)
		r.Items[n] = it
	}
	if q.Meta != nil {
		r.Meta = make(map[string]string, len(q.Meta))
		for k, v := range q.Meta {
			r.Meta[k] = in(v)
		}
	}
	programs, err := InPrograms(q.Programs, values)
	if failed == nil {
		failed = err
	}
	r.Programs = programs
	return &r, failed
}
