package qmgr

import (
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

// routeLine turns a line that the library logs about routes into a line that an operator can act on. Ok is false for
// other lines. Text is empty for a line that needs no report.
func routeLine(line string) (text string, level slog.Level, ok bool) {
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
func (l *serverLog) ofRoutes(format string, v []any) bool {
	text, level, ok := routeLine(fmt.Sprintf(format, v...))
	if !ok {
		return false
	}
	if text != "" && (level == slog.LevelDebug || l.repeats.new(text, time.Now())) {
		l.put(level, "%s", []any{text})
	}
	return true
}
