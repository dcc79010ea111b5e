//go:build linux

// Package mutants_test shows that the campaigns can fail. Each patch in patches leaves out one step that a promise
// needs. The go command builds the product with one patch after another (go build -overlay), and the short form of a
// campaign that passes without the patch must fail with it. It is run by make test-mutants.
package mutants_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/test/mutants/overlay"
)

// A mutant is a planted bug and the campaign that is to catch it.
type mutant struct {
	name     string // of the patch in patches
	what     string // the check that it leaves out
	pkg      string // where the campaign is
	campaign string // or a test, by its name
}

const (
	inCommit   = "./test/faults/commit"
	inProtocol = "./test/protocol"
	inDisk     = "./test/faults/disk"
	inSource   = "./test/faults/source"
	inQueue    = "./test/faults/queue"
	inLedger   = "./test/faults/ledger"
	inForgery  = "./test/faults/forgeries"
	inSpeakers = "./test/faults/speakers"
	inPaths    = "./test/faults/paths"
	inKill     = "./test/faults/kill"
	inLink     = "./test/faults/link"
	inFlow     = "./internal/flow"
	inMonitors = "./test/faults/monitored"

	inAuthority = "./internal/security/authority"
	inTrust     = "./internal/security/trust"
	inDirect    = "./internal/lane/direct"
	inRoles     = "./internal/qmgr/roles"
	inLocal     = "./internal/place/local"
	inTampered  = "./test/faults/tampering"
	inManager   = "./internal/qmgr"
	inSchedule  = "./internal/automation/schedule"
	inProgram   = "./internal/automation/program"
	inJob       = "./internal/automation/job"
	inCall      = "./internal/automation/managedcall"
)

