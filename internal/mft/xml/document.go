package xml

import (
	"slices"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// A Document is a parsed message. Exactly one of its pointers is set, or Items of a definition file.
type Document struct {
	ID         transfer.ID // of the transfer, given by the request; zero: none
	Transfer   *Transfer
	Call       *ManagedCall
	Cancel     *Cancel
	Unschedule *Unschedule
	Monitor    *Monitor
	Unmonitor  *Unmonitor
	Template   *Template
	Items      []Item // of transferSpecifications

	// Ignored are the elements that do not concern the transfer, named for users.
	Ignored []string
}

// A Transfer is a managedTransfer.
type Transfer struct {
	Originator  transfer.Originator
	Schedule    *Schedule
	Trigger     *Trigger
	Source      transfer.AgentName
	Destination transfer.AgentName
	Reply       string // address of an answer
	Job         string
	Set         Set
}

// A Set is a transferSet.
type Set struct {
	Priority int
	Recovery int // seconds; -1: unlimited, 0: at once
	Meta     map[string]string
	Programs Programs
	Items    []Item
	Own      map[string]string // Ferry's attributes
}

// Programs run before and after a transfer, at its ends.
type Programs struct {
	PreSource, PostSource, PreDest, PostDest *Command
}

// A Command is a program to run.
type Command struct {
	Name       string
	Type       string // executable, antscript or jcl
	SuccessRC  string // result codes that are no failure, as "0" or "<4|>7"; empty: 0
	RetryCount int
	RetryWait  int // seconds
	Args       []string
	Targets    []string          // of an antscript
	Properties map[string]string // of an antscript
}

// An Item is one of a transfer.
type Item struct {
	Mode     string // binary or text
	Checksum string
	Source   Source
	Dest     Dest
	line     int
}

// A Source is the origin of an item.
type Source struct {
	Recursive bool
	Delete    bool
	File      File
	Queue     *Queue // instead of File
	AsGiven   bool   // the path has the same meaning as in `ferry send`
	KeepBlank bool
}

// A Dest is the destination of an item.
type Dest struct {
	Type    string // file, directory, dataset, pds or queue
	Exist   string
	File    File
	Queue   *Queue // instead of File
	Long    string // treatment of lines that are longer than a record: truncate, wrap or fail
	Replace string
}

// A File is a path with the properties of its text.
type File struct {
	Path     transfer.Path
	Encoding string
	EOL      string // lf, crlf or nl; empty: the agent's
	line     int
}

// A Schedule defines when a transfer begins.
type Schedule struct {
	Start    string // yyyy-MM-ddThh:mm, as written
	TimeBase string // admin, source or utc
	Zone     string
	Every    int    // intervals; 0: once
	Interval string // minutes … years
	Until    string // as Start; empty: no end by time
	Count    int    // occurrences; 0: no end by number
}

// A Trigger is the condition of a transfer, checked when it begins. All of its conditions must hold, each for at least
// one of its files.
type Trigger struct {
	Log        bool // a condition that does not hold is recorded
	Conditions []TriggerCondition
}

// A TriggerCondition is a condition on files of the source agent.
type TriggerCondition struct {
	Size       bool   // of the files; otherwise their existence
	Comparison string // = or !=, of sizes >=
	Value      string // exist; of sizes a number
	Units      string // of sizes: b, kb, mb or gb
	Files      []transfer.Path
}

// A ManagedCall is a program to run at an agent.
type ManagedCall struct {
	Originator transfer.Originator
	Agent      transfer.AgentName
	Reply      string
	Job        string
	Meta       map[string]string
	Command    Command
}

// A Cancel ends a transfer.
type Cancel struct {
	Originator transfer.Originator
	Transfer   transfer.ID
	Reply      string
}

// An Unschedule ends a scheduled transfer.
type Unschedule struct {
	Originator transfer.Originator
	ID         string
	Reply      string
}

// Parse parses a document. Its errors are of KindDocument and KindTooLarge.
func Parse(data []byte) (*Document, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	d, r := &Document{}, &documentReader{}
	r.doc = d
	r.document(root)
	if r.err != nil {
		return nil, r.err
	}
	slices.Sort(d.Ignored)
	d.Ignored = slices.Compact(d.Ignored)
	return d, nil
}

// Reply returns the address of an answer, or the empty text if the document requests none.
func (d *Document) Reply() string { return d.head().reply }

// Originator returns the requester named in the document, or zero if it names none.
func (d *Document) Originator() transfer.Originator { return d.head().originator }

// A head has the fields that most documents begin with.
type head struct {
	originator transfer.Originator
	reply      string
}

func (d *Document) head() head {
	switch {
	case d.Transfer != nil:
		return head{d.Transfer.Originator, d.Transfer.Reply}
	case d.Call != nil:
		return head{d.Call.Originator, d.Call.Reply}
	case d.Cancel != nil:
		return head{d.Cancel.Originator, d.Cancel.Reply}
	case d.Unschedule != nil:
		return head{d.Unschedule.Originator, d.Unschedule.Reply}
	case d.Monitor != nil:
		return head{d.Monitor.Originator, d.Monitor.Reply}
	case d.Unmonitor != nil:
		return head{d.Unmonitor.Originator, d.Unmonitor.Reply}
	}
	return head{}
}

// A documentReader reads elements into a document.
type documentReader struct {
	reader
	doc *Document
}

// ignores reads an attribute without effect, and lists it in Ignored.
func (r *documentReader) ignores(e *element, name string) {
	if v := r.attr(e, name); v != "" {
		r.doc.Ignored = append(r.doc.Ignored, name+" of <"+e.name+">")
	}
}

func (r *documentReader) document(e *element) {
	r.attr(e, "version")
	switch e.name {
	case "request":
		r.request(e)
	case "cancel":
		c := &Cancel{Originator: r.originator(e), Reply: r.reply(e)}
		id := r.must(e, "transfer")
		var err error
		if c.Transfer, err = ParseID(blank(r.text(id))); err != nil {
			r.bad(id, "%w", err)
		}
		r.doc.Cancel = c
	case "transferSpecifications":
		r.doc.Items = r.items(e)
	case "transferTemplate":
		r.doc.Template = r.template(e)
	case "monitor":
		r.doc.Monitor = r.monitor(e)
	case "deleteMonitor":
		m := &Unmonitor{Name: blank(r.text(r.must(e, "name"))), Originator: r.originator(e), Reply: r.reply(e), Agent: r.agent(e, r.textOf(e, "agent"))}
		r.doc.Unmonitor = m
	default:
		r.bad(e, "<%.60s> is no message of MQ MFT that is known here", e.name)
		return
	}
	r.done(e)
}

func (r *documentReader) request(e *element) {
	if id := r.ours(e, "id"); id != "" {
		var err error
		if r.doc.ID, err = transfer.ParseID(strings.ToLower(id)); err != nil {
			r.bad(e, "%w", err)
		}
	}
	if len(e.subs) != 1 {
		r.bad(e, "<request> has %d elements; it needs exactly one, the operation", len(e.subs))
		return
	}
	switch sub := e.subs[0]; sub.name {
	case "managedTransfer":
		sub.read = true
		r.doc.Transfer = r.transfer(sub)
	case "managedCall":
		sub.read = true
		r.doc.Call = r.call(sub)
	case "deleteScheduledTransfer":
		sub.read = true
		r.doc.Unschedule = &Unschedule{Originator: r.originator(sub), ID: blank(r.text(r.must(sub, "ID"))), Reply: r.reply(sub)}
		r.done(sub)
	}
}

// originator reads the requester. In some documents one more element encloses the names.
func (r *documentReader) originator(e *element) (o transfer.Originator) {
	at := r.sub(e, "originator")
	if at == nil {
		return o
	}
	names := at
	if inner := r.sub(at, "delete"); inner != nil {
		names = inner
	}
	o.Host, o.User = r.textOf(names, "hostName"), r.textOf(names, "userID")
	if r.textOf(names, "mqmdUserID") != "" || r.textOf(names, "webUserID") != "" || r.textOf(names, "webBrowser") != "" {
		r.doc.Ignored = append(r.doc.Ignored, "all of <originator> but host and user")
	}
	r.done(names)
	r.done(at)
	if len(o.Host) > 255 || len(o.User) > 255 {
		r.bad(at, "a name in <originator> has more than 255 bytes")
	}
	return o
}

const maxReply = 256 // bytes

func (r *documentReader) reply(e *element) string {
	at := r.sub(e, "reply")
	if at == nil {
		return ""
	}
	for _, name := range []string{"QMGR", "QMgr", "detailed", "persistent"} {
		r.attr(at, name)
	}
	r.doc.Ignored = append(r.doc.Ignored, "<reply>")
	to := blank(r.text(at))
	if len(to) > maxReply {
		r.bad(at, "<reply> has %d bytes; the limit is %d", len(to), maxReply)
	}
	return to
}

func (r *documentReader) job(e *element) string {
	at := r.sub(e, "job")
	name := r.textOf(at, "name")
	r.done(at)
	return name
}

func (r *documentReader) end(e *element, name string) transfer.AgentName {
	at := r.must(e, name)
	a := r.agent(at, r.need(at, "agent"))
	r.ignores(at, "QMgr")
	r.done(at)
	return a
}

func (r *documentReader) transfer(e *element) *Transfer {
	t := &Transfer{Originator: r.originator(e), Source: r.end(e, "sourceAgent"), Destination: r.end(e, "destinationAgent"), Reply: r.reply(e),
		Job: r.job(e), Schedule: r.schedule(e), Trigger: r.trigger(e)}
	set := r.must(e, "transferSet")
	t.Set = Set{Priority: r.number(set, "priority", 0, 0, 9), Recovery: r.number(set, "recoveryTimeout", -1, -1, 1<<31-1),
		Meta: r.meta(set), Items: r.items(set), Own: r.own(set)}
	t.Set.Programs = Programs{r.program(set, "preSourceCall"), r.program(set, "postSourceCall"), r.program(set, "preDestinationCall"), r.program(set, "postDestinationCall")}
	r.done(set)
	r.done(e)
	t.Job = r.jobOf(e, t.Job, t.Set.Meta)
	return t
}

// jobKey is the metadata key that MQ MFT uses for the name of a job.
const jobKey = "com.ibm.wmqfte.JobName"

// jobOf returns the name of the job, which may be in the metadata as well.
func (r *documentReader) jobOf(e *element, job string, meta map[string]string) string {
	inside, ok := meta[jobKey]
	delete(meta, jobKey)
	if ok && job != "" && inside != job {
		r.bad(e, "the job is called %.60q, and %.60q in the metadata %s", job, inside, jobKey)
	}
	if job == "" {
		job = inside
	}
	return job
}

// ownWords are Ferry's attributes of a transferSet.
var ownWords = []string{"durability", "lane", "delivery", "compress", "limit", "max-files", "max-size", "min-file-size", "max-file-size", "min-age", "max-age", "together", "order", "permissions", "links", "sources-together", "archive", "chunk-size", "window", "frame", "checkpoint-interval"}

func (r *documentReader) own(set *element) (own map[string]string) {
	for _, name := range ownWords {
		if v := r.ours(set, name); v != "" {
			if own == nil {
				own = map[string]string{}
			}
			own[name] = v
		}
	}
	return own
}

func (r *documentReader) meta(set *element) (meta map[string]string) {
	at := r.sub(set, "metaDataSet")
	for _, m := range r.subs(at, "metaData") {
		if meta == nil {
			meta = map[string]string{}
		}
		key := r.raw(m, "key")
		if key == "" {
			r.bad(m, "<metaData> has no attribute key")
		}
		if _, twice := meta[key]; twice {
			r.bad(m, "the metadata %.60q is there twice", key)
		}
		meta[key] = r.text(m)
	}
	r.done(at)
	return meta
}

func (r *documentReader) program(set *element, name string) *Command {
	at := r.sub(set, name)
	if at == nil {
		return nil
	}
	c := r.command(r.must(at, "command"))
	r.done(at)
	return &c
}

func (r *documentReader) command(e *element) Command {
	c := Command{Name: r.need(e, "name"), Type: r.word(e, "type", "executable", "antscript", "jcl"), SuccessRC: r.attr(e, "successRC"),
		RetryCount: r.number(e, "retryCount", 0, 0, 1<<31-1), RetryWait: r.number(e, "retryWait", 0, 0, 1<<31-1)}
	for _, a := range r.subs(e, "argument") {
		c.Args = append(c.Args, r.text(a))
	}
	for _, a := range r.subs(e, "target") {
		c.Targets = append(c.Targets, r.text(a))
	}
	for _, p := range r.subs(e, "property") {
		if c.Properties == nil {
			c.Properties = map[string]string{}
		}
		c.Properties[r.need(p, "name")] = r.raw(p, "value")
		r.done(p)
	}
	r.done(e)
	return c
}

func (r *documentReader) call(e *element) *ManagedCall {
	c := &ManagedCall{Originator: r.originator(e), Agent: r.end(e, "agent"), Reply: r.reply(e), Job: r.job(e)}
	set := r.must(e, "transferSet")
	r.number(set, "priority", 0, 0, 9)
	c.Meta = r.meta(set)
	at := r.must(set, "call")
	c.Command = r.command(r.must(at, "command"))
	r.done(at)
	r.done(set)
	r.done(e)
	c.Job = r.jobOf(e, c.Job, c.Meta)
	return c
}

func (r *documentReader) schedule(e *element) *Schedule {
	at := r.sub(e, "schedule")
	if at == nil {
		return nil
	}
	s := &Schedule{}
	if submit := r.sub(at, "submit"); submit != nil {
		s.TimeBase, s.Zone = r.word(submit, "timebase", "admin", "source", "utc"), r.attr(submit, "timezone")
		s.Start = blank(r.text(submit))
	}
	if repeat := r.sub(at, "repeat"); repeat != nil {
		f := r.must(repeat, "frequency")
		s.Interval = r.word(f, "interval", "minutes", "hours", "days", "weeks", "months", "years")
		s.Every = r.figure(f, "the frequency", blank(r.text(f)), 1, 1, 1<<31-1)
		s.Until = r.textOf(repeat, "expireTime")
		if n := r.sub(repeat, "expireCount"); n != nil {
			s.Count = r.figure(n, "the expireCount", blank(r.text(n)), 0, 1, 1<<31-1)
		}
		r.done(repeat)
	}
	r.done(at)
	return s
}

func (r *documentReader) trigger(e *element) *Trigger {
	at := r.sub(e, "trigger")
	if at == nil {
		return nil
	}
	t := &Trigger{Log: r.truth(at, "log", false)}
	for _, c := range r.subs(at, "fileExist") {
		t.Conditions = append(t.Conditions, TriggerCondition{Comparison: r.word(c, "comparison", "=", "!="), Value: r.word(c, "value", "exist"), Files: files(r.text(c))})
	}
	for _, c := range r.subs(at, "fileSize") {
		t.Conditions = append(t.Conditions, TriggerCondition{Size: true, Comparison: r.word(c, "comparison", ">=", ">", "=", "!=", "<=", "<"),
			Value: strconv.Itoa(r.number(c, "value", 0, 0, 1<<31-1)), Units: r.word(c, "units", "b", "kb", "mb", "gb"), Files: files(r.text(c))})
	}
	if len(t.Conditions) == 0 {
		r.bad(at, "<trigger> has no condition")
	}
	r.done(at)
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

func (r *documentReader) items(set *element) (items []Item) {
	all := r.subs(set, "item")
	items = make([]Item, 0, len(all))
	for _, at := range all {
		it := Item{Mode: r.word(at, "mode", transfer.ModeBinary, transfer.ModeText), Checksum: r.word(at, "checksumMethod", "md5", "none", "xxh3", "sha256"), line: at.line}
		r.source(&it, r.must(at, "source"))
		r.dest(&it, r.must(at, "destination"))
		r.done(at)
		items = append(items, it)
	}
	if len(items) == 0 {
		r.bad(set, "<%s> has no item", set.name)
	}
	return items
}

func (r *documentReader) source(it *Item, e *element) {
	s := &it.Source
	kind := r.word(e, "type", "", "file", "directory", "queue", "dataset", "pds")
	s.Recursive = r.truth(e, "recursive", false)
	s.Delete = r.word(e, "disposition", transfer.DispositionLeave, transfer.DispositionDelete) == transfer.DispositionDelete
	if s.Queue = r.queue(e); s.Queue != nil {
		// MQ MFT always removes messages from a queue.
		s.Delete = s.Delete || r.attr(e, "disposition") == ""
	} else {
		if kind == "queue" {
			r.bad(e, "the source is a queue, and names none")
		}
		at := r.fileOf(e)
		s.AsGiven = r.ours(at, "as-given") == "true"
		s.KeepBlank = r.truth(at, "keepTrailingSpaces", false)
		if s.File = r.file(at, kind == "dataset" || kind == "pds"); s.File.EOL != "" && it.Mode == transfer.ModeText {
			r.doc.Ignored = append(r.doc.Ignored, "EOL of a source: every line end is taken for one")
		}
	}
	r.done(e)
}

func (r *documentReader) dest(it *Item, e *element) {
	d := &it.Dest
	d.Type = r.word(e, "type", "", "file", "directory", "queue", "dataset", "pds", "filespace")
	d.Exist = r.word(e, "exist", transfer.IfExistsError, transfer.IfExistsOverwrite, transfer.IfExistsSkip, transfer.IfExistsUpdate, transfer.IfExistsRename, transfer.IfExistsAppend)
	if d.Type == "filespace" {
		r.fail(transfer.Errorf(transfer.KindNotBuilt, "the XML document sends to a file space at line %d, which Ferry does not have", e.line))
		return
	}
	if d.Queue = r.queue(e); d.Queue != nil {
		d.Replace = r.raw(r.sub(e, "queue"), "ferry:replace")
	} else {
		if d.Type == "queue" {
			r.bad(e, "the destination is a queue, and names none")
		}
		at := r.fileOf(e)
		if d.Long = r.ours(at, "long-lines"); r.truth(at, "truncateRecords", false) {
			d.Long = "truncate"
		}
		d.Replace = r.raw(at, "ferry:replace")
		d.File = r.file(at, d.Type == "dataset" || d.Type == "pds")
		slash := strings.HasSuffix(string(d.File.Path), "/")
		switch {
		case d.Type == "directory" && !slash:
			d.File.Path += "/"
		case d.Type == "file" && slash:
			r.bad(at, "the destination %s is said to be a file, and ends in a slash", d.File.Path)
		}
	}
	r.done(e)
}

// fileOf returns the file or the data set of a source or a destination.
func (r *documentReader) fileOf(e *element) *element {
	if at := r.sub(e, "dataset"); at != nil {
		return at
	}
	return r.must(e, "file")
}

func (r *documentReader) file(at *element, dataset bool) File {
	f := File{Encoding: r.attr(at, "encoding"), EOL: r.word(at, "EOL", "", "lf", "crlf", "nl"), line: at.line}
	path := r.text(at)
	if (dataset || at.name == "dataset") && path != "" && !strings.HasPrefix(strings.TrimPrefix(path, "//"), "'") {
		path = quoted(path)
	}
	if path == "" {
		r.bad(at, "<%s> names nothing", at.name)
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
