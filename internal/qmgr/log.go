package qmgr

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// serverLog hands the embedded server's log to slog. The server's notices are
// many and of no interest to an operator: they are debug lines here. A fatal
// line does not end the process; StartServer turns it into its error.
type serverLog struct {
	log *slog.Logger

	mu    sync.Mutex
	first string // the first fatal line
	files []string

	unstored failures
}

// storeLine begins what the server says of its files.
const storeLine = "Filestore ["

// complaints are the warnings about the server's files so far.
func (l *serverLog) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files
}

func (l *serverLog) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *serverLog) put(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "queue manager: "+fmt.Sprintf(format, v...))
	}
}

func (l *serverLog) Noticef(format string, v ...any) { l.put(slog.LevelDebug, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.put(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.put(slog.LevelDebug, format, v) }

func (l *serverLog) Errorf(format string, v ...any) {
	l.unstored.heard(fmt.Sprintf(format, v...))
	l.put(slog.LevelError, format, v)
}

func (l *serverLog) Warnf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.unstored.heard(line)
	if strings.HasPrefix(line, storeLine) {
		l.mu.Lock()
		if len(l.files) < maxFindings {
			l.files = append(l.files, line)
		}
		l.mu.Unlock()
	}
	l.put(slog.LevelWarn, format, v)
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	if l.first == "" {
		l.first = fmt.Sprintf(format, v...)
	}
	l.mu.Unlock()
	l.put(slog.LevelError, format, v)
}
