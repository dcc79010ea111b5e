package variable

import (
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// The variables of a transfer, which arguments of its programs may have. Letters of either case are the same in them.
const (
	TransferID  = "TransferId"
	JobName     = "JobName"
	Originator  = "Originator"
	SourceAgent = "SourceAgent"
	DestAgent   = "DestinationAgent"
	Attempt     = "Attempt"
	Meta        = "Meta"        // ${Meta{NAME}}: the metadata NAME
	Destination = "Destination" // of post-destination: the DEST that the transfer has chosen
	State       = "State"       // of programs after a transfer, as the three that follow
	Files       = "Files"
	FilesFailed = "FilesFailed"
	Bytes       = "Bytes"
	Dollar      = "Dollar" // a $, for one in front of a variable
)

// plain are those that every program may have, and afterwards those after a transfer.
var (
	plain      = []string{TransferID, JobName, Originator, SourceAgent, DestAgent, Attempt, Meta, Dollar}
	afterwards = []string{State, Files, FilesFailed, Bytes}
)

// ofTransfer is the name of a variable of a transfer as it is written above; "" where it is none.
func ofTransfer(name string) string {
	for _, all := range [][]string{plain, afterwards, {Destination}} {
		if n := slices.IndexFunc(all, func(s string) bool { return strings.EqualFold(s, name) }); n >= 0 {
			return all[n]
		}
	}
	return ""
}

// OfTransfer reports whether a name is that of a variable of a transfer.
func OfTransfer(name string) bool { return ofTransfer(name) != "" }

// at are the variables that a program may have.
func at(point transfer.CallPoint) []string {
	all := slices.Clone(plain)
	if point.Post() {
		all = append(all, afterwards...)
	}
	if point == transfer.PostDest {
		all = append(all, Destination)
	}
	return all
}

// CheckPrograms refuses arguments of programs that have variables which a transfer does not have there.
func CheckPrograms(q *transfer.Request) error {
	for _, point := range transfer.CallPoints() {
		if p := q.Programs.At(point); p != nil {
			if _, err := Arguments(p, point, nil, q.Meta); err != nil {
				return err
			}
		}
	}
	return nil
}

// Arguments returns the arguments of a program with a transfer's values, by the names above, and its metadata in the
// place of variables. Each stays one argument with any values.
func Arguments(p *transfer.Program, point transfer.CallPoint, values, meta map[string]string) ([]string, error) {
	args := make([]string, len(p.Args))
	for n, arg := range p.Args {
		var err error
		args[n], err = Expand(arg, func(name string, forms []string) (string, error) {
			known := ofTransfer(name)
			switch {
			case known == "" || !slices.Contains(at(point), known):
				return "", transfer.Errorf(transfer.KindUsage, "there is no variable %.40s for %s; it has %s", name, point.Noun(), strings.Join(at(point), ", ")).
					WithHint("$${ stands for ${ itself")
			case known == Dollar && len(forms) == 0:
				return "$", nil
			case known == Meta && len(forms) == 1:
				value, ok := meta[forms[0]]
				if !ok {
					return "", transfer.Errorf(transfer.KindUsage, "${%s{%.80s}}: the transfer has no such metadata", name, forms[0])
				}
				return value, nil
			case known == Meta, len(forms) > 0:
				return "", transfer.Errorf(transfer.KindUsage, "${%s} is malformed: ${Meta{NAME}} is the metadata NAME, and other variables of a transfer have nothing in further braces", name)
			}
			return values[known], nil
		})
		if err != nil {
			return nil, err
		}
	}
	full := *p
	full.Args = args
	return args, full.Check(point)
}

// InPrograms returns programs with the values of variables in their arguments. A variable that values refuses and a
// transfer has stays, for Arguments; no value is taken for a variable there.
func InPrograms(of *transfer.Programs, values Values) (*transfer.Programs, error) {
	if of == nil {
		return nil, nil
	}
	all := &transfer.Programs{}
	for _, point := range transfer.CallPoints() {
		p := of.At(point)
		if p == nil {
			continue
		}
		one := *p
		one.Args = make([]string, len(p.Args))
		for n, arg := range p.Args {
			var err error
			if one.Args[n], err = fill(arg, values); err != nil {
				return nil, err
			}
		}
		all.Set(point, &one)
	}
	return all, nil
}

// fill puts values into a text that is expanded again later. Expand makes of the result the text with these values as
// they are.
func fill(text string, values Values) (string, error) {
	var b strings.Builder
	var said string // text that Expand has yet to read, and that is not in b
	err := expand(text, func(s string) { said += s }, func(name string, forms []string, written string) error {
		value, err := values(name, forms)
		switch {
		case err == nil:
			said += value
		case OfTransfer(name):
			// A $ before it would be read as a part of $${.
			s := strings.TrimRight(said, "$")
			b.WriteString(escape(s) + strings.Repeat("${"+Dollar+"}", len(said)-len(s)) + written)
			said = ""
		default:
			return err
		}
		return tooLong(text, b.Len()+len(said))
	})
	b.WriteString(escape(said))
	return b.String(), err
}

// escape returns a text that Expand turns into s.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }
