package storage

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/quiet"
)

// Log passes the embedded server's log to slog. The server's notices are many and of no interest to an operator:
// they are debug lines here. A fatal line does not end the process; Start turns it into its error.
type Log struct {
	log     *slog.Logger
	members *quiet.Log // of faults of clients

	mu    sync.Mutex
	first string // the first fatal line
	files []string
	calls string // the first line about a failed system call

	unstored failures
	Links    func(line string) // takes warnings about channels; nil: they are not wanted
	repeats  repeats
}

// storeLine begins the server's log lines about its files.
const storeLine = "Filestore ["

// complaints returns the warnings about the server's files so far.
func (l *Log) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files
}

func (l *Log) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// NewLog hands to a logger.
func NewLog(to *slog.Logger) *Log {
	return &Log{log: to, members: quiet.New(to, nil)}
}

func (l *Log) put(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if l.Links != nil && level >= slog.LevelWarn {
		l.Links(fmt.Sprintf(format, v...))
	}
	if kind, ok := ClientKind(format); ok && level >= slog.LevelWarn {
		l.members.Log(level, "queue manager: a client: "+kind, "said", fmt.Sprintf(format, v...))
		return
	}
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "queue manager: "+fmt.Sprintf(format, v...))
	}
}

// ClientKind returns the kind of a log line about a client. It leaves out the parts that differ between clients and the
// parts that clients choose. It is not ok for a line about no client. The server begins such lines with
//
//	ADDRESS - cid:NUMBER - "VERSION:LANGUAGE:NAME" -
func ClientKind(format string) (kind string, ok bool) {
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

func (l *Log) Noticef(format string, v ...any) { l.put(slog.LevelDebug, format, v) }
func (l *Log) Debugf(format string, v ...any)  { l.put(slog.LevelDebug, format, v) }
func (l *Log) Tracef(format string, v ...any)  { l.put(slog.LevelDebug, format, v) }

func (l *Log) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.unstored.heard(line)
	l.failedCall(line)
	if !l.ofRoutes(format, v) {
		l.put(slog.LevelError, format, v)
	}
}

func (l *Log) Warnf(format string, v ...any) {
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
	level := slog.LevelWarn
	if rebuilt(line) {
		level = slog.LevelDebug
	}
	if !l.ofRoutes(format, v) {
		l.put(level, format, v)
	}
}

// rebuilt reports whether a line says that the index of a stream is older than its messages, as after a kill. The server
// builds the index anew from the messages, and there is nothing to do.
func rebuilt(line string) bool {
	return strings.HasPrefix(line, storeLine) &&
		(strings.Contains(line, "] Stream state outdated, ") || strings.HasSuffix(line, "] Recovering stream state from index errored: prior state file"))
}

func (l *Log) Fatalf(format string, v ...any) {
	l.mu.Lock()
	if l.first == "" {
		l.first = fmt.Sprintf(format, v...)
	}
	l.mu.Unlock()
	l.put(slog.LevelError, format, v)
}

// RouteLine turns a line that the library logs about routes into a line that an operator can act on. Ok is false for
// other lines. Text is empty for a line that needs no report.
func RouteLine(line string) (text string, level slog.Level, ok bool) {
	for _, r := range routeLines() {
		m := r.said.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if r.means == "" {
			return "", slog.LevelDebug, true
		}
		var args []any
		for _, a := range m[1:] {
			args = append(args, a)
		}
		return fmt.Sprintf(r.means, args...), r.level, true
	}
	return "", 0, false
}

// A routeMeaning is a line of the library about routes, and its meaning for an operator.
type routeMeaning struct {
	said  *regexp.Regexp
	level slog.Level
	means string // with the groups of said; "": not reported
}

var routeLines = sync.OnceValue(func() []routeMeaning {
	return []routeMeaning{
		// Our own check of names takes its place (identity.Equal).
		{regexp.MustCompile(`TLS certificate chain and hostname of solicited routes will not be verified`), 0, ""},
		{regexp.MustCompile(`Remote server has a duplicate name: "(.*)"`), slog.LevelError,
			"another queue manager of the cluster has the name %s, too: it is not let in. Each member needs a --name of its own"},
		{regexp.MustCompile(`Rejecting connection, cluster name "(.*)" does not match "(.*)"`), slog.LevelError,
			"a queue manager of cluster %s has come by a route to this one of cluster %s: it is not let in. Give the same --cluster to all members, or take its --route away"},
		{regexp.MustCompile(`TLS route handshake error: (?:remote error: )?(.*)`), slog.LevelError,
			"a route to another queue manager is refused: %s. Only queue managers of this network may be there, with certificates that are good"},
		{regexp.MustCompile(`(?:Client connected to Route port|attempted to connect to route port)`), slog.LevelError,
			"a program that is not a queue manager has connected to the port for routes: it is --cluster-listen, and --listen is for agents and users"},
		{regexp.MustCompile(`Error trying to connect to route \(attempt \d+\): (.*)`), slog.LevelInfo,
			"another queue manager of the cluster is not reached yet: %s"},
		{regexp.MustCompile(`JetStream has not established contact with a meta leader|Waiting for routing to be established|JetStream cluster no metadata leader`), slog.LevelDebug,
			"the cluster has not agreed on one that leads yet"},
		// Lines of the library's shutdown and housekeeping.
		{regexp.MustCompile(`Metalayer (?:blocking|async) snapshot|Failed to install snapshot for .*: store is closed`), 0, ""},
	}
})

// repeats keeps a log from repeating the same line.
type repeats struct {
	mu   sync.Mutex
	said map[string]time.Time
}

const repeatAfter = time.Minute

// new reports whether a line was not logged within the last minute.
func (r *repeats) new(line string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.said[line]) < repeatAfter {
		return false
	}
	if r.said == nil || len(r.said) > 100 {
		r.said = map[string]time.Time{}
	}
	r.said[line] = now
	return true
}

// ofRoutes translates a log line of the library about routes, and reports whether it was one.
func (l *Log) ofRoutes(format string, v []any) bool {
	text, level, ok := RouteLine(fmt.Sprintf(format, v...))
	if !ok {
		return false
	}
	if text != "" && (level == slog.LevelDebug || l.repeats.new(text, time.Now())) {
		l.put(level, "%s", []any{text})
	}
	return true
}
