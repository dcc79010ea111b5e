package ant

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"ferry/internal/mft/commands"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// Properties that tasks of MQ MFT read.
const (
	jobProperty     = "com.ibm.wmqfte.ant.jobName"
	managerProperty = "com.ibm.wmqfte.ant.commandQueueManager"
	optionsProperty = "com.ibm.wmqfte.propertyset"
)

// request runs a task of MQ MFT.
func (r *Runner) request(ctx context.Context, v *values) error {
	r.withoutEffect(v)
	switch v.e.name {
	case "fte:filecopy", "fte:filemove", "fte:call":
		return r.start(ctx, v)
	case "fte:uuid":
		return r.uuid(v)
	case "fte:ignoreoutcome":
		v.id()
		return *v.err
	case "fte:awaitoutcome":
		id, limit := v.id(), v.number("timeout", 0, 1, 1<<31-1)
		return r.outcome(v, func() error { return r.await(ctx, v, id, time.Duration(limit)*time.Second) })
	case "fte:cancel":
		agent, id := v.agent("agent"), v.id()
		if *v.err != nil {
			return *v.err
		}
		err := r.Network.Cancel(ctx, agent, id, r.say(v.e.name))
		if transfer.KindOf(err) == transfer.KindEnding { // which is no fault of the script
			r.say(v.e.name)(commands.Notice, err)
			return nil
		}
		return err
	}
	agent, limit := v.agent("agent"), v.number("timeout", 5, -1, 1<<31-1) // fte:ping
	return r.outcome(v, func() error {
		return r.Network.Ping(ctx, agent, time.Duration(limit)*time.Second, r.say(v.e.name))
	})
}

// withoutEffect prints notices about parts of MQ MFT that have no effect here.
func (r *Runner) withoutEffect(v *values) {
	_, property := r.properties.get(managerProperty)
	if v.e.has("cmdqm") || property {
		r.notice(v.e.name, "cmdqm has no effect: commands reach agents by their names, from any queue manager")
	}
	for _, name := range []string{optionsProperty, "com.ibm.wmqfte.propertySet"} {
		if _, is := r.properties.get(name); is {
			r.notice(v.e.name, name+" has no effect: the network is that of FERRY_NETWORK or of the settings file")
		}
	}
}

// maxResult is the greatest length of a task's result: the ID of a transfer.
const maxResult = 64

// outcome does a task, and puts its result code into the property of rcproperty. Without such a property a failure ends
// the script, because nothing else would tell about it.
func (r *Runner) outcome(v *values, do func() error) error {
	name := v.whole("rcproperty")
	if *v.err != nil {
		return *v.err
	}
	for _, of := range []string{"rcproperty", "idproperty"} { // before anything starts that no property would name
		if !v.e.has(of) {
			continue
		}
		if err := r.properties.takes(v.whole(of), maxResult); err != nil {
			return failed(v.e, err)
		}
	}
	if *v.err != nil {
		return *v.err
	}
	err := do()
	if errors.As(err, new(*buildError)) { // of the script itself
		return err
	}
	if !v.e.has("rcproperty") {
		return err
	}
	if err != nil && !errors.As(err, new(*Failure)) { // a Failure was printed by the network
		r.say(v.e.name)(commands.Failed, err)
	}
	return r.properties.result(name, strconv.Itoa(CodeOf(err)))
}

// start submits a transfer or a call. Unless its outcome is deferred it waits for the end.
func (r *Runner) start(ctx context.Context, v *values) error {
	w, err := v.work()
	if err != nil {
		return err
	}
	return r.outcome(v, func() error {
		if err := r.Network.Start(ctx, w, r.say(v.e.name)); err != nil {
			return err
		}
		if name := v.whole("idproperty"); name != "" {
			if err := r.properties.result(name, mftxml.FormatID(w.ID)); err != nil {
				return failed(v.e, err)
			}
		}
		if w.Deferred {
			return nil
		}
		return r.Network.Await(ctx, w.ID, r.say(v.e.name))
	})
}

// await waits for the end of a transfer or a call, for a time unless that is 0.
func (r *Runner) await(ctx context.Context, v *values, id transfer.ID, limit time.Duration) error {
	within, end := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		within, end = context.WithTimeout(ctx, limit)
	}
	defer end()
	err := r.Network.Await(within, id, r.say(v.e.name))
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		r.say(v.e.name)(commands.TimedOut, mftxml.FormatID(id))
		return &Failure{Code: transfer.CodeTimeout, Text: "the time of timeout is over"}
	}
	return err
}

