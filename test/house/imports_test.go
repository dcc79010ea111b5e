package house_test

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A row is packages that do not know each other. A package imports only from
// rows below its own, never sideways and never upwards.
type row struct {
	packages []string
	because  string
}

// rows stand from the top down.
var rows = []row{
	{[]string{"cmd/ferry", "bench/cmd/ferry-bench"}, "programs, which nothing can import"},
	{[]string{"internal/cli"}, "the root command, which only registers the commands"},
	{[]string{"internal/cli/mft"}, "IBM's commands and documents, each of which stands for a command of Ferry"},
	{[]string{"internal/cli/agent", "internal/cli/qm", "internal/cli/send", "internal/cli/status", "internal/cli/template", "internal/cli/transfer"},
		"commands that use flags or output of the commands below"},
	{[]string{"internal/cli/call", "internal/cli/content", "internal/cli/job", "internal/cli/monitor", "internal/cli/schedule", "internal/cli/serve"},
		"the commands of one noun each; none knows another"},
	{[]string{"internal/cli/audit", "internal/cli/identity"}, "commands whose lines and rules the commands above show and read, too"},
	{[]string{"internal/cli/follow"}, "submits and shows any transfer, for all commands that make one"},
	{[]string{"internal/cli/request"}, "the flags of a request, for all commands that describe a transfer"},
	{[]string{"internal/cli/session"}, "connects a command to a network"},
	{[]string{"internal/cli/usage"}, "the help and the errors of usage, which every command uses"},
	{[]string{"internal/cli/output"}, "the screen and the outputs, which every command uses"},
	{[]string{"internal/node/coordinator", "internal/node/queuemanager"}, "whole processes, without the command line that starts them"},
	{[]string{"internal/node/agents"}, "agents in a process of their own or beside a queue manager"},
	{[]string{"internal/node/member", "internal/node/process"}, "the identities of this host, and the limits of a process"},
	{[]string{"internal/node/config"}, "turns files and environment into flags, and knows no other package's settings"},
	{[]string{"bench", "internal/node/onebox"}, "run whole agents, so they stand above them"},
	{[]string{"bench/published", "bench/peers"},
		"the systems that Ferry is compared with; neither imports Ferry, so neither can favour it"},
	{[]string{"internal/coordination", "internal/agent"}, "each decides about transfers on its own; they meet in messages, not in calls"},
	{[]string{"internal/client/draft", "internal/client/view"}, "requests of words, and the JSON forms of all objects, for every interface; no package below knows how an interface asks and answers"},
	{[]string{"internal/client"}, "builds and submits requests of every kind, so it knows the definitions of all duties"},
	{[]string{"internal/agent/earlier", "internal/agent/outbox", "internal/agent/scheduler", "internal/agent/store", "internal/agent/teller"}, "parts of an agent that do not know each other; the agent gives each the functions that it needs"},
	{[]string{"internal/mft/translate"}, "MQ MFT's documents become values of duties here, and audit records become documents; no package below knows XML"},
	{[]string{"internal/mft/ant"}, "scripts that ask for transfers and calls by attributes; carrying them out needs a network, which it is given"},
	{[]string{"internal/mft/commands", "internal/mft/config"}, "the requests of MQ MFT's command lines and configurations, in types of mftxml and policy; carrying them out needs a network, which they do not import"},
	{[]string{"internal/mft/xml"}, "MQ MFT's messages in the requests of Ferry; how a location is typed, the one reader of locations knows"},
	{[]string{"internal/mft/xml/tree"}, "the elements of MQ MFT's XML; their meaning is known only above it"},
	{[]string{"internal/automation/monitor", "internal/automation/schedule", "internal/automation/template", "internal/automation/job", "internal/automation/managedcall"},
		"the duties of an agent: each decides about transfers on its own, and an agent knows them as values of duty.Duty"},
	{[]string{"internal/automation/duty"}, "the services of an agent for duties, so that neither imports the other"},
	{[]string{"internal/automation/exit"}, "the programs of an agent's configuration, each before a program of a request"},
	{[]string{"internal/sender", "internal/receiver", "internal/coordination/status", "internal/automation/call"},
		"the two sides of a transfer talk through wire alone, or the network would not be the protocol's only way; they are handed the parts of an agent that both use"},
	{[]string{"internal/sender/walk"}, "the items of a request; they are the same by whatever way they are sent"},
	{[]string{"internal/receiver/writing"}, "the files of arriving transfers; it takes frames and knows no messages"},
	{[]string{"internal/receiver/entry"}, "the ledger entries of arriving transfers; their states do not depend on the way of the data"},
	{[]string{"internal/faulty"}, "doubles of the disk and the ledger, for tests of all packages above"},
	{[]string{"internal/lane", "internal/lane/queue", "internal/lane/direct", "internal/lane/stored", "internal/audit", "internal/security/enrol"},
		"carry and record the decisions of others; no other package depends on the way of a chunk"},
	{[]string{"internal/audit/witness"}, "the checks of the audit log: a record must be checkable without a log, a ledger or a connection"},
	{[]string{"internal/place/location"}, "the text that people type becomes typed values here, once; packages below get values alone"},
	{[]string{"internal/place/local", "internal/place/pipe", "internal/place/queue", "internal/ledger", "internal/qmgr", "internal/qmgr/server", "internal/security/authority", "internal/security/identities", "internal/automation/program"},
		"each touches one thing outside the process, so that a test can replace one without the others"},
	{[]string{"internal/place/local/land", "internal/place/local/source"}, "the two ends of a transfer on one host: a source is removed by its own identity, not by that of the landed file"},
	{[]string{"internal/place/local/intent", "internal/place/local/walk"}, "walks find files, and sources that are archived must not be found again; intents are the records of landings in the ledger"},
	{[]string{"internal/place/local/disk"}, "opens and changes names beneath the roots of an agent; the order of the steps of a transfer is decided above it"},
	{[]string{"internal/place"}, "the interfaces of a place for files: sender and receiver need them, and each place offers them"},
	{[]string{"internal/content/conversion"}, "the conversion of a file: code pages and records, one after the other"},
	{[]string{"internal/security/access", "internal/security/word"}, "the rights at an agent, from names, rules and the signed document that has them; the author of a message, by its signature"},
	{[]string{"internal/qmgr/forward", "internal/qmgr/cluster", "internal/qmgr/link"},
		"parts of a queue manager, and the connections of a client: they are handed what the others know"},
	{[]string{"internal/qmgr/channel", "internal/qmgr/storage"},
		"channels to other queue managers, and the store of one on its disk"},
	{[]string{"internal/qmgr/registrations"},
		"the queue managers that agents and users are at, from signed statements alone"},
	{[]string{"internal/qmgr/own", "internal/qmgr/errands"},
		"questions to a queue manager, and its connection to itself: client and server share these, and nothing else"},
	{[]string{"internal/qmgr/streams", "internal/qmgr/claims", "internal/qmgr/listen"},
		"stores, queues and their readers; the rights that the authority has signed; a listener's address"},
	{[]string{"internal/qmgr/qmgrtest"},
		"the helpers of the tests of all packages of queue managers"},
	{[]string{"internal/wire"}, "the words on the link: pure bytes, no files and no connections"},
	{[]string{"internal/qmgr/gate", "internal/qmgr/quota", "internal/qmgr/roles", "internal/security/identity", "internal/security/trust", "internal/security/policy", "internal/automation/variable", "internal/flow", "internal/sys/turns", "internal/content/digest", "internal/content/compress", "internal/content/codepage", "internal/content/record", "internal/sys/extsort"},
		"arithmetic and bytes in, bytes out; tested without a network or a disk"},
	{[]string{"internal/transfer"}, "the vocabulary that all others speak"},
	{[]string{"internal/sys/clock", "internal/sys/failpoint", "internal/sys/filelock", "internal/sys/filetest", "internal/sys/tcp", "internal/sys/spelling",
		"internal/sys/quiet", "internal/sys/wake", "internal/sys/descriptor", "internal/security/keyfile", "internal/sys/space", "internal/sys/sleep", "internal/content/textfile"},
		"anything may need the time, a place to crash, a directory for itself, a connection that does not stall, the word that was meant, a log that others cannot fill, a place for secrets, its share of the open files, space that is left, a pause, or a text that a person wrote"},
	{[]string{"internal/sys/dirsync", "internal/sys/posixacl"}, "whoever keeps files makes their names durable in one way, and reads their access control lists in one way"},
}

