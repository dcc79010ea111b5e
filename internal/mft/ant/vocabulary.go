package ant

import "strings"

// A kind describes the elements of one name.
type kind struct {
	attrs string // names in small letters, separated by blanks; the name of a required one ends in an exclamation mark
	subs  string // the parts that it takes; "task" and "condition" stand for any of these, "nested" for a <condition> of <fail>
	text  bool   // it takes text
}

// has reports whether the elements have an attribute.
func (k kind) has(attr string) bool {
	for a := range strings.FieldsSeq(k.attrs) {
		if strings.TrimSuffix(a, "!") == attr {
			return true
		}
	}
	return false
}

// required returns the attributes that an element must have.
func (k kind) required() (all []string) {
	for a := range strings.FieldsSeq(k.attrs) {
		if name, is := strings.CutSuffix(a, "!"); is {
			all = append(all, name)
		}
	}
	return all
}

// takes reports whether the elements take parts of a name, which may be "task" or "condition".
func (k kind) takes(name string) bool {
	for s := range strings.FieldsSeq(k.subs) {
		if s == name {
			return true
		}
	}
	return false
}

// ofTransfer has the attributes of a task that sends files.
const ofTransfer = "src! dst! cmdqm idproperty rcproperty jobname origuser outcome priority transferrecoverytimeout"

// inTransfer has the parts of a task that sends files.
const inTransfer = "fte:filespec fte:metadata fte:presrc fte:predst fte:postsrc fte:postdst"

// tasks are the elements that do something, in a target or beside all targets.
var tasks = map[string]kind{
	"property":   {attrs: "name value location file environment prefix", text: true},
	"echo":       {attrs: "message file append level", text: true},
	"fail":       {attrs: "message if unless status", subs: "nested", text: true},
	"condition":  {attrs: "property! value else", subs: "condition"},
	"available":  {attrs: "property! file! type value"},
	"sequential": {subs: "task"},
	"parallel":   {attrs: "failonany threadcount", subs: "task"},

	"fte:filecopy":      {attrs: ofTransfer, subs: inTransfer},
	"fte:filemove":      {attrs: ofTransfer, subs: inTransfer},
	"fte:call":          {attrs: "agent! cmdqm idproperty rcproperty jobname origuser outcome priority", subs: "fte:command fte:metadata"},
	"fte:ping":          {attrs: "agent! cmdqm rcproperty timeout"},
	"fte:uuid":          {attrs: "length! property! prefix"},
	"fte:awaitoutcome":  {attrs: "id! rcproperty timeout"},
	"fte:ignoreoutcome": {attrs: "id!"},
	"fte:cancel":        {attrs: "agent! id! cmdqm origuser"},
}

// conditions are the elements of a condition.
var conditions = map[string]kind{
	"and":       {subs: "condition"},
	"or":        {subs: "condition"},
	"xor":       {subs: "condition"},
	"not":       {subs: "condition"},
	"equals":    {attrs: "arg1! arg2! casesensitive trim"},
	"isset":     {attrs: "property!"},
	"istrue":    {attrs: "value!"},
	"isfalse":   {attrs: "value!"},
	"contains":  {attrs: "string! substring! casesensitive"},
	"available": {attrs: "file! type"},
	"os":        {attrs: "family!"},
}

// ofProgram describes an element for a program of an agent.
var ofProgram = kind{attrs: "command! type successrc retrycount retrywait", subs: "fte:arg fte:property fte:target"}

// parts are the other elements.
var parts = map[string]kind{
	"project":     {attrs: "name default basedir", subs: "task target description"},
	"description": {text: true},
	"target":      {attrs: "name! depends if unless description", subs: "task"},

	"fte:filespec": {attrs: "srcfilespec srcqueue srcencoding srceol srckeeptrailingspaces srcmsgdelimbytes srcmsgdelimtext srcmsgdelimposition srcmsggroups srcqueuetimeout " +
		"dstfile dstdir dstds dstpds dstqueue dstencoding dsteol dsttruncaterecords dstmsgdelimbytes dstmsgdelimpattern dstmsgdelimposition dstmsgincludedelim dstmsgpersist dstmsgprops dstmsgsize " +
		"checksum conversion overwrite recurse"},
	"fte:metadata": {subs: "fte:entry"},
	"fte:entry":    {attrs: "name! value!"},
	"fte:presrc":   ofProgram,
	"fte:predst":   ofProgram,
	"fte:postsrc":  ofProgram,
	"fte:postdst":  ofProgram,
	"fte:command":  ofProgram,
	"fte:arg":      {attrs: "value!"},
	"fte:property": {attrs: "name! value!"},
	"fte:target":   {attrs: "name!"},
}

// later has attributes of MQ MFT that Ferry does not have, with the reason.
var later = map[string]string{
	"dstfilespace":     "Ferry has no file spaces; use dstdir",
	"srcrecdelimbytes": "delimiters of records are not built yet",
	"srcrecdelimpos":   "delimiters of records are not built yet",
}

// words are the values of attributes that take one of a few words. The first is the default.
var words = map[string][]string{
	"outcome":             {"await", "defer"},
	"conversion":          {"binary", "text"},
	"checksum":            {"md5", "none"},
	"srceol":              {"lf", "crlf"},
	"dsteol":              {"lf", "crlf"},
	"srcmsgdelimposition": {"prefix", "postfix"},
	"dstmsgdelimposition": {"postfix", "prefix"},
	"dstmsgpersist":       {"true", "false", "qdef"},
	"type":                {"executable", "antscript", "jcl"},
	"level":               {"warning", "error", "info", "verbose", "debug"},
	"family":              {"unix", "windows", "mac", "dos", "os/2", "netware", "openvms", "os/400", "z/os", "tandem", "win9x", "winnt"},
}

// truths are the attributes that are true or false.
var truths = []string{"append", "failonany", "casesensitive", "trim", "overwrite", "recurse", "srckeeptrailingspaces", "srcmsggroups", "dsttruncaterecords", "dstmsgincludedelim", "dstmsgprops"}