// uuid makes random digits of hex.
func (r *Runner) uuid(v *values) error {
	length, name, prefix := v.number("length", 0, 1, 1024), v.whole("property"), v.whole("prefix")
	if *v.err != nil {
		return *v.err
	}
	random := make([]byte, (length+1)/2)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	return r.properties.result(name, prefix+hex.EncodeToString(random)[:length])
}

// agent returns the agent of an attribute that is AGENT@QMGR or AGENT.
func (v *values) agent(attr string) transfer.AgentName {
	name, manager, _ := strings.Cut(v.whole(attr), "@")
	if *v.err != nil {
		return ""
	}
	a, err := transfer.ParseAgentName(name)
	if err != nil {
		v.fail("%s of <%s>: %w", attr, v.e.name, err)
	}
	if manager != "" {
		v.r.notice(v.e.name, "names of queue managers have no effect: agents are found by their names, at any queue manager")
	}
	return a
}

// id returns the transfer or call of the attribute id.
func (v *values) id() transfer.ID {
	text := v.whole("id")
	if *v.err != nil {
		return transfer.ID{}
	}
	id, err := mftxml.ParseID(strings.TrimSpace(text))
	if err != nil {
		v.fail("id of <%s>: %w", v.e.name, err)
	}
	return id
}

// work returns the transfer or call of a task. Errors are those of the script.
func (v *values) work() (*Work, error) {
	w := &Work{ID: transfer.NewID(time.Now()), Deferred: v.word("outcome") == "defer"}
	origin := v.r.Origin
	origin.User = cmp.Or(v.whole("origuser"), origin.User)
	job, meta, priority := v.job(), v.metadata(), v.number("priority", 0, 0, 9)
	v.whole("rcproperty") // their names have no property that is not set
	v.whole("idproperty")
	d := &mftxml.Document{}
	if v.e.name == "fte:call" {
		w.Call = &mftxml.ManagedCall{Originator: origin, Agent: v.agent("agent"), Job: job, Meta: meta, Command: *v.program("fte:command")}
		d.Call = w.Call
	} else {
		d.Transfer = &mftxml.Transfer{Originator: origin, Source: v.agent("src"), Destination: v.agent("dst"), Job: job}
		set := &d.Transfer.Set
		set.Priority, set.Recovery, set.Meta = priority, v.number("transferrecoverytimeout", -1, -1, 1<<31-1), meta
		set.Programs = mftxml.Programs{PreSource: v.program("fte:presrc"), PostSource: v.program("fte:postsrc"), PreDest: v.program("fte:predst"), PostDest: v.program("fte:postdst")}
		for _, s := range v.e.subs {
			if s.name == "fte:filespec" {
				set.Items = append(set.Items, v.of(s).item(v.e.name == "fte:filemove"))
			}
		}
	}
	if *v.err != nil {
		return nil, *v.err
	}
	err := d.Lacks()
	switch {
	case err != nil:
	case w.Call != nil:
		_, err = w.Call.Command.Program()
	default:
		w.Request, err = d.Request(w.ID)
	}
	if err != nil {
		v.fail("<%s>: %w", v.e.name, err)
	}
	return w, *v.err
}

// job returns the job of a task: its attribute, or the property for all tasks.
func (v *values) job() string {
	if v.e.has("jobname") {
		return v.whole("jobname")
	}
	job, _ := v.r.properties.get(jobProperty)
	return job.text
}

// metadata returns the entries of <fte:metadata>.
func (v *values) metadata() map[string]string {
	e := v.e.sub("fte:metadata")
	if e == nil {
		return nil
	}
	meta := map[string]string{}
	for _, s := range e.subs {
		entry := v.of(s)
		name := entry.whole("name")
		if _, twice := meta[name]; twice {
			entry.fail("the <fte:entry> %.60q stands twice in <fte:metadata>", name)
		}
		meta[name] = entry.whole("value")
	}
	return meta
}

// program returns the program of a part; nil if there is no such part.
func (v *values) program(part string) *mftxml.Command {
	e := v.e.sub(part)
	if e == nil {
		return nil
	}
	p := v.of(e)
	c := &mftxml.Command{Name: p.whole("command"), Type: p.word("type"), SuccessRC: p.whole("successrc"),
		RetryCount: p.number("retrycount", 0, 0, 1<<31-1), RetryWait: p.number("retrywait", 0, 0, 1<<31-1)}
	for _, s := range e.subs {
		one := v.of(s)
		switch s.name {
		case "fte:arg":
			c.Args = append(c.Args, one.whole("value"))
		case "fte:target":
			c.Targets = append(c.Targets, one.whole("name"))
		default:
			if c.Properties == nil {
				c.Properties = map[string]string{}
			}
			c.Properties[one.whole("name")] = one.whole("value")
		}
	}
	return c
}