// An importRule restricts an import beyond the rows: to some packages, or away from some. Tests are held to it too, unless it says otherwise;
// test/ stands outside the product and is not.
type importRule struct {
	imports string   // an import path; with / at its end, all under it
	only    []string // where given, no other package; with / at its end, all under it
	never   []string
	tests   bool // tests are not held to it
	because string
}

var importRules = []importRule{
	{imports: "github.com/nats-io/", only: []string{"internal/qmgr", "internal/qmgr/channel", "internal/qmgr/claims", "internal/qmgr/cluster", "internal/qmgr/storage", "internal/qmgr/errands", "internal/qmgr/forward", "internal/qmgr/link", "internal/qmgr/listen", "internal/qmgr/own", "internal/qmgr/registrations", "internal/qmgr/roles", "internal/qmgr/server", "internal/qmgr/streams"},
		because: "the courier can be replaced only if the packages of one folder know its name"},
	{imports: "go.etcd.io/bbolt", only: []string{"internal/ledger"},
		because: "one package decides which data is durable, and when"},
	{imports: "ferry/bench", only: []string{"bench/cmd/ferry-bench", "bench"},
		because: "an installation of Ferry has no benchmark"},
	{imports: "github.com/spf13/", only: []string{"internal/cli", "internal/cli/", "bench/cmd/ferry-bench", "internal/node/config"},
		because: "packages below the command line do not know that there is one"},
	{imports: "github.com/goccy/go-yaml", only: []string{"internal/node/config"},
		because: "a settings file has one reader"},
	{imports: "github.com/zeebo/xxh3", only: []string{"internal/content/digest"},
		because: "which digests there are is decided in one place"},
	{imports: "github.com/klauspost/compress/", only: []string{"internal/content/compress"},
		because: "one package limits the effect of the other side's bytes on a decompressor"},
	{imports: "ferry/internal/mft/xml", only: []string{"internal/mft/xml", "internal/cli/", "internal/agent", "internal/coordination", "internal/mft/translate", "internal/mft/commands", "internal/mft/config", "internal/mft/ant"},
		because: "MQ MFT's XML is translated where it enters and leaves; duties and the audit log have values of their own"},
	{imports: "ferry/internal/node/config", only: []string{"internal/cli", "internal/cli/", "internal/node/member"},
		because: "each package owns its settings type and is handed its values"},
	{imports: "ferry/internal/qmgr", never: []string{"internal/sender", "internal/sender/walk", "internal/receiver", "internal/receiver/writing", "internal/receiver/entry"},
		because: "their only conversation is wire, over an interface that they declare and a Go channel can replace"},
	{imports: "ferry/internal/receiver", never: []string{"internal/sender", "internal/sender/walk"},
		because: "the two sides share messages, not memory, in tests as well"},
	{imports: "ferry/internal/sender", never: []string{"internal/receiver", "internal/receiver/writing", "internal/receiver/entry"},
		because: "the two sides share messages, not memory, in tests as well"},
	{imports: "ferry/internal/place/local", never: []string{"internal/sender", "internal/sender/walk", "internal/receiver", "internal/receiver/writing", "internal/receiver/entry"},
		because: "local files are one place among others; package place has the functions of all places"},
	{imports: "ferry/internal/place/local", never: []string{"internal/automation/duty"}, tests: true,
		because: "a duty holds a place; local files are one place among others"},
	{imports: "ferry/internal/content/record", never: []string{"internal/sender", "internal/sender/walk", "internal/receiver", "internal/receiver/writing", "internal/receiver/entry", "internal/agent"},
		because: "data sets and sidecars are the local place's business"},
	{imports: "ferry/internal/automation/monitor", never: []string{"internal/agent", "internal/coordination"}, tests: true, because: dutiesAreGiven},
	{imports: "ferry/internal/automation/schedule", never: []string{"internal/agent", "internal/coordination"}, tests: true, because: dutiesAreGiven},
	{imports: "ferry/internal/automation/template", never: []string{"internal/agent", "internal/coordination"}, tests: true, because: dutiesAreGiven},
	{imports: "ferry/internal/automation/job", never: []string{"internal/agent", "internal/coordination"}, tests: true, because: dutiesAreGiven},
	{imports: "ferry/internal/automation/managedcall", never: []string{"internal/agent", "internal/coordination"}, tests: true, because: dutiesAreGiven},
	{imports: "ferry/internal/sys/clock", never: []string{"internal/transfer"},
		because: "the vocabulary needs only the standard library"},
}

