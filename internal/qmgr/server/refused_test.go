package server

import (
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// The library closes its store when it may not write a file. The store is opened again, with all messages.
func TestAClosedStoreIsOpenedAgain(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), qmgrtest.FreePort(t))
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	enqueue(t, c, "ferry.command.A.b", "command 1")
	s.NS.Warnf("Filesystem permission denied while writing msg, disabling JetStream: %v", syscall.EACCES) // as the library does
	must(t, s.NS.ShutdownJetStream())
	qmgrtest.Eventually(t, "the store is open", s.NS.JetStreamEnabled)
	qmgrtest.Eventually(t, "the queue manager is sound", func() bool { return s.Degraded() == "" })
	qmgrtest.Eventually(t, "a message is stored", func() bool {
		return c.Enqueue(qmgrtest.Context(t), "ferry.command.A.b", "y", []byte("command 2")) == nil
	})
	if left := commandsLeft(t, c); len(left) != 2 {
		t.Errorf("the commands are %v", left)
	}
}

// A message that the server may not write is no sign of a full disk.
func TestARefusedWriteIsNoFullDisk(t *testing.T) {
	for errno, want := range map[syscall.Errno]transfer.Kind{syscall.EACCES: transfer.KindNoManager, syscall.EIO: transfer.KindNoManager, syscall.ENOSPC: transfer.KindNoSpace} {
		err := streams.Explain(&jetstream.APIError{Code: 503, ErrorCode: streams.CodeStoreMaxBytes, Description: "open 1.blk: " + errno.Error()}, "the queue manager", "ferry.command.A.b", 1, 1)
		if k := transfer.KindOf(err); k != want || !strings.Contains(err.Error(), errno.Error()) {
			t.Errorf("%v is of kind %s: %v", errno, k, err)
		}
	}
}
