package commands

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ferry/internal/content/record"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// A request makes a document of the options of fteCreateTransfer. It keeps the first error.
type request struct {
	*Call
	err error
}

// Transfer returns the document that the options of fteCreateTransfer request. definition is the document of -td, or
// nil. Errors are of KindUsage.
func (c *Call) Transfer(definition *mftxml.Document) (*mftxml.Document, error) {
	r := &request{Call: c}
	if definition != nil {
		return r.defined(definition)
	}
	t := &mftxml.Transfer{Source: r.agent("sa"), Destination: r.agent("da")}
	t.Set.Recovery = -1
	r.around(t)
	t.Set.Items = r.items()
	return &mftxml.Document{Transfer: t}, r.err
}

// defined returns the document of a definition file, with the options that are given. A <request> in it names the
// agents and the parts around the items that no option says.
func (r *request) defined(d *mftxml.Document) (*mftxml.Document, error) {
	r.nothingBeside()
	t := &mftxml.Transfer{}
	switch {
	case d.Transfer != nil:
		*t = *d.Transfer
		t.Reply = ""
	case d.Items != nil:
		t.Set = mftxml.Set{Recovery: -1, Items: d.Items}
	default:
		r.bad("the file of -td is no definition: it has neither <transferSpecifications> nor a <request> for a transfer")
	}
	if t.Source == "" || r.Has("sa") {
		t.Source = r.agent("sa")
	}
	if t.Destination == "" || r.Has("da") {
		t.Destination = r.agent("da")
	}
	r.around(t)
	return &mftxml.Document{ID: d.ID, Transfer: t}, r.err
}

// around sets the parts of a transfer beside its agents and items that options give.
func (r *request) around(t *mftxml.Transfer) {
	if r.Has("jn") {
		t.Job = r.Get("jn")
	}
	if s := r.schedule(); s != nil {
		t.Schedule = s
	}
	if one := r.trigger(); one != nil {
		t.Trigger = one
	}
	t.Set.Priority, t.Set.Recovery = r.number("pr", t.Set.Priority, 0, 9), r.number("rt", t.Set.Recovery, -1, 1<<31-1)
	if meta := r.pairs("md"); meta != nil {
		t.Set.Meta = meta
	}
	for _, p := range []struct {
		option string
		to     **mftxml.Command
	}{{"presrc", &t.Set.Programs.PreSource}, {"postsrc", &t.Set.Programs.PostSource}, {"predst", &t.Set.Programs.PreDest}, {"postdst", &t.Set.Programs.PostDest}} {
		if c := r.program(p.option); c != nil {
			*p.to = c
		}
	}
}

func (r *request) bad(format string, args ...any) {
	if r.err == nil {
		r.err = r.usage(format, args...)
	}
}

// nothingBeside refuses options of items together with a definition file.
func (r *request) nothingBeside() {
	for _, o := range []string{"cs", "sce", "dce", "dle", "dtr", "qmp", "qi", "df", "dd", "ds", "dp", "dq", "du", "qs", "dqdb", "dqdt", "dqdp", "dfa", "de", "t", "dqp", "sd", "r", "sq", "sqgi", "sqwt", "sqdb", "sqdt", "sqdp", "skeep"} {
		if r.Has(o) {
			r.bad("-%s does not go with -td: the definition file says it", o)
		}
	}
	if len(r.Args) > 0 {
		r.bad("the source %q does not go with -td: the definition file names the sources", r.Args[0])
	}
}

func (r *request) agent(option string) transfer.AgentName {
	if r.Get(option) == "" {
		r.bad("-%s AGENT is missing", option)
		return ""
	}
	if name := r.Get(option); strings.Contains(name, "${") && r.Has("gt") {
		return transfer.AgentName(name) // of the task of a monitor
	}
	a, err := r.Agent(r.Get(option))
	if err != nil && r.err == nil {
		r.err = err
	}
	return a
}

func (r *request) number(option string, otherwise, low, high int) int {
	if !r.Has(option) {
		return otherwise
	}
	n, err := strconv.Atoi(r.Get(option))
	if err != nil || n < low || n > high {
		r.bad("-%s %s is out of range; it is a number from %d to %d", option, r.Get(option), low, high)
	}
	return n
}

// word returns the value of an option that takes one of a few words, in lower case; the first is its default.
func (r *request) word(option string, words ...string) string {
	if !r.Has(option) {
		return words[0]
	}
	w := strings.ToLower(r.Get(option))
	if !slices.Contains(words, w) {
		r.bad("-%s %s is unknown; it is one of %s", option, r.Get(option), strings.Join(words, ", "))
	}
	return w
}