// dutiesAreGiven is the reason why an agent does not import its duties.
const dutiesAreGiven = "an agent is given its duties; they meet in messages, not in calls"

// breaker says whether a package exists to break or to check others. Only
// tests, bench and its like import it.
func breaker(dir string) bool {
	return dir == "internal/faulty" || suiteOf(dir) != ""
}

// suiteOf returns the package that a contract suite in dir tests: internal/ledger for internal/ledger/ledgertest.
func suiteOf(dir string) string {
	parent := path.Dir(dir)
	if path.Base(dir) == path.Base(parent)+"test" && rank(parent) >= 0 {
		return parent
	}
	return ""
}

// rank is the row of a package counted from the top, -1 for an unknown one.
func rank(dir string) int {
	for i, r := range rows {
		if slices.Contains(r.packages, dir) {
			return i
		}
	}
	if parent := path.Dir(dir); parent != dir && path.Base(dir) == path.Base(parent)+"test" {
		return rank(parent)
	}
	return -1
}

func underTest(dir string) bool { return dir == "test" || strings.HasPrefix(dir, "test/") }

// knownPackages complains about packages that the table lacks, and of the
// table that are not there.
func knownPackages(files tree) []string {
	var bad []string
	there, folder := map[string]bool{}, map[string]bool{}
	for _, f := range files.goFiles() {
		if !f.test {
			there[f.dir] = true
			folder[path.Dir(f.dir)] = true
		} else if _, ok := there[f.dir]; !ok {
			there[f.dir] = false
		}
	}
	var dirs []string
	for dir := range there {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		if !underTest(dir) && rank(dir) < 0 {
			bad = append(bad, dir+" stands in no row; give it a place in test/house and in the design, with a reason")
		}
	}
	for _, r := range rows {
		for _, dir := range r.packages {
			if !there[dir] && !folder[dir] {
				bad = append(bad, dir+" is in a row but not in the tree; build it, or take it out of the row")
			}
		}
	}
	return bad
}

