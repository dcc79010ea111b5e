//go:build linux

package kill_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ferry/test/flow/network"
)

// A way describes the conditions under which work meets a point.
type way int

const (
	plainly    way = iota // every transfer meets it
	afterAKill            // only a run that follows a crash meets it
	afterAGap             // only a missing chunk message leads to it
	cancelled             // only a transfer that is cancelled meets it
	linking               // only on a file system without a rename that never replaces
	submitting            // the command that submits meets it
	takingOver            // only an instance that takes over from another one; see TestCampaignTakeover
	onDuty                // only an agent that has a monitor, a schedule, a job or a template
	withQueues            // only a transfer that writes or reads an application queue; see queues_test.go
	calling               // only a transfer with triggers or programs; see TestCampaignKillPrograms
	failing               // only a set with a failing item
	refusing              // only a message that is refused for ever; see TestCampaignKillDeadLetters
)

// A point is a failpoint, with the process that meets it.
type point struct {
	name   string
	who    string
	way    way
	before string   // failpoint of the first crash, for afterAKill
	shapes []string // the kinds of work that meet it; none: all four that every fault meets
	once   bool     // a run meets it once at most
}

// byPrefix gives the processes that meet the points of a package, except for points in special.
var byPrefix = map[string][]string{
	"agent": {source}, "walk": {source}, "sender": {source}, "delete": {source}, "journal": {source}, "control": {source},
	"receiver": {dest}, "commit": {dest}, "checkpoint": {dest}, "recover": {dest},
	"ledger": {source, dest}, "outbox": {source, dest}, "claim": {source, dest}, "takeover": {dest},
	"audit": {network.QM}, "coordination": {network.QM}, "submit": {""}, "duty": {source}, "monitor": {source}, "schedule": {source}, "job": {source}, "messages": {dest}, "dead": {network.QM}, "program": {source, dest},
}

// committing is the point behind the ledger entry of a group that is to get its names.
const committing = "commit.after_committing"

var (
	large   = []string{"large"}
	deep    = []string{"deep"}
	keptFor = []string{stored.name}
	asked   = []string{"large", "small", "deep", "replace", "listed"} // any request, in one message or several
)

// special are the points that not every transfer meets. Any other point must be met by each of the four shapes,
// plainly.
var special = map[string]point{
	"agent.opened":              {way: afterAKill, once: true},
	"agent.after_recover":       {way: afterAKill, once: true},
	"agent.after_revive":        {way: afterAKill, once: true},
	"ledger.opened":             {way: afterAKill, once: true},
	"agent.after_part":          {shapes: []string{listed.name}, once: true},
	"agent.before_accept":       {shapes: asked, once: true},
	"agent.after_accept":        {shapes: asked, once: true},
	"agent.before_ack":          {shapes: asked, once: true},
	"sender.before_open":        {once: true},
	"sender.after_open":         {once: true},
	"sender.after_accept":       {once: true},
	"sender.all_sent":           {once: true},
	"sender.before_drop":        {once: true},
	"sender.before_shelved":     {shapes: keptFor, once: true},
	"sender.after_shelved":      {shapes: keptFor, once: true},
	"sender.after_purge":        {shapes: keptFor, once: true},
	"receiver.before_trim":      {shapes: keptFor},
	"receiver.after_trim":       {shapes: keptFor},
	"walk.before_sync":          {shapes: []string{"small"}, once: true},
	"walk.after_end":            {once: true},
	"sender.after_reopen":       {way: afterAKill, before: "sender.before_message", shapes: large, once: true},
	"receiver.after_reopen":     {way: afterAKill, before: "checkpoint.after_ledger", shapes: large, once: true},
	"recover.decided":           {way: afterAKill, before: committing},
	"recover.after_rename":      {way: afterAKill, before: committing},
	"recover.after_sync":        {way: afterAKill, before: committing},
	"receiver.after_open":       {once: true},
	"receiver.after_epoch":      {once: true},
	"receiver.after_accept":     {once: true},
	"receiver.after_decided":    {once: true},
	"receiver.after_resync":     {way: afterAGap, once: true},
	"sender.after_resync":       {way: afterAGap, once: true},
	"checkpoint.after_sync":     {shapes: large},
	"checkpoint.after_ledger":   {shapes: large},
	"commit.after_beside":       {shapes: []string{records.name}},
	"commit.after_join":         {shapes: []string{appended.name}},
	"commit.after_link":         {way: linking, shapes: []string{"large", "small", "deep"}},
	"delete.after_ledger":       {shapes: deep, once: true},
	"delete.after_mark":         {shapes: deep},
	"delete.after_aside":        {shapes: deep},
	"delete.after_unlink":       {shapes: deep},
	"delete.after_archive":      {shapes: []string{archived.name}},
	"delete.before_done":        {shapes: deep, once: true},
	"sender.settling":           {shapes: deep, once: true},
	"sender.after_settled":      {shapes: deep, once: true},
	"control.before_ack":        {way: cancelled, once: true},
	"control.after_cancel":      {way: cancelled, once: true},
	"sender.cancelling":         {way: cancelled, once: true},
	"sender.after_cancelled":    {way: cancelled, once: true},
	"receiver.after_cancel":     {way: cancelled, once: true},
	"receiver.before_done":      {way: cancelled, once: true},
	"receiver.after_done":       {way: cancelled, once: true},
	"submit.before_enqueue":     {way: submitting, shapes: asked, once: true},
	"submit.after_part":         {way: submitting, shapes: []string{listed.name}, once: true},
	"submit.after_enqueue":      {way: submitting, shapes: asked, once: true},
	"outbox.receipted":          {},
	"outbox.proved":             {},
	"receiver.after_temporary":  {},
	"claim.marked":              {way: takingOver},
	"claim.before_rename":       {way: takingOver},
	"claim.copied":              {way: takingOver},
	"takeover.copied":           {way: takingOver},
	"sender.after_trigger":      {way: calling},
	"program.begun":             {way: calling},
	"program.ran":               {way: calling},
	"program.recorded":          {way: calling},
	"duty.before_accept":        {way: onDuty},
	"duty.after_accept":         {way: onDuty},
	"duty.after_command":        {way: onDuty},
	"monitor.before_record":     {way: onDuty},
	"monitor.after_record":      {way: onDuty},
	"monitor.before_done":       {way: onDuty},
	"schedule.after_claim":      {way: onDuty},
	"schedule.before_settle":    {way: onDuty},
	"job.before_settle":         {way: onDuty},
	"job.after_settle":          {way: onDuty},
	"job.after_last":            {way: onDuty},
	"receiver.set_complete":     {shapes: []string{together.name}, once: true},
	"receiver.set_failed":       {way: failing},
	"agent.before_bury":         {way: refusing},
	"agent.after_bury":          {way: refusing},
	"dead.after_put":            {way: refusing},
	"dead.after_resend":         {way: refusing},
	"messages.after_committing": {way: withQueues},
	"messages.before_publish":   {way: withQueues},
	"messages.after_publish":    {way: withQueues},
	"messages.before_settle":    {way: withQueues},
	"messages.before_take":      {way: withQueues},
	"messages.after_take":       {way: withQueues},
}