// pairs returns the value of an option that takes KEY=VALUE,KEY=VALUE, or nil if it is not given.
func (r *request) pairs(option string) (all map[string]string) {
	if !r.Has(option) {
		return nil
	}
	all = map[string]string{}
	for pair := range strings.SplitSeq(r.Get(option), ",") {
		k, v, ok := strings.Cut(pair, "=")
		if _, twice := all[k]; !ok || k == "" || twice {
			r.bad("-%s %q is malformed; write it as KEY=VALUE,KEY=VALUE", option, r.Get(option))
		}
		all[k] = v
	}
	return all
}

// Layouts of a time in -ss and -es.
const (
	dateLayout = "2006-01-02T15:04"
	hourLayout = "15:04"
)

func (r *request) time(option string) string {
	v := r.Get(option)
	if v == "" {
		return ""
	}
	for _, l := range []string{dateLayout, "2006-01-02T15:04:05", hourLayout} {
		if _, err := time.Parse(l, v); err == nil {
			return v
		}
	}
	r.bad("-%s %s is no time; write it as yyyy-MM-ddThh:mm or hh:mm", option, v)
	return v
}

func (r *request) schedule() *mftxml.Schedule {
	repeats := slices.ContainsFunc([]string{"oi", "of", "oc", "es"}, r.Has)
	if !r.Has("ss") && !repeats && !r.Has("tb") {
		return nil
	}
	s := &mftxml.Schedule{Start: r.time("ss"), TimeBase: r.word("tb", "admin", "source", "utc"), Until: r.time("es"), Count: r.number("oc", 0, 1, 1<<31-1)}
	switch {
	case !r.Has("ss"):
		r.bad("-ss, the time of the first transfer, is missing")
	case repeats && !r.Has("oi"):
		r.bad("-oi, the interval, is missing")
	case r.Has("oc") && r.Has("es"):
		r.bad("-oc and -es do not go together")
	}
	if repeats {
		s.Interval, s.Every = r.word("oi", "minutes", "hours", "days", "weeks", "months", "years"), r.number("of", 1, 1, 1<<31-1)
	}
	return s
}

func (r *request) trigger() *mftxml.Trigger {
	if !r.Has("tr") {
		if r.Has("tl") {
			r.bad("-tl belongs to -tr")
		}
		return nil
	}
	condition, names, _ := strings.Cut(r.Get("tr"), ",")
	c := mftxml.TriggerCondition{}
	for f := range strings.SplitSeq(names, ",") {
		if f != "" {
			c.Files = append(c.Files, transfer.Path(f))
		}
	}
	low := strings.ToLower(condition)
	digits, units, sized := sizeOf(low)
	switch {
	case len(c.Files) == 0:
		r.bad("-tr %q names no file; write it as file=exist,FILE", r.Get("tr"))
	case low == "file=exist":
		c.Comparison, c.Value = "=", "exist"
	case low == "file!=exist":
		c.Comparison, c.Value = "!=", "exist"
	case sized:
		c.Size, c.Comparison, c.Value, c.Units = true, ">=", digits, units
	default:
		r.bad("-tr %q is unknown; it is file=exist, file!=exist or filesize>=SIZE, and files behind a comma", condition)
	}
	return &mftxml.Trigger{Log: r.Has("tl") && !strings.EqualFold(r.Get("tl"), "no"), Conditions: []mftxml.TriggerCondition{c}}
}

// sizeOf parses filesize>=NUNITS, in lower case.
func sizeOf(condition string) (digits, units string, ok bool) {
	size, ok := strings.CutPrefix(condition, "filesize>=")
	digits = strings.TrimRight(size, "kmgb")
	units = cmp.Or(size[len(digits):], "b")
	return digits, units, ok && isNumber(digits) && slices.Contains([]string{"b", "kb", "mb", "gb"}, units)
}