// item returns the item of a <fte:filespec>.
func (v *values) item(move bool) mftxml.Item {
	it := mftxml.Item{Mode: v.word("conversion"), Checksum: v.word("checksum")}
	if it.Mode != transfer.ModeText && (v.e.has("srcencoding") || v.e.has("dstencoding") || v.e.has("srceol") || v.e.has("dsteol")) {
		v.fail(`encodings and line ends of <fte:filespec> need conversion="text"`)
	}
	it.Source = mftxml.Source{Recursive: v.truth("recurse"), Delete: move, KeepBlank: v.truth("srckeeptrailingspaces")}
	if v.e.has("srcqueue") {
		it.Source.Queue = &mftxml.Queue{Name: v.whole("srcqueue"), Attributes: v.fromQueue()}
	} else {
		it.Source.File = mftxml.File{Path: transfer.Path(v.whole("srcfilespec")), Encoding: v.whole("srcencoding")}
	}
	it.Dest = mftxml.Dest{Exist: transfer.IfExistsError}
	if v.truth("overwrite") {
		it.Dest.Exist = transfer.IfExistsOverwrite
	}
	if v.truth("dsttruncaterecords") {
		it.Dest.Long = "truncate"
	}
	it.Dest.File.Encoding, it.Dest.File.EOL = v.whole("dstencoding"), v.given("dsteol")
	to := &it.Dest.File.Path
	switch {
	case v.e.has("dstfile"):
		it.Dest.Type, *to = "file", transfer.Path(v.whole("dstfile"))
		if strings.HasSuffix(string(*to), "/") {
			v.fail("dstfile=%.100q of <fte:filespec> ends in a slash; a directory is dstdir", *to)
		}
	case v.e.has("dstdir"):
		it.Dest.Type, *to = "directory", transfer.Path(strings.TrimSuffix(v.whole("dstdir"), "/")+"/")
	case v.e.has("dstqueue"):
		it.Dest.Type, it.Dest.Queue, it.Dest.File = "queue", &mftxml.Queue{Name: v.whole("dstqueue"), Attributes: v.toQueue()}, mftxml.File{}
	default:
		name, without := commands.Dataset(v.whole("dstds")+v.whole("dstpds"), "")
		for _, attr := range without {
			v.r.notice("fte:filespec", attr+" has no effect: a data set lies in an ordinary file")
		}
		it.Dest.Type, *to = "dataset", transfer.Path(name)
	}
	return it
}

// given returns an attribute with one of a few words; the empty text if it is not given.
func (v *values) given(attr string) string {
	if !v.e.has(attr) {
		return ""
	}
	return v.word(attr)
}

// fromQueue returns the attributes of a source queue.
func (v *values) fromQueue() map[string]string {
	a := map[string]string{"encoding": v.whole("srcencoding"), "delimiterPosition": v.given("srcmsgdelimposition")}
	if v.truth("srcmsggroups") {
		a["useGroups"] = "true"
	}
	for attr, kind := range map[string]string{"srcmsgdelimbytes": "binary", "srcmsgdelimtext": "text"} {
		if v.e.has(attr) {
			a["delimiterType"], a["delimiter"] = kind, v.whole(attr)
		}
	}
	if v.e.has("srcqueuetimeout") {
		a["waitTime"] = strconv.Itoa(v.number("srcqueuetimeout", 0, 0, 1<<31-1))
	}
	return withoutEmpty(a)
}

// toQueue returns the attributes of a destination queue.
func (v *values) toQueue() map[string]string {
	a := map[string]string{"encoding": v.whole("dstencoding"), "EOL": v.given("dsteol"), "persistent": v.given("dstmsgpersist"), "delimiterPosition": v.given("dstmsgdelimposition")}
	for attr, kind := range map[string]string{"dstmsgdelimbytes": "binary", "dstmsgdelimpattern": "pattern", "dstmsgsize": "size"} {
		if v.e.has(attr) {
			a["delimiterType"], a["delimiter"] = kind, v.whole(attr)
		}
	}
	if v.truth("dstmsgincludedelim") {
		a["includeDelimiterInMessage"] = "true"
	}
	if v.e.has("dstmsgprops") {
		a["setMqProps"] = strconv.FormatBool(v.truth("dstmsgprops"))
	}
	return withoutEmpty(a)
}

func withoutEmpty(a map[string]string) map[string]string {
	maps.DeleteFunc(a, func(_, v string) bool { return v == "" })
	return a
}
