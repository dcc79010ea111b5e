package house_test

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mostFolders is the number of folders directly under internal that a reader can survey.
const mostFolders = 21

// tiers are the folders from the top down. A package imports from its own folder, as the rows of the packages
// allow, and from folders of tiers below. Folders of one tier do not import each other.
var tiers = []row{
	{[]string{"cmd", "bench"}, "programs, which nothing can import"},
	{[]string{"internal/cli"}, "the command line: no other package knows that there is one"},
	{[]string{"internal/node"}, "processes: settings, and agents and queue managers on one host"},
	{[]string{"internal/agent", "internal/coordination"}, "the two kinds of members; they meet in messages, not in calls"},
	{[]string{"internal/client"}, "requests of every kind, for the command line and other programs; it knows the definitions of all duties"},
	{[]string{"internal/mft"}, "IBM's formats, and their translation to and from the values of automation and of the audit log"},
	{[]string{"internal/automation"}, "transfers that no person submits; an agent provides the ledger and the places"},
	{[]string{"internal/sender", "internal/receiver", "internal/lane", "internal/faulty"},
		"the parts of one transfer know the messages and not each other; test doubles replace the tiers below"},
	{[]string{"internal/audit"}, "the record of all transfers"},
	{[]string{"internal/place", "internal/ledger", "internal/qmgr"}, "each touches one thing outside the process"},
	{[]string{"internal/security"}, "names, keys, rules and signatures"},
	{[]string{"internal/flow", "internal/wire"}, "the messages on the line, and the amount of them"},
	{[]string{"internal/content"}, "bytes in, bytes out: digests, compression, code pages, records"},
	{[]string{"internal/transfer"}, "the vocabulary of all packages above"},
	{[]string{"internal/sys"}, "the operating system and the process, without any knowledge of transfers"},
}

// A crossing lets the packages under from import the package to, although its folder stands higher or beside.
// Two folders interleave there.
type crossing struct{ from, to, because string }

var crossings = []crossing{
	{"internal/place/location", "internal/automation/variable", "the text around a variable decides the kind of a location, before a value is filled in"},
	{"internal/security", "internal/qmgr/roles", "an authority signs the rights of each role; the table of roles is a leaf"},
	{"internal/security/enrol", "internal/qmgr/errands", "the authority asks external servers with credentials of its own"},
	{"internal/security/enrol", "internal/qmgr", "a joiner and the authority exchange messages through a queue manager"},
}

// folderOf returns the folder of a package, and "" outside the product.
func folderOf(dir string) string {
	first, rest, _ := strings.Cut(dir, "/")
	if first != "internal" {
		if first == "cmd" || first == "bench" {
			return first
		}
		return ""
	}
	second, _, _ := strings.Cut(rest, "/")
	return path.Join(first, second)
}

// tier returns the tier of a folder counted from the top, and -1 for an unknown one.
func tier(folder string) int {
	return slices.IndexFunc(tiers, func(r row) bool { return slices.Contains(r.packages, folder) })
}

// knownFolders complains about folders that the table lacks, and about those of the table that are not there.
func knownFolders(files tree) []string {
	var bad []string
	there := map[string]bool{}
	for _, f := range files.goFiles() {
		folder := folderOf(f.dir)
		if folder != "" && !there[folder] && tier(folder) < 0 {
			bad = append(bad, folder+" stands in no tier; move its packages into a folder that is there, or give it a tier and a decision")
		}
		there[folder] = true
	}
	for _, r := range tiers {
		for _, folder := range r.packages {
			if !there[folder] {
				bad = append(bad, folder+" is in a tier but not in the tree; take it out of the table")
			}
		}
	}
	return bad
}

// foldersGoDown complains about imports from folders that do not stand below.
func foldersGoDown(files tree) []string {
	var bad []string
	used := map[crossing]bool{}
	for _, f := range files.goFiles() {
		from := folderOf(f.dir)
		for _, spec := range f.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			dir, ours := strings.CutPrefix(imported, "ferry/")
			to := folderOf(dir)
			if err != nil || !ours || from == "" || to == "" || from == to {
				continue
			}
			if n := slices.IndexFunc(crossings, func(c crossing) bool { return c.allows(f.dir, dir) }); n >= 0 {
				used[crossings[n]] = true
				continue
			}
			a, b := tier(from), tier(to)
			if a < 0 || b < 0 || a < b || f.test && a == b {
				continue // knownFolders names unknown folders; a test may look at a neighbour
			}
			bad = append(bad, fmt.Sprintf("%s imports %s, and %s does not stand below %s: %s", f.at(spec), imported, to, from, tiers[b].because))
		}
	}
	for _, c := range crossings {
		if _, there := files["go.mod"]; there && !used[c] {
			bad = append(bad, fmt.Sprintf("the crossing from %s to %s is not used any more; take it out of the table", c.from, c.to))
		}
	}
	return bad
}