// A plan is one case: a point to be met in one kind of work.
type plan struct {
	point
	shape shape
}

var hit = regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)

// plans reads the points from the product's code, so that none is missing. It combines each with every process and
// every shape of work that meets it.
func plans(t testing.TB) (all []plan) {
	t.Helper()
	var names []string
	for _, top := range []string{"../../../internal", "../../../cmd"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range hit.FindAllSubmatch(text, -1) {
				names = append(names, string(m[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		prefix, _, _ := strings.Cut(name, ".")
		if byPrefix[prefix] == nil {
			t.Fatalf("nobody knows which process meets the failpoint %s: add its prefix to byPrefix", name)
		}
		for _, who := range byPrefix[prefix] {
			p := special[name]
			if p.way == takingOver || p.way == onDuty || p.way == withQueues || p.way == calling || p.way == failing || p.way == refusing {
				continue
			}
			p.name, p.who = name, who
			for n, s := range slices.Concat(shapes, []shape{records, listed, together, archived, appended, stored}) {
				named := (s.name == together.name || s.name == appended.name) && ofCommit(name)
				if p.shapes == nil && (n < len(shapes) || named) || slices.Contains(p.shapes, s.name) {
					all = append(all, plan{p, s})
				}
			}
		}
	}
	return all
}

// ofCommit reports whether a point belongs to the naming of files. Sets are killed at these points, too.
func ofCommit(name string) bool {
	return strings.HasPrefix(name, "commit.") || strings.HasPrefix(name, "recover.") || strings.HasSuffix(name, "_committed")
}

// second are points that a process meets soon after a restart. A second kill there interrupts the recovery from the
// first.
var second = map[string][]string{
	source: {"agent.opened", "agent.after_recover", "agent.after_revive", "ledger.opened", "ledger.before_commit", "ledger.after_commit",
		"sender.before_open", "sender.after_open", "sender.after_accept", "sender.before_message", "sender.before_outcomes", "sender.after_outcomes"},
	dest: {"agent.opened", "agent.after_recover", "ledger.opened", "ledger.before_commit", "ledger.after_commit", "recover.decided",
		"recover.after_rename", "recover.after_sync", "receiver.after_epoch", "receiver.after_accept", "receiver.after_create",
		"receiver.after_outcomes", "receiver.before_acked", "commit.after_committing", "commit.before_dirsync"},
	network.QM: {"audit.written", "audit.synced", "audit.appended", "coordination.appended", "coordination.before_ack"},
}
