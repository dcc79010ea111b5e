package server

import (
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/storage"
	"ferry/internal/transfer"
)

// A stream does not count as damaged if a system call that reads its file fails. It stays, and serves as soon as the
// call succeeds.
func TestFailedReadPutsNothingAside(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir := filled(t, false)
	meta := filepath.Join(dir, commandDir, "meta.inf")
	must(t, os.Rename(meta, meta+".saved"))
	must(t, os.Symlink("/proc/self/mem", meta)) // a read of its first page fails with EIO
	_, err := Start(qmgrtest.Context(t), Config{Dir: dir, Listen: qmgrtest.FreePort(t), Log: qmgrtest.Log(t)})
	qmgrtest.WantKind(t, err, transfer.KindNoManager, "FERRY_COMMAND", "input/output error")
	if _, err := os.Stat(filepath.Join(dir, storage.DamagedDir)); !os.IsNotExist(err) {
		t.Errorf("something was put aside: %v", err)
	}
	must(t, os.Rename(meta+".saved", meta))
	s := start(t, dir, qmgrtest.FreePort(t))
	if why := s.Degraded(); why != "" {
		t.Errorf("degraded: %s", why)
	}
	if left := commandsLeft(t, connect(t, qmgr.ConnConfig{URL: s.URL()})); len(left) != 10 {
		t.Errorf("the commands are %v", left)
	}
}
