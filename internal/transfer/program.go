package transfer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of the triggers and programs of a request.
const (
	MaxTriggers      = 32
	MaxTriggerFiles  = 32 // of one trigger
	MaxProgramName   = 255
	MaxProgramArgs   = 64
	MaxProgramBytes  = 8 << 10 // of the arguments of one program
	MaxProgramCode   = 1<<31 - 1
	maxProgramRanges = 64
	MaxRetries       = 100
	MaxProgramTime   = 24 * time.Hour // of one run, and of a pause

	DefaultProgramTime = 10 * time.Minute
)

// The conditions of a Trigger.
const (
	TriggerExist   = "exist"
	TriggerNoExist = "noexist"
	TriggerSize    = "size" // it exists, with at least that many bytes
)

// A Trigger is a condition at the source's agent for the begin of a transfer. At least one of its files must meet it.
// If there are several triggers, each must be met.
type Trigger struct {
	When  string `json:"when"`
	Size  int64  `json:"size,omitempty"` // with TriggerSize
	Files []Path `json:"files"`
}

// ParseTrigger reads exist:PATH, noexist:PATH and size>=N:PATH.
func ParseTrigger(s string) (t Trigger, err error) {
	when, file, ok := strings.Cut(s, ":")
	size, sized := strings.CutPrefix(when, TriggerSize+">=")
	if sized {
		n, err := ParseSize(size)
		if err != nil {
			return t, err
		}
		when, t.Size = TriggerSize, int64(n)
	}
	t.When, t.Files = when, []Path{Path(file)}
	if !ok || when == TriggerSize && !sized {
		return t, Errorf(KindUsage, "trigger %.100q is malformed", s).WithHint("write it as exist:PATH, noexist:PATH or size>=10M:PATH")
	}
	return t, t.check()
}

// Unmet describes the state of the files that does not meet the trigger.
func (t *Trigger) Unmet() string {
	s := t.Files[0].String()
	if n := len(t.Files) - 1; n > 0 {
		s += fmt.Sprintf(", and each of %d more,", n)
	}
	switch t.When {
	case TriggerNoExist:
		return s + " exists"
	case TriggerSize:
		return fmt.Sprintf("%s does not exist as a file of %d bytes or more", s, t.Size)
	}
	return s + " does not exist"
}

func (t *Trigger) check() error {
	switch t.When {
	case TriggerExist, TriggerNoExist, TriggerSize:
	default:
		return Errorf(KindUsage, "trigger %.40q is unknown; it is one of exist, noexist, size", t.When)
	}
	if t.Size < 0 || t.Size > 0 && t.When != TriggerSize {
		return Errorf(KindUsage, "a trigger of %s has a size of %d bytes", t.When, t.Size)
	}
	if len(t.Files) == 0 || len(t.Files) > MaxTriggerFiles {
		return Errorf(KindUsage, "a trigger names %d files; it names 1 to %d", len(t.Files), MaxTriggerFiles)
	}
	for _, p := range t.Files {
		if err := p.Check(); err != nil {
			return err
		}
	}
	return nil
}

// A CallPoint is the time and the agent of a program's run.
type CallPoint string

// The call points.
const (
	PreSource  CallPoint = "pre-source"       // at the source, before the destination is asked
	PostSource CallPoint = "post-source"      // at the source, when every outcome is recorded and sources are deleted
	PreDest    CallPoint = "pre-destination"  // at the destination, before it accepts
	PostDest   CallPoint = "post-destination" // at the destination, when every item is decided

	// ManagedCall is the call point of a program that belongs to no transfer. CallPoints does not include it.
	ManagedCall CallPoint = "call"
)

// CallPoints returns all call points of a transfer, in the order in which it reaches them.
func CallPoints() []CallPoint { return []CallPoint{PreSource, PreDest, PostDest, PostSource} }

// AtDest reports whether the destination's agent runs the program.
func (c CallPoint) AtDest() bool { return c == PreDest || c == PostDest }

// Post reports whether the program runs after all items are decided.
func (c CallPoint) Post() bool { return c == PostSource || c == PostDest }