// program parses [TYPE:]COMMAND[(ARGUMENT,…)][,RETRIES[,WAIT[,CODES]]]. A backslash takes away the meaning of a comma, a
// bracket and a backslash.
func (r *request) program(option string) *mftxml.Command {
	if !r.Has(option) {
		return nil
	}
	spec := r.Get(option)
	c := &mftxml.Command{Type: "executable"}
	for _, t := range []string{"executable", "antscript", "jcl"} {
		if rest, ok := strings.CutPrefix(spec, t+":"); ok {
			c.Type, spec = t, rest
		}
	}
	parts := unescapedSplit(spec, ',')
	name, rest := parts[0], strings.TrimPrefix(spec[len(parts[0]):], ",")
	if before := unescapedSplit(spec, '('); len(before) > 1 && len(before[0]) < len(name) {
		within := unescapedSplit(spec[len(before[0])+1:], ')')
		if len(within) == 1 {
			r.bad("-%s %q has no bracket behind the arguments", option, spec)
			return c
		}
		behind := within[len(within)-1]
		arguments := strings.TrimSuffix(spec[len(before[0])+1:], ")"+behind)
		name, rest = before[0], strings.TrimPrefix(behind, ",")
		for _, a := range unescapedSplit(arguments, ',') {
			r.argument(c, unescaped(a))
		}
	}
	c.Name = unescaped(name)
	tries := strings.SplitN(rest, ",", 3)
	for n, to := range []*int{&c.RetryCount, &c.RetryWait} {
		if n < len(tries) && tries[n] != "" {
			v, err := strconv.Atoi(tries[n])
			if err != nil || v < 0 {
				r.bad("-%s %q: %q is no number", option, spec, tries[n])
			}
			*to = v
		}
	}
	if len(tries) == 3 {
		c.SuccessRC = tries[2]
	}
	if c.Name == "" {
		r.bad("-%s names no program", option)
	}
	return c
}

// unescapedSplit splits a text at each sign that has no backslash before it. It has one part at least.
func unescapedSplit(s string, sign byte) (parts []string) {
	from := 0
	for n := 0; n < len(s); n++ {
		switch {
		case escapes(s, n):
			n++
		case s[n] == sign:
			parts, from = append(parts, s[from:n]), n+1
		}
	}
	return append(parts, s[from:])
}

