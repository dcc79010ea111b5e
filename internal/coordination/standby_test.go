package coordination

import (
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A service without a standby follows the rules of a directory that services have shared. A service that has lost its
// lock without notice appends nothing more, and while one has the lock another does not start.
func TestCoordinationAloneWhereSomeHaveShared(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Clock: clock.System}
	check(t, os.MkdirAll(filepath.Join(cfg.Dir, "audit"), 0o700))
	if c, err := claimShared(cfg); c != nil || err != nil {
		t.Fatalf("in a directory that was never shared: %v, %v", c, err)
	}
	one, err := takeClaim(cfg.Dir)
	check(t, err)
	check(t, one.take(cfg))
	if _, err := claimShared(cfg); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("beside one that has the lock: %v", err)
	}
	check(t, one.lock.Close()) // by the storage
	check(t, one.fence())
	alone, err := claimShared(cfg)
	check(t, err)
	if err := one.fence(); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("one that has lost its lock goes on: %v", err)
	}
	check(t, alone.fence())
	check(t, alone.Close())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
