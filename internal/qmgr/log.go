package qmgr

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/quiet"
)

// serverLog passes the embedded server's log to slog. The server's notices are many and of no interest to an operator:
// they are debug lines here. A fatal line does not end the process; StartServer turns it into its error.
type serverLog struct {
	log     *slog.Logger
	members *quiet.Log // of faults of clients

	mu    sync.Mutex
	first string // the first fatal line
	files []string
	calls string // the first line about a failed system call

	unstored failures
	links    func(line string) // takes warnings about channels; nil: they are not wanted
	repeats  repeats
}

// storeLine begins the server's log lines about its files.
const storeLine = "Filestore ["

// complaints returns the warnings about the server's files so far.
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

// newServerLog hands to a logger.
func newServerLog(to *slog.Logger) *serverLog {
	return &serverLog{log: to, members: quiet.New(to, nil)}
}

func (l *serverLog) put(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if l.links != nil && level >= slog.LevelWarn {
		l.links(fmt.Sprintf(format, v...))
	}
	if kind, ok := clientKind(format); ok && level >= slog.LevelWarn {
		l.members.Log(level, "queue manager: a client: "+kind, "said", fmt.Sprintf(format, v...))
		return
	}
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "queue manager: "+fmt.Sprintf(format, v...))
	}
}

// clientKind returns the kind of a log line about a client. It leaves out the parts that differ between clients and the
// parts that clients choose. It is not ok for a line about no client. The server begins such lines with
//
//	ADDRESS - cid:NUMBER - "VERSION:LANGUAGE:NAME" -
func clientKind(format string) (kind string, ok bool) {
	_, rest, ok := strings.Cut(format, "cid:")
	if !ok {
		return "", false
	}
	_, rest, _ = strings.Cut(rest, " - ")
	if strings.HasPrefix(rest, `"`) {
		if at := strings.LastIndex(rest, `" - `); at >= 0 {
			rest = rest[at+len(`" - `):]
		}
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c != ' ' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') })
	if end >= 0 {
		rest = rest[:end]
	}
	return strings.TrimSpace(rest[:min(len(rest), maxKind)]), true
}

// maxKind is the largest length of a kind, in bytes.
const maxKind = 40

func (l *serverLog) Noticef(format string, v ...any) { l.put(slog.LevelDebug, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.put(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.put(slog.LevelDebug, format, v) }

func (l *serverLog) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.unstored.heard(line)
	l.failedCall(line)
	if !l.ofRoutes(format, v) {
		l.put(slog.LevelError, format, v)
	}
}

func (l *serverLog) Warnf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.unstored.heard(line)
	l.failedCall(line)
	if strings.HasPrefix(line, storeLine) {
		l.mu.Lock()
		if len(l.files) < streams.MaxFindings {
			l.files = append(l.files, line)
		}
		l.mu.Unlock()
	}
	if !l.ofRoutes(format, v) {
		l.put(slog.LevelWarn, format, v)
	}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	if l.first == "" {
		l.first = fmt.Sprintf(format, v...)
	}
	l.mu.Unlock()
	l.put(slog.LevelError, format, v)
}