// importDirection complains about imports that do not go down.
func importDirection(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		if underTest(f.dir) {
			continue
		}
		for _, spec := range f.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if why := refuse(f.dir, f.test, imported); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", f.at(spec), imported, why))
			}
		}
	}
	return bad
}

// named reports whether a list has dir, or with / at its end a directory above dir.
func named(dirs []string, dir string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		return d == dir || strings.HasSuffix(d, "/") && strings.HasPrefix(dir, d)
	})
}

// refuse is why dir may not import a path, "" if it may.
func refuse(dir string, test bool, imported string) string {
	for _, k := range importRules {
		if k.tests && test || imported != strings.TrimSuffix(k.imports, "/") && !strings.HasPrefix(imported, strings.TrimSuffix(k.imports, "/")+"/") {
			continue
		}
		if k.only != nil && !named(k.only, dir) && "ferry/"+dir != imported || slices.Contains(k.never, dir) {
			return k.because
		}
	}
	to, ours := strings.CutPrefix(imported, "ferry/")
	if !ours || to == dir {
		return ""
	}
	if underTest(to) {
		if (test || breaker(dir)) && to == "test/ports" {
			return "" // a port that one test has reserved is reserved for all, or it is for none
		}
		return "the product does not stand on its tests"
	}
	from, below := rank(dir), rank(to)
	if from < 0 || below < 0 {
		return "" // knownPackages says so once
	}
	if breaker(to) && !test && !breaker(dir) && dir != "bench" {
		return "it breaks or checks things, and is for tests and bench"
	}
	switch {
	case below > from:
		return ""
	case below == from && (test || to == path.Dir(dir) || to == suiteOf(dir) || breaker(dir)):
		// A test may look at a neighbour, a child at the interface of its parent.
		return ""
	case below == from:
		return "that is sideways; " + rows[below].because
	}
	return "that is upwards; " + rows[below].because
}

func TestPackagesAreKnown(t *testing.T) { hold(t, knownPackages) }

func TestImportsGoDown(t *testing.T) { hold(t, importDirection) }

func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.because == "" {
			t.Errorf("the row of %v has no reason", r.packages)
		}
		for _, dir := range r.packages {
			if seen[dir] {
				t.Errorf("%s stands in two rows", dir)
			}
			seen[dir] = true
		}
	}
	for _, k := range importRules {
		if k.because == "" || k.only == nil == (k.never == nil) {
			t.Errorf("the rule about %s needs a reason, and either only or never", k.imports)
		}
		for _, dir := range slices.Concat(k.only, k.never) {
			if !seen[strings.TrimSuffix(dir, "/")] {
				t.Errorf("the rule about %s speaks of %s, which stands in no row", k.imports, dir)
			}
		}
	}
}