func (c crossing) allows(from, to string) bool {
	return to == c.to && (from == c.from || strings.HasPrefix(from, c.from+"/"))
}

func TestFoldersAreKnown(t *testing.T) { hold(t, knownFolders) }

func TestFoldersGoDown(t *testing.T) { hold(t, foldersGoDown) }

func TestTableOfFoldersIsSound(t *testing.T) {
	seen := map[string]bool{}
	folders := 0
	for _, r := range tiers {
		for _, folder := range r.packages {
			if seen[folder] {
				t.Errorf("%s stands in two tiers", folder)
			}
			seen[folder] = true
			if strings.HasPrefix(folder, "internal/") {
				folders++
			}
		}
	}
	if folders > mostFolders {
		t.Errorf("there are %d folders under internal, and the most is %d", folders, mostFolders)
	}
	for _, c := range crossings {
		if c.because == "" || rank(c.to) < 0 || tier(folderOf(c.from)) < 0 || folderOf(c.from) == folderOf(c.to) {
			t.Errorf("the crossing from %s to %s needs a reason, and two known packages of different folders", c.from, c.to)
		}
	}
}

func TestFolderRulesCanFail(t *testing.T) {
	source := func(imports ...string) string {
		text := "package p\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return text
	}
	try(t, foldersGoDown, []trial{
		{"down", tree{"internal/agent/a.go": source("ferry/internal/sys/clock", "os")}, ""},
		{"within", tree{"internal/sys/extsort/a.go": source("ferry/internal/sys/failpoint")}, ""},
		{"up", tree{"internal/sys/clock/a.go": source("ferry/internal/wire")}, "internal/wire does not stand below internal/sys"},
		{"up in a test", tree{"internal/wire/a_test.go": source("ferry/internal/agent")}, "internal/agent does not stand below internal/wire"},
		{"beside", tree{"internal/place/local/a.go": source("ferry/internal/ledger")}, "internal/ledger does not stand below internal/place"},
		{"beside in a test", tree{"internal/place/local/a_test.go": source("ferry/internal/ledger")}, ""},
		{"crossing", tree{"internal/security/enrol/a.go": source("ferry/internal/qmgr")}, ""},
		{"crossing from beneath", tree{"internal/security/authority/authoritytest/a.go": source("ferry/internal/qmgr/roles")}, ""},
		{"crossing from elsewhere", tree{"internal/security/word/a.go": source("ferry/internal/qmgr")}, "internal/qmgr does not stand below internal/security"},
		{"crossing unused", tree{"go.mod": "module ferry\n", "internal/security/enrol/a.go": source("ferry/internal/qmgr", "ferry/internal/qmgr/errands", "ferry/internal/qmgr/roles")},
			"the crossing from internal/place/location to internal/automation/variable is not used"},
		{"of the benchmark", tree{"bench/a.go": source("ferry/internal/client")}, ""},
		{"a test from outside", tree{"test/faults/a_test.go": source("ferry/internal/agent")}, ""},
	})
	whole := tree{}
	for _, r := range tiers {
		for _, folder := range r.packages {
			whole[folder+"/a/a.go"] = "package p\n"
		}
	}
	with := func(name string) tree {
		more := tree{name: "package p\n"}
		for k, v := range whole {
			more[k] = v
		}
		return more
	}
	lacking := with("test/a/a.go")
	delete(lacking, "internal/mft/a/a.go")
	try(t, knownFolders, []trial{
		{"all there", whole, ""},
		{"a new package", with("internal/sys/magic/a.go"), ""},
		{"a new folder", with("internal/magic/a.go"), "internal/magic stands in no tier"},
		{"missing", lacking, "internal/mft is in a tier but not in the tree"},
	})
}
