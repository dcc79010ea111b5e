package session

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ferry/internal/transfer"
)

// LogFlags are the level and the format of the log.
type LogFlags struct{ level, format string }

// Add adds the flags; level is the default.
func (f *LogFlags) Add(c *cobra.Command, level string) {
	c.Flags().StringVar(&f.level, "log-level", level, "debug, info, warn or error")
	c.Flags().StringVar(&f.format, "log-format", "text", "text or json: one line, or one JSON object, for each event")
}

// Logger writes to stderr.
func (f *LogFlags) Logger(cmd *cobra.Command) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(f.level)); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "--log-level %q is unknown; it is one of debug, info, warn, error", f.level)
	}
	opt := &slog.HandlerOptions{Level: l}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), opt)), nil
	}
	return nil, transfer.Errorf(transfer.KindUsage, "--log-format %q is unknown; it is one of text, json", f.format)
}

// ErrorLogger is the logger of commands that have no flags for it.
func ErrorLogger(cmd *cobra.Command) (*slog.Logger, error) {
	return (&LogFlags{"error", "text"}).Logger(cmd)
}

// Serve begins a command that runs until SIGINT or SIGTERM: ctx then ends with a signalError. The command continues
// with a closed standard output or standard error, and it logs SIGHUP.
func (f *LogFlags) Serve(cmd *cobra.Command) (ctx context.Context, log *slog.Logger, stop func(), err error) {
	TakePipes()
	if log, err = f.Logger(cmd); err != nil {
		return nil, nil, nil, err
	}
	ctx, stop = UntilSignal(cmd.Context())
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				log.Info("SIGHUP ignored: logs go to standard error, and identities are renewed without it")
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, log, stop, nil
}
