package sender

import (
	"context"
	"log/slog"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// waitAgain is the time after which a wait for the same kind of reason is logged again.
const waitAgain = time.Hour

// A transferLog logs the course of one transfer: one line each when it starts, has to wait, resumes, and ends. It is
// not safe for concurrent use.
type transferLog struct {
	log   *slog.Logger // with the ID and the agents
	now   func() time.Time
	told  map[transfer.Kind]time.Time // by reason: last log of a wait
	quiet int                         // waits that were not logged since the last line
	waits bool                        // the last line reports a wait
}

// moved logs a move of the ledger entry from the state before to another one. epoch is the epoch before the change; 0:
// none.
func (c *transferLog) moved(before transfer.State, epoch uint32, rec *ledger.Source) {
	if before == rec.State {
		return
	}

	switch p := &rec.Progress; {
	case rec.State == transfer.Waiting:
		c.waiting(p.Reason)
	case rec.State == transfer.Running && epoch == 0:
		c.waits = false
		c.log.Info("transfer started", "job", p.Job, "lane", p.Lane, "chunk", p.Settings.ChunkSize)
	case rec.State == transfer.Running && c.waits:
		c.log.Info("transfer continues", "lane", p.Lane, "resumes", p.Resumes, "waits", c.quiet)
		c.waits, c.quiet = false, 0
	case rec.State == transfer.Parked:
		c.log.Warn("transfer parked", "job", p.Job, "error", p.Reason)
	case rec.State.Final():
		c.ended(p)
	}
}

// waiting logs a wait, unless one for this kind of reason was logged within waitAgain.
func (c *transferLog) waiting(reason *transfer.Error) {
	kind, now := transfer.KindInternal, c.now()
	if reason != nil {
		kind = reason.Kind
	}

	if last, ok := c.told[kind]; ok && now.Sub(last) < waitAgain {
		c.quiet++
		return
	}

	if c.told == nil {
		c.told = map[transfer.Kind]time.Time{}
	}

	attrs := []any{"error", reason}
	if c.quiet > 0 {
		attrs = append(attrs, "waits", c.quiet)
	}

	c.log.Info("transfer waits", attrs...)
	c.told[kind], c.quiet, c.waits = now, 0, true
}

// reasonsLogged is the most failed items that the log of the end names.
const reasonsLogged = 3

// ended logs the end.
func (c *transferLog) ended(p *transfer.Progress) {
	level := slog.LevelWarn
	if p.State == transfer.Successful {
		level = slog.LevelInfo
	}

	s := p.Summary()
	attrs := []any{"state", p.State, "code", p.Code, "job", p.Job, "files", p.Files, "failed", p.FilesFailed, "bytes", p.Bytes, "seconds", s.Seconds,
		"lane", p.Lane, "resumes", p.Resumes, "resent", p.BytesResent}
	if p.FilesSkipped > 0 {
		attrs = append(attrs, "skipped", p.FilesSkipped)
	}

	if p.Reason != nil {
		attrs = append(attrs, "error", p.Reason)
	}

	if len(p.Failures) > 0 {
		var reasons []string
		for _, f := range p.Failures[:min(len(p.Failures), reasonsLogged)] {
			reasons = append(reasons, f.Err.Text)
		}
		attrs = append(attrs, "reasons", reasons)
	}

	c.log.Log(context.Background(), level, "transfer ended", attrs...)
}