var mutants = []mutant{
	{"no-data-sync", "a file's data is not synced before it is committed", inCommit, "crash-states"},
	{"no-group-sync", "the sync of a file system that stands for those of a group's files is left out", inCommit, "crash-states"},
	{"no-directory-sync", "directories are not synced", inCommit, "crash-states"},
	{"set-in-parts", "files that are to arrive together are committed as they come, and those that can be although one cannot", inCommit, "crash-states"},
	{"no-committing", "COMMITTING is not recorded before the rename", inCommit, "crash-states"},
	{"resume-from-size", "a temporary is resumed at its size, not at its recorded point", inCommit, "crash-states"},
	{"sync-retried", "a sync that failed is tried again on the same file", inCommit, "nth-io"},
	{"close-ignored", "an error of close is ignored", inCommit, "nth-io"},
	{"base-not-compared", "a file that is appended to is replaced although it has changed since it was copied", inCommit, "crash-states"},
	{"replace-anyway", "a file is replaced where that was not asked for", inCommit, "nth-io"},
	{"safe-before-ledger", "a safe point is announced before the ledger has it", inProtocol, "simulation"},
	{"audit-apart", "an outcome's audit record is not in its transaction", inProtocol, "simulation"},
	{"deleted-when-sent", "a source is deleted before its outcome is in the ledger", inProtocol, "simulation"},
	{"no-epoch-check", "messages of an old epoch are taken", inProtocol, "corruption"},
	{"digest-unchecked", "the digests of the two sides are not compared", inProtocol, "corruption"},
	{"forgotten-early", "outcomes are forgotten before the source has them", inProtocol, "messages"},
	{"temporary-through-link", "a temporary is opened through a link", inDisk, "attacker"},
	{"descriptors-a-verdict", "an item without a free descriptor fails", inDisk, "descriptors"},
	{"runs-not-merged", "names that are too many for memory are not sorted", inSource, "directory-runs"},
	{"no-second-look", "a source's identity is not checked again after it was read", inSource, "source-changes"},
	{"unlink-by-name", "a source is deleted by its name", inSource, "delete-race"},
	{"outcome-path-believed", "the source that is deleted is the one that OUTCOMES names", inForgery, "forgeries"},
	{"settings-unchecked", "the settings of an ACCEPT are not held against their ranges", inForgery, "forgeries"},
	{"path-not-looked-up", "the path of a directory is not looked up when files get their names and when that is said", inPaths, "path-strikes"},
	{"root-by-handle", "a root stays the directory of the start, even when its path leads elsewhere", inPaths, "path-strikes"},
	{"temporary-by-name", "the renamed file and the file at the final name are not compared with the written one", inPaths, "path-strikes"},
	{"cut-unseen", "the size of a temporary is not looked at", inPaths, "path-strikes"},
	{"known-by-message-only", "a repeated request is known by the queue's message ID only", inQueue, "replay"},
	{"lost-ledger-begun-anew", "a lost ledger is begun anew beside files that prove that there was one", inLedger, "ledger-taken"},
	{"state-dir-not-watched", "the agent does not check whether the ledger is still at its path", inLedger, "ledger-taken"},
	{"stored-acked-early", "a stored message is removed before its data is safe", inQueue, "stored"},
	{"stored-not-purged", "leftovers of an ended transfer stay in the store", inQueue, "stored"},
	{"dead-letter-removed-first", "a dead letter is removed before its message is in its queue again", inKill, "kill-deadletters"},
	{"program-twice", "a program with a recorded end is run again", inKill, "kill-programs"},
	{"messages-stored-again", "the receipt of messages that were stored before a crash is not believed", inKill, "kill-messages"},
	{"messages-picked-again", "a queue that is opened again gives its present messages", inKill, "kill-messages"},
	{"program-code-ignored", "the exit code of a program is ignored", inProtocol, "TestProgramsFail"},
	{"program-link-out", "a program is looked for in its directory before links are resolved, and not after", inProgram, "TestOnlyProgramsOfTheDirectory"},
	{"requests-first", "requests are taken before the cancels that wait have been obeyed", inQueue, "withdrawals"},
	{"late-request-taken", "a request is accepted after its submitter has given it up", inQueue, "withdrawals"},
	{"floor-believed", "a gap in an agent's audit records is passed over for good", inSpeakers, "speakers"},
	{"outcome-believed", "an outcome of a transfer is believed from any publisher", inSpeakers, "speakers"},
	{"object-unconditional", "an upload is completed over any object that is under its key by then", inProtocol, "objects"},
	{"object-part-unanswered", "a part without an answer to its upload is counted", inProtocol, "objects"},
	{"object-version-ignored", "the version of a source in an object store is not compared", inProtocol, "objects"},
	{"token-not-used-up", "a token is good for other keys, too, once it was used", inAuthority, "TestTokens"},
	{"lower-policy-number", "a trust document of any number is taken", inTrust, "TestNumbersOnlyGrow"},
	{"name-unchecked-in-tls", "a certificate of the network is accepted for any name in it", inDirect, "TestSomebodyElseAtTheOtherEnd"},
	{"template-too-wide", "an agent may speak as any other on REPLY", inRoles, "TestRightsOverASocket"},
	{"pattern-on-text", "patterns are compared with the text of a path, not with the real path", inLocal, "TestPermitsRaceLinks"},
	{"permit-not-at-rename", "the rights of a principal are not checked when a file gets its name", inLocal, "TestPermitsAtRename"},
	{"witness-without-consistency", "a witness takes a checkpoint without holding it against the one that it has", inTampered, "tampering"},
	{"outbox-without-proof", "audit records are dropped on a receipt", inTampered, "receipts"},
	{"replicas-stay-one", "the queues of a cluster are kept once", inManager, "TestThreeAreOne"},
	{"errand-answered-by-all", "a question to the queue manager is answered by each member of a cluster", inManager, "TestOneAnswerInACluster"},
	{"claims-not-passed-on", "names to admit stay with the member that the authority has told", inManager, "TestRevokedEverywhere"},
	{"holder-unasked", "a name is taken from an agent that lives", inQueue, "twins"},
	{"fence-unchecked", "an instance that has lost its ledger does not look at the mark", inKill, "takeover"},
	{"ledger-taken-in-place", "a ledger is taken over without a copy", inKill, "takeover"},
	{"generation-not-raised", "a takeover goes on in the temporaries of the instance before", inKill, "takeover"},
	{"schedule-id-unwritten", "an occurrence is submitted under an ID that is not written down", inSchedule, "TestAYear"},
	{"job-id-unwritten", "a transfer of a job is submitted under an ID that is not written down", inJob, "TestJobsWithCrashes"},
	{"job-cancel-passed-over", "a job that is cancelled goes on submitting", inJob, "TestCancelWhileItSubmits"},
	{"job-deletes-early", "the sources of a job are deleted before they have arrived everywhere", inJob, "TestJobsWithCrashes"},
	{"call-started-twice", "a program that ran when its agent ended is started again unasked", inCall, "TestNotAgainAfterACrash"},
	{"tally-unchecked", "an arrived file is not compared with the files at the job's other destinations", inProtocol, "TestDeletedForTheRightSum"},
	{"replaced-unseen", "a file is sent that is another version than the request expects", inProtocol, "TestReplacedBeforeItIsRead"},
	{"line-unmeasured", "a line is believed before its rate is known, and is silent after 4 s", inFlow, "TestBurstDoesNotRaiseTheWindow"},
	{"stored-part-dropped", "the part of a stored message that has come is read again", inLink, "slow-stored"},
	{"question-by-time", "a question is given up at its time, though bytes of it move", inManager, "TestQuestionsOverSlowLines"},
	{"lost-ledger-unasked", "a destination does not end a transfer that its source has lost", inProtocol, "TestSourceLedgerGone"},
	{"trigger-unbound", "a transfer of a monitor sends another version than the one that triggered", inMonitors, "monitor-versions"},
	{"reserve-kept", "a queue manager keeps its reserve on a full disk", inDisk, "hub-full"},
	{"reserved-names", "a path of a request may have a name of Ferry's own in it", inLocal, "TestReservedNames"},
	{"orphans-on-record", "outcomes of a transfer that the ledger never had are put on record", "./internal/agent", "TestOutcomesOfUnknownTransfers"},
	{"disowned-for-anybody", "an agent that claims to be a destination has a transfer ended on record", "./internal/agent", "TestATransferThatTheLedgerDoesNotKnow"},
	{"everything-tells", "warnings and pipes answer a question about a file", "./internal/audit", "TestFindByNameWhoAnswers"},
	{"looked-at-before-rights", "a DEST and a directory of a monitor are looked at before rights are asked", inLocal, "TestRightsBeforeLooks"},
	{"name-is-pattern", "a literal path with a wildcard in it matches other files", inLocal, "TestNamesAreLiteral"},
	{"schedule-in-utc", "days are counted in UTC, not in the schedule's zone", inSchedule, "TestOnceADay"},
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if _, asked := os.LookupEnv("MUTANTS"); !asked {
		fmt.Println("planted bugs are tried under make test-mutants, and none was tried here")
		return 0
	}
	return m.Run()
}

