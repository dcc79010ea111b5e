package onebox

import (
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"ferry/internal/agent"
)

// Each command makes the directory of its run while others clear up behind runs that were killed.
func TestRunsBegunAtTheSameTime(t *testing.T) {
	home := t.TempDir()
	cfg := Config{StateHome: home, Root: home, Records: home, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Share: func([]agent.Config, bool) error { return nil }}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				b, err := New(cfg)
				if err != nil {
					t.Error(err)
					return
				}
				if other, err := lock(b.dir); err == nil {
					other.Close()
					t.Errorf("the directory %s of a run was locked twice", b.dir)
				}
				b.Close()
			}
		})
	}
	all.Wait()
	if left, _ := filepath.Glob(filepath.Join(home, "onebox", "run-*")); len(left) > 0 {
		t.Errorf("directories are left: %q", left)
	}
}
