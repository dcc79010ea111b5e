package xml

import (
	"strconv"
	"strings"

	"ferry/internal/content/record"
	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// A documentReader reads elements into a document.
type documentReader struct {
	tree.Reader
	doc *Document
}

// ignores reads an attribute without effect, and lists it in Ignored.
func (r *documentReader) ignores(e *tree.Element, name string) {
	if v := r.Attr(e, name); v != "" {
		r.doc.ignore(name + " of <" + e.Name + ">")
	}
}

func (r *documentReader) document(e *tree.Element) {
	r.Attr(e, "version")
	switch e.Name {
	case "request":
		r.request(e)
	case "cancel":
		c := &Cancel{Originator: r.originator(e), Reply: r.reply(e)}
		id := r.Must(e, "transfer")
		var err error
		if c.Transfer, err = ParseID(tree.Blank(r.Text(id))); err != nil {
			r.Bad(id, "%w", err)
		}
		r.doc.Cancel = c
	case "pingAgent":
		r.doc.Ping = &Ping{Originator: r.originator(e), Agent: r.literal(e, "agent"), Reply: r.reply(e)}
	case "transferSpecifications":
		r.doc.Items = r.items(e)
	case "transferTemplate":
		r.doc.Template = r.template(e)
	case "monitor":
		r.doc.Monitor = r.monitor(e)
	case "deleteMonitor":
		m := &Unmonitor{Name: tree.Blank(r.Text(r.Must(e, "name"))), Originator: r.originator(e), Reply: r.reply(e), Agent: r.Agent(e, r.TextOf(e, "agent"))}
		r.doc.Unmonitor = m
	default:
		r.Bad(e, "<%.60s> is no message of MQ MFT that is known here", e.Name)
		return
	}
	r.Done(e)
}

func (r *documentReader) request(e *tree.Element) {
	if id := r.Ours(e, "id"); id != "" {
		var err error
		if r.doc.ID, err = transfer.ParseID(strings.ToLower(id)); err != nil {
			r.Bad(e, "%w", err)
		}
	}
	if len(e.Subs) != 1 {
		r.Bad(e, "<request> has %d elements; it needs exactly one, the operation", len(e.Subs))
		return
	}
	switch sub := e.Subs[0]; sub.Name {
	case "managedTransfer":
		r.doc.Transfer = r.transfer(r.Sub(e, sub.Name))
	case "managedCall":
		r.doc.Call = r.call(r.Sub(e, sub.Name))
	case "deleteScheduledTransfer":
		sub = r.Sub(e, sub.Name)
		r.doc.Unschedule = &Unschedule{Originator: r.originator(sub), ID: tree.Blank(r.Text(r.Must(sub, "ID"))), Reply: r.reply(sub)}
		r.Done(sub)
	}
}

// originator reads the requester. In some documents one more element encloses the names.
func (r *documentReader) originator(e *tree.Element) (o transfer.Originator) {
	at := r.Sub(e, "originator")
	if at == nil {
		return o
	}
	names := at
	if inner := r.Sub(at, "delete"); inner != nil {
		names = inner
	}
	o.Host, o.User = r.TextOf(names, "hostName"), r.TextOf(names, "userID")
	if r.TextOf(names, "mqmdUserID") != "" || r.TextOf(names, "webUserID") != "" || r.TextOf(names, "webBrowser") != "" {
		r.doc.ignore("all of <originator> but host and user")
	}
	r.Done(names)
	r.Done(at)
	if len(o.Host) > 255 || len(o.User) > 255 {
		r.Bad(at, "a name in <originator> has more than 255 bytes")
	}
	return o
}

const maxReply = 256 // bytes

func (r *documentReader) reply(e *tree.Element) string {
	at := r.Sub(e, "reply")
	if at == nil {
		return ""
	}
	for _, name := range []string{"QMGR", "QMgr", "detailed", "persistent"} {
		r.Attr(at, name)
	}
	r.doc.ignore("<reply>")
	to := tree.Blank(r.Text(at))
	if len(to) > maxReply {
		r.Bad(at, "<reply> has %d bytes; the limit is %d", len(to), maxReply)
	}
	return to
}

func (r *documentReader) job(e *tree.Element) string {
	at := r.Sub(e, "job")
	name := r.TextOf(at, "name")
	r.Done(at)
	return name
}

func (r *documentReader) end(e *tree.Element, name string) transfer.AgentName {
	at := r.Must(e, name)
	text := r.Need(at, "agent")
	a := transfer.AgentName(text)
	if !strings.Contains(text, "${") { // Lacks refuses a variable outside of the task of a monitor
		a = r.Agent(at, text)
	}
	r.ignores(at, "QMgr")
	r.Done(at)
	return a
}

// literal returns an agent with a name that has no variable.
func (r *documentReader) literal(e *tree.Element, name string) transfer.AgentName {
	a := r.end(e, name)
	if strings.Contains(string(a), "${") {
		r.Bad(e, "the name of the agent %.60s has a variable; only the task of a monitor has variables", a)
	}
	return a
}

func (r *documentReader) transfer(e *tree.Element) *Transfer {
	t := &Transfer{Originator: r.originator(e), Source: r.end(e, "sourceAgent"), Destination: r.end(e, "destinationAgent"), Reply: r.reply(e),
		Job: r.job(e), Schedule: r.schedule(e), Trigger: r.trigger(e)}
	set := r.Must(e, "transferSet")
	t.Set = Set{Priority: r.Number(set, "priority", 0, 0, 9), Recovery: r.Number(set, "recoveryTimeout", -1, -1, 1<<31-1),
		Meta: r.meta(set), Items: r.items(set), Own: r.own(set)}
	t.Set.Programs = Programs{r.program(set, "preSourceCall"), r.program(set, "postSourceCall"), r.program(set, "preDestinationCall"), r.program(set, "postDestinationCall")}
	r.Done(set)
	r.Done(e)
	t.Job = r.jobOf(e, t.Job, t.Set.Meta)
	return t
}

// jobKey is the metadata key that MQ MFT uses for the name of a job.
const jobKey = "com.ibm.wmqfte.JobName"

// jobOf returns the name of the job, which may be in the metadata as well.
func (r *documentReader) jobOf(e *tree.Element, job string, meta map[string]string) string {
	inside, ok := meta[jobKey]
	delete(meta, jobKey)
	if ok && job != "" && inside != job {
		r.Bad(e, "the job is called %.60q, and %.60q in the metadata %s", job, inside, jobKey)
	}
	if job == "" {
		job = inside
	}
	return job
}

// ownWords are Ferry's attributes of a transferSet.
var ownWords = []string{"durability", "lane", "delivery", "compress", "limit", "max-files", "max-size", "min-file-size", "max-file-size", "min-age", "max-age", "together", "order", "permissions", "links", "sources-together", "archive", "chunk-size", "window", "frame", "checkpoint-interval"}

func (r *documentReader) own(set *tree.Element) (own map[string]string) {
	for _, name := range ownWords {
		if v := r.Ours(set, name); v != "" {
			if own == nil {
				own = map[string]string{}
			}
			own[name] = v
		}
	}
	return own
}

func (r *documentReader) meta(set *tree.Element) (meta map[string]string) {
	at := r.Sub(set, "metaDataSet")
	for _, m := range r.Subs(at, "metaData") {
		if meta == nil {
			meta = map[string]string{}
		}
		key := r.Raw(m, "key")
		if key == "" {
			r.Bad(m, "<metaData> has no attribute key")
		}
		if _, twice := meta[key]; twice {
			r.Bad(m, "the metadata %.60q is there twice", key)
		}
		meta[key] = r.Text(m)
	}
	r.Done(at)
	return meta
}

func (r *documentReader) program(set *tree.Element, name string) *Command {
	at := r.Sub(set, name)
	if at == nil {
		return nil
	}
	c := r.command(r.Must(at, "command"))
	r.Done(at)
	return &c
}

func (r *documentReader) command(e *tree.Element) Command {
	c := Command{Name: r.Need(e, "name"), Type: r.Word(e, "type", "executable", "antscript", "jcl"), SuccessRC: r.Attr(e, "successRC"),
		RetryCount: r.Number(e, "retryCount", 0, 0, 1<<31-1), RetryWait: r.Number(e, "retryWait", 0, 0, 1<<31-1)}
	for _, a := range r.Subs(e, "argument") {
		c.Args = append(c.Args, r.Text(a))
	}
	for _, a := range r.Subs(e, "target") {
		c.Targets = append(c.Targets, r.Text(a))
	}
	for _, p := range r.Subs(e, "property") {
		if c.Properties == nil {
			c.Properties = map[string]string{}
		}
		c.Properties[r.Need(p, "name")] = r.Raw(p, "value")
		r.Done(p)
	}
	r.Done(e)
	return c
}

func (r *documentReader) call(e *tree.Element) *ManagedCall {
	c := &ManagedCall{Originator: r.originator(e), Agent: r.literal(e, "agent"), Reply: r.reply(e), Job: r.job(e)}
	set := r.Must(e, "transferSet")
	r.Number(set, "priority", 0, 0, 9)
	c.Meta = r.meta(set)
	at := r.Must(set, "call")
	c.Command = r.command(r.Must(at, "command"))
	r.Done(at)
	r.Done(set)
	r.Done(e)
	c.Job = r.jobOf(e, c.Job, c.Meta)
	return c
}

func (r *documentReader) schedule(e *tree.Element) *Schedule {
	at := r.Sub(e, "schedule")
	if at == nil {
		return nil
	}
	s := &Schedule{}
	if submit := r.Sub(at, "submit"); submit != nil {
		s.TimeBase, s.Zone = r.Word(submit, "timebase", "admin", "source", "utc"), r.Attr(submit, "timezone")
		s.Start = tree.Blank(r.Text(submit))
	}
	if repeat := r.Sub(at, "repeat"); repeat != nil {
		f := r.Must(repeat, "frequency")
		s.Interval = r.Word(f, "interval", "minutes", "hours", "days", "weeks", "months", "years")
		s.Every = r.Figure(f, "the frequency", tree.Blank(r.Text(f)), 1, 1, 1<<31-1)
		s.Until = r.TextOf(repeat, "expireTime")
		if n := r.Sub(repeat, "expireCount"); n != nil {
			s.Count = r.Figure(n, "the expireCount", tree.Blank(r.Text(n)), 0, 1, 1<<31-1)
		}
		r.Done(repeat)
	}
	r.Done(at)
	return s
}

func (r *documentReader) trigger(e *tree.Element) *Trigger {
	at := r.Sub(e, "trigger")
	if at == nil {
		return nil
	}
	t := &Trigger{Log: r.Truth(at, "log", false)}
	for _, c := range r.Subs(at, "fileExist") {
		t.Conditions = append(t.Conditions, TriggerCondition{Comparison: r.Word(c, "comparison", "=", "!="), Value: r.Word(c, "value", "exist"), Files: files(r.Text(c))})
	}
	for _, c := range r.Subs(at, "fileSize") {
		t.Conditions = append(t.Conditions, TriggerCondition{Size: true, Comparison: r.Word(c, "comparison", ">=", ">", "=", "!=", "<=", "<"),
			Value: strconv.Itoa(r.Number(c, "value", 0, 0, 1<<31-1)), Units: r.Word(c, "units", "b", "kb", "mb", "gb"), Files: files(r.Text(c))})
	}
	if len(t.Conditions) == 0 {
		r.Bad(at, "<trigger> has no condition")
	}
	r.Done(at)
	return t
}

// files parses names separated by commas.
func files(s string) (all []transfer.Path) {
	for f := range strings.SplitSeq(s, ",") {
		if f != "" {
			all = append(all, transfer.Path(f))
		}
	}
	return all
}

func (r *documentReader) items(set *tree.Element) (items []Item) {
	all := r.Subs(set, "item")
	items = make([]Item, 0, len(all))
	for _, at := range all {
		it := Item{Mode: r.Word(at, "mode", transfer.ModeBinary, transfer.ModeText), Checksum: r.Word(at, "checksumMethod", "md5", "none", "xxh3", "sha256"), line: at.Line}
		r.source(&it, r.Must(at, "source"))
		r.dest(&it, r.Must(at, "destination"))
		r.Done(at)
		items = append(items, it)
	}
	if len(items) == 0 {
		r.Bad(set, "<%s> has no item", set.Name)
	}
	return items
}

func (r *documentReader) source(it *Item, e *tree.Element) {
	s := &it.Source
	kind := r.Word(e, "type", "", "file", "directory", "queue", "dataset", "pds")
	s.Recursive = r.Truth(e, "recursive", false)
	s.Delete = r.Word(e, "disposition", transfer.DispositionLeave, transfer.DispositionDelete) == transfer.DispositionDelete
	if s.Queue = r.queue(e); s.Queue != nil {
		// MQ MFT always removes messages from a queue.
		s.Delete = s.Delete || r.Attr(e, "disposition") == ""
	} else {
		if kind == "queue" {
			r.Bad(e, "the source is a queue, and names none")
		}
		at := r.fileOf(e)
		s.AsGiven = r.Ours(at, "as-given") == "true"
		s.KeepBlank = r.Truth(at, "keepTrailingSpaces", false)
		if s.File = r.file(at, kind == "dataset" || kind == "pds"); s.File.EOL != "" && it.Mode == transfer.ModeText {
			r.doc.ignore("EOL of a source: every line end is taken for one")
		}
	}
	r.Done(e)
}

func (r *documentReader) dest(it *Item, e *tree.Element) {
	d := &it.Dest
	d.Type = r.Word(e, "type", "", "file", "directory", "queue", "dataset", "pds", "filespace")
	d.Exist = r.Word(e, "exist", transfer.IfExistsError, transfer.IfExistsOverwrite, transfer.IfExistsSkip, transfer.IfExistsUpdate, transfer.IfExistsRename, transfer.IfExistsAppend)
	if d.Type == "filespace" {
		r.Fail(transfer.Errorf(transfer.KindNotBuilt, "the XML document sends to a file space at line %d, which Ferry does not have", e.Line))
		return
	}
	if d.Queue = r.queue(e); d.Queue != nil {
		d.Replace = r.Raw(r.Sub(e, "queue"), "ferry:replace")
	} else {
		if d.Type == "queue" {
			r.Bad(e, "the destination is a queue, and names none")
		}
		at := r.fileOf(e)
		if d.Long = r.Ours(at, "long-lines"); r.Truth(at, "truncateRecords", false) {
			d.Long = "truncate"
		}
		d.Replace = r.Raw(at, "ferry:replace")
		d.File = r.file(at, d.Type == "dataset" || d.Type == "pds")
		slash := strings.HasSuffix(string(d.File.Path), "/")
		switch {
		case d.Type == "directory" && !slash:
			d.File.Path += "/"
		case d.Type == "file" && slash:
			r.Bad(at, "the destination %s is said to be a file, and ends in a slash", d.File.Path)
		}
	}
	r.Done(e)
}

// fileOf returns the file or the data set of a source or a destination.
func (r *documentReader) fileOf(e *tree.Element) *tree.Element {
	if at := r.Sub(e, "dataset"); at != nil {
		return at
	}
	return r.Must(e, "file")
}

func (r *documentReader) file(at *tree.Element, dataset bool) File {
	f := File{Encoding: r.Attr(at, "encoding"), EOL: r.Word(at, "EOL", "", "lf", "crlf", "nl"), line: at.Line}
	path := r.Text(at)
	if dataset || at.Name == "dataset" {
		if len(path) > transfer.MaxPath {
			r.Bad(at, "a data set has %d bytes; the limit is %d", len(path), transfer.MaxPath)
			return f
		}
		rest, names := record.WithoutAllocation(path)
		for _, name := range names {
			r.doc.ignore(name + " of a data set: it lies in an ordinary file")
		}
		path = rest
	}
	if (dataset || at.Name == "dataset") && path != "" && !strings.HasPrefix(strings.TrimPrefix(path, "//"), "'") {
		path = quoted(path)
	}
	if path == "" {
		r.Bad(at, "<%s> names nothing", at.Name)
	}
	f.Path = transfer.Path(path)
	return f
}

// quoted returns a data set as in a location: its name in quotes, followed by its attributes.
func quoted(path string) string {
	name := strings.TrimPrefix(path, "//")
	end := strings.IndexAny(name, ",;")
	if end < 0 {
		end = len(name)
	}
	return "//'" + name[:end] + "'" + name[end:]
}