// escapes reports whether a byte of a text is a backslash that takes away the meaning of the next one.
func escapes(s string, n int) bool {
	return s[n] == '\\' && n+1 < len(s) && strings.IndexByte(`,()\`, s[n+1]) >= 0
}

// unescaped returns a text without the backslashes that take away a meaning. Others, as in a path of Windows, stay.
func unescaped(s string) string {
	var b strings.Builder
	for n := 0; n < len(s); n++ {
		if escapes(s, n) {
			n++
		}
		b.WriteByte(s[n])
	}
	return b.String()
}

// argument adds an argument; an antscript has properties and targets.
func (r *request) argument(c *mftxml.Command, a string) {
	k, v, pair := strings.Cut(a, "=")
	switch {
	case a == "":
	case c.Type != "antscript":
		c.Args = append(c.Args, a)
	case pair:
		if c.Properties == nil {
			c.Properties = map[string]string{}
		}
		c.Properties[k] = v
	default:
		c.Targets = append(c.Targets, a)
	}
}

func (r *request) items() []mftxml.Item {
	if len(r.Args) == 0 {
		r.bad("no source is given")
	}
	dest := r.dest()
	r.onlyWith("sq", "sqgi", "sqwt", "sqdb", "sqdt", "sqdp")
	r.onlyWith("dq", "qs", "dqdb", "dqdt", "dqdp", "dqp", "qmp", "qi")
	var items []mftxml.Item
	for _, source := range r.Args {
		it := mftxml.Item{Mode: r.word("t", transfer.ModeBinary, transfer.ModeText), Checksum: r.word("cs", "md5", "none", "xxh3", "sha256"), Dest: dest}
		it.Source = mftxml.Source{Recursive: r.Has("r"), KeepBlank: r.Has("skeep"), Delete: r.word("sd", transfer.DispositionLeave, transfer.DispositionDelete) == transfer.DispositionDelete}
		if r.Has("sq") {
			it.Source.Queue = &mftxml.Queue{Name: source, Attributes: r.fromQueue()}
			it.Source.Delete = it.Source.Delete || !r.Has("sd") // MQ MFT always removes messages from a queue
		} else {
			it.Source.File = mftxml.File{Path: transfer.Path(source), Encoding: r.Get("sce")}
		}
		items = append(items, it)
	}
	return items
}

// onlyWith refuses options that need another option.
func (r *request) onlyWith(option string, belong ...string) {
	for _, o := range belong {
		if r.Has(o) && !r.Has(option) {
			r.bad("-%s belongs to -%s", o, option)
		}
	}
}

func (r *request) fromQueue() map[string]string {
	a := map[string]string{"encoding": r.Get("sce")}
	if r.Has("sqgi") {
		a["useGroups"] = "true"
	}
	r.delimiter(a, "sqdb", "binary", "sqdt", "text", "sqdp")
	if r.Has("sqwt") {
		a["waitTime"] = strconv.Itoa(r.number("sqwt", 0, 0, 1<<31-1))
	}
	maps.DeleteFunc(a, func(_, v string) bool { return v == "" })
	return a
}

// delimiter reads two options for a delimiter. At most one may be given.
func (r *request) delimiter(a map[string]string, option1, type1, option2, type2, position string) {
	for _, d := range []struct{ option, is string }{{option1, type1}, {option2, type2}} {
		if !r.Has(d.option) {
			continue
		}
		if a["delimiter"] != "" {
			r.bad("-%s and another delimiter do not go together", d.option)
		}
		a["delimiter"], a["delimiterType"] = r.Get(d.option), d.is
	}
	if r.Has(position) && a["delimiter"] == "" {
		r.bad("-%s says where a delimiter is, and there is none", position)
	}
	if r.Has(position) {
		a["delimiterPosition"] = r.word(position, "prefix", "postfix")
	}
}

// dest returns the only destination of all sources.
func (r *request) dest() (d mftxml.Dest) {
	var given []string
	for _, o := range []string{"df", "dd", "ds", "dp", "dq", "du"} {
		if r.Has(o) {
			given = append(given, "-"+o)
		}
	}
	if len(given) != 1 {
		r.bad("one destination is needed, with -df, -dd, -ds, -dp or -dq; %d are given %s", len(given), strings.Join(given, " "))
		return d
	}

	d = mftxml.Dest{Exist: r.word("de", transfer.IfExistsError, transfer.IfExistsOverwrite, transfer.IfExistsSkip, transfer.IfExistsUpdate, transfer.IfExistsRename, transfer.IfExistsAppend)}
	option := strings.TrimPrefix(given[0], "-")
	path := r.Get(option)
	switch option {
	case "df":
		d.Type = "file"
		if strings.HasSuffix(path, "/") {
			r.bad("-df %s ends in a slash; a directory is -dd", path)
		}
	case "dd":
		d.Type, path = "directory", strings.TrimSuffix(path, "/")+"/"
	case "ds", "dp":
		d.Type, path = "dataset", dataset(withoutAllocation(path), withoutAllocation(r.Get("dfa")))
	case "dq":
		d.Type, d.Queue = "queue", &mftxml.Queue{Name: path, Attributes: r.toQueue()}
		return d
	case "du":
		r.err = transfer.Errorf(transfer.KindNotBuilt, "-du sends to a file space, which Ferry does not have").WithHint("use -dd")
	}
	if r.Has("dfa") && d.Type != "dataset" {
		r.bad("-dfa belongs to -ds and -dp")
	}
	if r.Has("dtr") {
		d.Long = "truncate"
	}
	d.File = mftxml.File{Path: transfer.Path(path), Encoding: r.Get("dce"), EOL: r.word("dle", "", "lf", "crlf", "nl")}
	return d
}

// Dataset returns a data set as in a location, and the names of its attributes without effect.
func Dataset(name, attributes string) (location string, without []string) {
	_, of := record.WithoutAllocation(name)
	_, more := record.WithoutAllocation(attributes)
	return dataset(withoutAllocation(name), withoutAllocation(attributes)), append(of, more...)
}

// withoutAllocation returns a data set, or attributes of one, without those that Notices reports.
func withoutAllocation(text string) string {
	rest, _ := record.WithoutAllocation(text)
	return rest
}

// dataset returns a data set as in a location: its name in quotes, followed by attributes.
func dataset(name, attributes string) string {
	if name = strings.TrimPrefix(name, "//"); !strings.HasPrefix(name, "'") {
		end := strings.IndexAny(name, ",;")
		if end < 0 {
			end = len(name)
		}
		name = "'" + name[:end] + "'" + name[end:]
	}
	if attributes != "" {
		name += "," + attributes
	}
	return "//" + name
}

func (r *request) toQueue() map[string]string {
	a := map[string]string{"persistent": r.word("dqp", "true", "false", "qdef"), "setMqProps": r.word("qmp", "", "true", "false"), "encoding": r.Get("dce"), "EOL": r.word("dle", "", "lf", "crlf", "nl")}
	r.delimiter(a, "dqdb", "binary", "dqdt", "pattern", "dqdp")
	if r.Has("qs") {
		if a["delimiter"] != "" {
			r.bad("-qs and a delimiter do not go together")
		}
		a["delimiter"], a["delimiterType"] = r.Get("qs"), "size"
	}
	if r.Has("qi") {
		a["includeDelimiterInMessage"] = "true"
	}
	maps.DeleteFunc(a, func(_, v string) bool { return v == "" })
	return a
}