// Noun names the program of the call point, as in "the pre-source program".
func (c CallPoint) Noun() string {
	if c == ManagedCall {
		return "the program"
	}
	if point, exit := strings.CutSuffix(string(c), exitSuffix); exit {
		return "the " + point + " exit"
	}
	return "the " + string(c) + " program"
}

// A Program is a program that an agent runs. It runs without a shell, so each argument stays one argument.
type Program struct {
	Name    string   `json:"name"` // beneath one of the agent's directories of programs, or absolute there, with '/' between its parts
	Args    []string `json:"args,omitempty"`
	Timeout Duration `json:"timeout,omitempty"` // of one run; 0: DefaultProgramTime
	Retries int      `json:"retries,omitempty"` // further runs after a failure
	Pause   Duration `json:"pause,omitempty"`   // before each further run
	Success Codes    `json:"success,omitempty"` // exit codes that mean success; empty: 0
}

// Time returns the time limit of one run.
func (p *Program) Time() time.Duration {
	if p.Timeout == 0 {
		return DefaultProgramTime
	}
	return time.Duration(p.Timeout)
}

// Check refuses a program that cannot be run at a call point.
func (p *Program) Check(at CallPoint) error {
	bad := func(format string, args ...any) error {
		return Errorf(KindUsage, at.Noun()+" "+format, args...)
	}
	if p.Name == "" || len(p.Name) > MaxProgramName || !utf8.ValidString(p.Name) {
		return bad("has no name, or one of more than %d bytes", MaxProgramName)
	}
	for _, part := range strings.Split(withoutRoot(p.Name), "/") {
		// ':' and '\' mean a volume, a stream or a directory to some systems.
		if part == "" || part[0] == '.' || strings.ContainsAny(part, `\:`) || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return Errorf(KindUsage, "the name of %s, %.100q, leads out of the agent's directories of programs, or has characters that no program's name has", at.Noun(), p.Name).
				WithHint(`name it as it is beneath such a directory, as load.sh or db/load.sh, or by its whole path: without parts that begin with a dot, ':' or '\'`)
		}
	}

	if len(p.Args) > MaxProgramArgs {
		return bad("has %d arguments; the limit is %d", len(p.Args), MaxProgramArgs)
	}
	size := 0
	for n, a := range p.Args {
		if size += len(a) + 1; size > MaxProgramBytes {
			return Errorf(KindTooLarge, "the arguments of %s have more than %d bytes, the limit", at.Noun(), MaxProgramBytes)
		}
		if !utf8.ValidString(a) || strings.ContainsRune(a, 0) {
			return bad("has a NUL, or bytes that are not UTF-8, in argument %d", n+1)
		}
	}
	for _, d := range []Duration{p.Timeout, p.Pause} {
		if d < 0 || time.Duration(d) > MaxProgramTime {
			return bad("has a time of %s; the limit is %s", d, MaxProgramTime)
		}
	}
	if p.Retries < 0 || p.Retries > MaxRetries {
		return bad("has %d retries; the limit is %d", p.Retries, MaxRetries)
	}
	_, err := p.Success.ranges()
	return err
}

// withoutRoot returns an absolute name without the / or the drive that it begins with.
func withoutRoot(name string) string {
	if len(name) > 3 && name[1] == ':' && name[2] == '/' && 'a' <= name[0]|0x20 && name[0]|0x20 <= 'z' {
		name = name[2:]
	}
	return strings.TrimPrefix(name, "/")
}

// Codes is a list of exit codes, as 0,4 or 0,4-8.
type Codes string

// Has reports whether the list includes a code.
func (c Codes) Has(code int) bool {
	all, err := c.ranges()
	return err == nil && slices.ContainsFunc(all, func(r [2]int) bool { return r[0] <= code && code <= r[1] })
}