// TestMutants tries each planted bug; MUTANTS names one, empty means all.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	must(t, err)
	t.Chdir(root)
	dir := t.TempDir()
	only := os.Getenv("MUTANTS")
	sound := map[string]bool{}
	caught, tried := 0, 0
	for _, m := range mutants {
		if only != "" && only != m.name {
			continue
		}
		tried++
		t.Run(m.name, func(t *testing.T) {
			if key := m.pkg + m.campaign; !sound[key] {
				if out, err := campaign(t, dir, m, ""); err != nil {
					t.Fatalf("campaign %s fails without any planted bug: %v\n%s", m.campaign, err, tail(out))
				}
				sound[key] = true
			}
			list, err := overlay.Write(dir, root, m.name)
			must(t, err)
			out, err := campaign(t, dir, m, "-overlay="+list)
			if err == nil || !strings.Contains(out, "--- FAIL") {
				t.Fatalf("%s, and campaign %s does not notice (%v)\n%s", m.what, m.campaign, err, tail(out))
			}
			caught++
			t.Logf("caught: %s", m.what)
		})
	}
	if tried == 0 {
		t.Fatalf("there is no planted bug %q", only)
	}
	t.Logf("%d of %d planted bugs were caught", caught, tried)
}

// TestEveryPlantedBugIsTried compares the table with the patches. The house tests apply each patch and check its types.
func TestEveryPlantedBugIsTried(t *testing.T) {
	patches, err := overlay.Bugs("../..")
	must(t, err)
	var listed []string
	for _, m := range mutants {
		listed = append(listed, m.name)
	}
	slices.Sort(listed)
	if !slices.Equal(patches, listed) {
		t.Errorf("patches: %v\nin the table: %v", patches, listed)
	}
}

// campaign builds a package of campaigns with a flag for the go command, and runs the short form of a campaign. The
// programs that the campaign builds have the flag, too.
func campaign(t *testing.T, dir string, m mutant, flag string) (string, error) {
	t.Helper()
	env := append(os.Environ(), "CAMPAIGN="+m.campaign, "COUNT=short", "SEED=", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+flag))
	suite := filepath.Join(dir, filepath.Base(m.pkg)+".test")
	build := exec.Command("go", "test", "-c", "-o", suite, m.pkg)
	build.Env = env
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", m.pkg, err, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Minute)
	defer cancel()
	tests := "Campaign"
	if strings.HasPrefix(m.campaign, "Test") {
		tests = "^" + m.campaign + "$"
	}
	// A planted bug may keep a transfer from its end. The campaign then gives it up after its patience, 10 minutes at most.
	c := exec.CommandContext(ctx, suite, "-test.run", tests, "-test.timeout", "13m")
	c.Dir, c.Env = m.pkg, env
	out, err := c.CombinedOutput()
	return string(out), err
}

func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
