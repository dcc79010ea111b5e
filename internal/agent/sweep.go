package agent

import (
	"log/slog"
	"os"
	"path/filepath"

	"ferry/internal/agent/outbox"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/transfer"
)

// Sweep cleans up after a dead agent of one box. It passes the agent's audit records to the log. It removes the
// temporary files beneath root that the ledger in dir knows.
func Sweep(name transfer.AgentName, dir, root string, to outbox.Appender, log *slog.Logger) error {
	if _, err := os.Stat(filepath.Join(dir, "ledger.db")); err != nil {
		return nil // it died before it had a ledger
	}

	l, err := ledger.Open(dir, ledger.Options{Log: log, Reserve: -1})
	if err != nil {
		return err
	}
	defer l.Close()

	files, err := local.Open(local.Config{Roots: []string{root}, StateDirs: []string{dir}, Incarnation: l.Incarnation(), Log: log, Digest: digest.ByName})
	if err != nil {
		return err
	}
	defer files.Close()

	if err := outbox.Drain(l, name, to); err != nil {
		return err
	}

	return l.View(func(t *ledger.Tx) error {
		return t.Incomings(func(in *ledger.Incoming) error {
			if in.State.Final() && !in.Unswept {
				return nil
			}
			dirs, err := t.Dirs(in.Request.ID)
			if err != nil {
				return err
			}
			return files.Land(place.LandConfig{Transfer: in.Request.ID, Generation: in.Generation, Older: in.Older}).Sweep(dirs)
		})
	})
}
