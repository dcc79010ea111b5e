package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"ferry/internal/transfer"
)

// callFlags are the flags for triggers and for programs before and after a transfer.
type callFlags struct {
	triggers []string
	programs map[transfer.CallPoint]*programFlags
}

// programFlags are the flags of one program.
type programFlags struct {
	program string
	args    []string
}

// callUsage is the usage text of each call point: when its program runs.
var callUsage = map[transfer.CallPoint]string{
	transfer.PreSource:  "a program that the source's agent runs before it asks the destination",
	transfer.PostSource: "a program that the source's agent runs when every outcome is on record",
	transfer.PreDest:    "a program that the destination's agent runs before it accepts the transfer",
	transfer.PostDest:   "a program that the destination's agent runs when every file has come or failed",
}

func (f *callFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.triggers, "trigger", nil, "start only if it is so at the source when the transfer is about to begin: exist:PATH, noexist:PATH or size>=10M:PATH; may be repeated, then each must be so")
	f.programs = map[transfer.CallPoint]*programFlags{}
	for _, at := range transfer.CallPoints() {
		p := &programFlags{}
		f.programs[at] = p
		fl.StringVar(&p.program, string(at), "", callUsage[at]+": its name, or JSON as {\"name\":\"load.sh\",\"args\":[\"a b\"],\"timeout\":\"30s\",\"retries\":2,\"pause\":\"5s\",\"success\":\"0,4-8\"}")
		fl.StringArrayVar(&p.args, string(at)+"-arg", nil, "an argument of --"+string(at)+", taken as it is; may be repeated")
	}
}

// take takes the flags into a request; a command may have none of them.
func (f *callFlags) take(q *transfer.Request) error {
	for _, s := range f.triggers {
		t, err := transfer.ParseTrigger(s)
		if err != nil {
			return err
		}
		q.Triggers = append(q.Triggers, t)
	}
	for _, at := range transfer.CallPoints() {
		given := f.programs[at]
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

// parse reads NAME or a JSON object, with the arguments that have flags of their own behind it.
func (f *programFlags) parse(at transfer.CallPoint) (*transfer.Program, error) {
	if f.program == "" {
		if len(f.args) > 0 {
			return nil, transfer.Errorf(transfer.KindUsage, "--%s-arg is given, and no --%s", at, at)
		}
		return nil, nil
	}
	p := &transfer.Program{Name: f.program}
	if strings.HasPrefix(f.program, "{") {
		p = &transfer.Program{}
		d := json.NewDecoder(bytes.NewReader([]byte(f.program)))
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
	p.Args = append(p.Args, f.args...)
	return p, nil
}
