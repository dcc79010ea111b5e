// Package localtest has the tests that every disk.Disk must pass: its own calls, and landing, recovery and
// deletion on top of them. They run on the host's disk, on the disk in memory, and on the disks of internal/faulty
// while these inject no faults.
package localtest

import (
	"testing"

	"ferry/internal/place/placetest"
)

// Run runs all tests, each on a place of its own.
func Run(t *testing.T, place func(t *testing.T) *Place) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, p *Place)
	}{
		{"open", testOpen}, {"names", testNames}, {"rename", testRename}, {"link", testLink}, {"data", testData},
		{"sync of all", testSyncFS}, {"space", testSpace}, {"meta", testMeta}, {"directories", testDirectories}, {"links are not followed", testNoFollow},
		{"beneath", testBeneath}, {"trace", testTrace}, {"closed", testClosed},
		{"land", testLand}, {"name taken", testNameTaken}, {"skip", testSkip}, {"update", testUpdate}, {"another name", testAnotherName}, {"another name is taken", testAnotherNameTaken}, {"reopen", testReopen},
		{"append", testAppend}, {"append, refused", testAppendRefused}, {"append, at once", testAppendAtOnce}, {"append, changing", testAppendChanging}, {"append, records", testAppendRecords},
		{"sweep", testSweep}, {"resolve", testResolve}, {"escapes", testEscapes}, {"walk", testWalk},
		{"recover", testRecover}, {"delete", testDelete}, {"finish deletion", testFinishDelete},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}

	t.Run("place", func(t *testing.T) {
		placetest.Run(t, func(t *testing.T) *placetest.Fixture { return place(t).fixture(t) })
	})
}