func (c Codes) ranges() (all [][2]int, err error) {
	if c == "" {
		return [][2]int{{0, 0}}, nil
	}
	bad := Errorf(KindUsage, "the exit codes %.100q are malformed", string(c)).WithHint("write them as 0,4 or 0,4-8")
	parts := strings.Split(string(c), ",")
	if len(parts) > maxProgramRanges {
		return nil, bad
	}
	for _, part := range parts {
		from, to, span := strings.Cut(part, "-")
		if !span {
			to = from
		}
		low, err := strconv.ParseUint(from, 10, 31)
		high, err2 := strconv.ParseUint(to, 10, 31)
		if err != nil || err2 != nil || low > high {
			return nil, bad
		}
		all = append(all, [2]int{int(low), int(high)})
	}
	return all, nil
}

// Programs are the programs before and after a transfer. nil means none.
type Programs struct {
	PreSource  *Program `json:"pre_source,omitempty"`
	PostSource *Program `json:"post_source,omitempty"`
	PreDest    *Program `json:"pre_destination,omitempty"`
	PostDest   *Program `json:"post_destination,omitempty"`
}

// At returns the program of a call point, or nil.
func (p *Programs) At(at CallPoint) *Program {
	if f := p.field(at); f != nil {
		return *f
	}
	return nil
}

// Set sets the program of a call point.
func (p *Programs) Set(at CallPoint, to *Program) { *p.field(at) = to }

func (p *Programs) field(at CallPoint) **Program {
	if p == nil {
		return nil
	}
	return map[CallPoint]**Program{PreSource: &p.PreSource, PostSource: &p.PostSource, PreDest: &p.PreDest, PostDest: &p.PostDest}[at]
}

// OfDest returns the programs that the destination's agent runs, or nil.
func (p *Programs) OfDest() *Programs {
	if p == nil || p.PreDest == nil && p.PostDest == nil {
		return nil
	}
	return &Programs{PreDest: p.PreDest, PostDest: p.PostDest}
}

// OfSource returns the programs that the source's agent runs, or nil.
func (p *Programs) OfSource() *Programs {
	if p == nil || p.PreSource == nil && p.PostSource == nil {
		return nil
	}
	return &Programs{PreSource: p.PreSource, PostSource: p.PostSource}
}

// checkPrograms checks triggers and programs.
func (r *Request) checkPrograms() error {
	if len(r.Triggers) > MaxTriggers {
		return Errorf(KindUsage, "the request has %d triggers; the limit is %d", len(r.Triggers), MaxTriggers)
	}
	for n := range r.Triggers {
		if err := r.Triggers[n].check(); err != nil {
			return err
		}
	}
	for _, at := range CallPoints() {
		if p := r.Programs.At(at); p != nil {
			if err := p.Check(at); err != nil {
				return err
			}
		}
	}
	if r.Stored() && r.Programs.At(PreDest) != nil {
		return Errorf(KindUsage, "--pre-destination runs before anything is sent, and --delivery stored sends before the destination is there").
			WithHint("leave one of them out, or use --post-destination")
	}
	return nil
}

// MaxOutput is the most output of a program that is kept, in bytes, from its end.
const MaxOutput = 4 << 10

// A Ran is the result of one run of a program.
type Ran struct {
	At      CallPoint `json:"at"`
	Name    string    `json:"name"`
	Args    []string  `json:"args,omitempty"`
	Attempt int       `json:"attempt"`          // from 1
	Code    int       `json:"exit_code"`        // -1: it did not end by itself
	Seconds float64   `json:"seconds"`          // duration of the run
	Output  string    `json:"output,omitempty"` // the end of the output
	Cut     int64     `json:"cut,omitempty"`    // bytes of output before that; they were dropped
}

// A Call is a run of a program for a transfer.
type Call struct {
	At        CallPoint
	Request   *Request  // with the program in its Programs
	Principal string    // the user of the transfer
	State     State     // of post: the final state, as far as it is known
	Counts    Counts    // of post
	Into      Path      // of the destination: the resolved DEST
	Files     ExitFiles // of the source, for exits; nil: they are not known
}

// Program returns the program of the call, or nil.
func (c *Call) Program() *Program { return c.Request.Programs.At(c.At) }