func TestImportRulesCanFail(t *testing.T) {
	source := func(imports ...string) string {
		text := "package p\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return text
	}
	try(t, importDirection, []trial{
		{"down", tree{"internal/agent/a.go": source("ferry/internal/sender", "ferry/internal/sys/clock", "os")}, ""},
		{"up", tree{"internal/wire/a.go": source("ferry/internal/ledger")}, "that is upwards; each touches one thing"},
		{"sideways", tree{"internal/place/local/a.go": source("ferry/internal/ledger")}, "that is sideways; each touches one thing"},
		{"sideways in a test", tree{"internal/place/local/a_test.go": source("ferry/internal/ledger")}, ""},
		{"up in a test", tree{"internal/place/local/a_test.go": source("ferry/internal/agent")}, "that is upwards"},
		{"a duty", tree{"internal/agent/a.go": source("ferry/internal/automation/job")}, "an agent is given its duties"},
		{"a duty in a test", tree{"internal/agent/a_test.go": source("ferry/internal/automation/job")}, ""},
		{"its own test", tree{"internal/wire/a_test.go": source("ferry/internal/wire")}, ""},
		{"its own test, kept", tree{"internal/node/config/a_test.go": source("ferry/internal/node/config")}, ""},
		{"child and parent", tree{"internal/lane/queue/a.go": source("ferry/internal/lane", "ferry/internal/flow")}, ""},
		{"parent and child", tree{"internal/lane/a.go": source("ferry/internal/lane/queue")}, "that is sideways"},
		{"nats", tree{"internal/agent/a.go": source("github.com/nats-io/nats.go")}, "the packages of one folder know its name"},
		{"nats in a test", tree{"internal/agent/a_test.go": source("github.com/nats-io/nats.go/jetstream")}, "the packages of one folder know its name"},
		{"nats in qmgr", tree{"internal/qmgr/a.go": source("github.com/nats-io/nats-server/v2/server")}, ""},
		{"a name that only begins like it", tree{"internal/agent/a.go": source("go.etcd.io/bbolting")}, ""},
		{"bbolt", tree{"internal/audit/a.go": source("go.etcd.io/bbolt")}, "one package decides"},
		{"config", tree{"bench/a.go": source("ferry/internal/node/config")}, "owns its settings type"},
		{"the other side", tree{"internal/sender/a_test.go": source("ferry/internal/receiver")}, "not memory"},
		{"sender and qmgr", tree{"internal/sender/a.go": source("ferry/internal/qmgr")}, "their only conversation"},
		{"faulty", tree{"internal/agent/a.go": source("ferry/internal/faulty")}, "for tests and bench"},
		{"faulty in a test", tree{"internal/agent/a_test.go": source("ferry/internal/faulty")}, ""},
		{"faulty in bench", tree{"bench/a.go": source("ferry/internal/faulty")}, ""},
		{"a suite", tree{"internal/ledger/ledgertest/a.go": source("ferry/internal/ledger", "testing")}, ""},
		{"a suite in the product", tree{"internal/agent/a.go": source("ferry/internal/ledger/ledgertest")}, "for tests and bench"},
		{"ports in a test", tree{"internal/qmgr/a_test.go": source("ferry/test/ports")}, ""},
		{"ports in the product", tree{"internal/qmgr/a.go": source("ferry/test/ports")}, "does not stand on its tests"},
		{"other helpers in a test", tree{"internal/qmgr/a_test.go": source("ferry/test/judge")}, "does not stand on its tests"},
		{"tests in the product", tree{"cmd/ferry/a.go": source("ferry/test/flow")}, "does not stand on its tests"},
		{"a test from outside", tree{"test/faults/a_test.go": source("github.com/nats-io/nats.go", "ferry/internal/agent")}, ""},
		{"the vocabulary", tree{"internal/transfer/a.go": source("ferry/internal/sys/clock")}, "only the standard library"},
	})
	whole := tree{}
	for _, r := range rows {
		for _, dir := range r.packages {
			whole[dir+"/a.go"] = "package p\n"
		}
	}
	with := func(name, text string) tree {
		more := tree{name: text}
		for k, v := range whole {
			more[k] = v
		}
		return more
	}
	lacking := with("README.md", "")
	delete(lacking, "internal/wire/a.go")
	folder := with("README.md", "")
	delete(folder, "internal/lane/a.go")
	try(t, knownPackages, []trial{
		{"all there", whole, ""},
		{"unknown", with("internal/magic/a.go", "package magic\n"), "internal/magic stands in no row"},
		{"unknown child", with("internal/lane/pigeon/a.go", "package pigeon\n"), "internal/lane/pigeon stands in no row"},
		{"a suite", with("internal/ledger/ledgertest/a.go", "package ledgertest\n"), ""},
		{"a test", with("test/flow/a_test.go", "package flow_test\n"), ""},
		{"a folder of others", folder, ""},
		{"missing", lacking, "internal/wire is in a row but not in the tree"},
	})
}
