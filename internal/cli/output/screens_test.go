package output

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"

	"ferry/internal/cli/output/outputtest"
)

var update = flag.Bool("update", false, "write the screens anew")

// lists are lists of commands with typical lines, and with a long one.
var lists = []struct {
	command string
	rows    [][]string
}{
	{"transfer ls", [][]string{
		{"ID", "STATE", "FROM", "TO", "FILES", "FAILED", "BYTES", "SUBMITTED", "JOB", "REASON"},
		{"01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "partial", "ALPHA", "BETA", "1", "1", "4 B", "2026-11-20 22:00:00", "nightly", "/srv/in/größe.xml exists already; remove it or use --if-exists overwrite"},
		{"01a20772-f3c1-7aab-9803-6cf40de780e6", "successful", "ALPHA", "BETA", "20000", "0", "19.5 MiB", "2026-11-20 22:00:04", "nightly", ""},
		{"01a20772-f3c1-7aab-9803-7cf40de780e6", "waiting", "ALPHA", "WAREHOUSE-SOUTH", "0", "0", "0 B", "2026-11-20 22:00:04", "", "agent WAREHOUSE-SOUTH does not answer"},
	}},
	{"transfer show (files)", [][]string{
		{"TIME", "RESULT", "SIZE", "DIGEST", "FILE", "REASON"},
		{"2026-11-20 22:00:00", "arrived", "19.5 MiB", "xxh3:2fb2a9a76c9c4a3b2fb2a9a76c9c4a3b", "/srv/incoming/warehouse/south/2026/11/20/stock-4711.csv", ""},
		{"2026-11-20 22:00:00", "failed", "19.5 MiB", "-", "/srv/in/größe.xml", "/srv/in/größe.xml exists already; remove it or use --if-exists overwrite"},
	}},
	{"audit ls", [][]string{
		{"TIME", "AGENT", "EVENT", "TRANSFER", "DETAILS"},
		{"2026-11-20 22:00:00", "WAREHOUSE-SOUTH", "item", "01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "failed: /srv/in/größe.xml exists already"},
		{"2026-11-20 22:00:00", "ALPHA", "completed", "01a20772-f3c1-7aab-9803-6cf40de780e6", "successful 20000 files, 0 failed, 19.5 MiB"},
	}},
	{"audit find", [][]string{
		{"TIME", "RESULT", "FROM", "TO", "SIZE", "DIGEST", "TRANSFER", "REASON"},
		{"2026-11-20 22:00:00", "failed", "ALPHA:/srv/out/größe.xml", "BETA:/srv/in/größe.xml", "4 B", "-", "01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "/srv/in/größe.xml exists already; remove it or use --if-exists overwrite"},
		{"2026-11-20 22:00:00", "arrived", "ALPHA:/srv/out/warehouse/south/2026/11/20/stock-4711.csv", "BETA:/srv/in/stock-4711.csv", "19.5 MiB", "xxh3:2fb2a9a76c9c4a3b2fb2a9a76c9c4a3b", "01a20772-f3c1-7aab-9803-6cf40de780e6", ""},
	}},
	{"audit find (all arrived)", [][]string{
		{"TIME", "RESULT", "FROM", "TO", "SIZE", "DIGEST", "TRANSFER", "REASON"},
		{"2026-11-20 22:00:00", "arrived", "ALPHA:/srv/out/stock-4711.csv", "BETA:/srv/in/stock-4711.csv", "19.5 MiB", "xxh3:2fb2a9a76c9c4a3b2fb2a9a76c9c4a3b", "01a20772-f3c1-7aab-9803-6cf40de780e6", ""},
	}},
	{"agent ls", [][]string{
		{"AGENT", "STATE", "HEARD", "UP SINCE", "HOST", "VERSION", "MODE", "SENDING", "WAITING", "RECEIVING"},
		{"ALPHA", "READY", "2s ago", "2026-11-20 22:00:00", "alpha.example.org", "1.2.3", "client", "1", "0", "0"},
		{"WAREHOUSE-SOUTH", "UNREACHABLE", "2h0m3s ago", "-", "south.example.org", "1.2.3", "client", "0", "3", "0"},
	}},
	{"monitor ls", [][]string{
		{"MONITOR", "AGENT", "STATE", "DIRECTORY", "MATCH", "CONDITION", "TO", "TRIGGERS", "REFUSED", "LAST", "PROBLEM"},
		{"ORDERS", "ALPHA", "watching", "/srv/out", "*.csv", "match", "BETA:in/", "2", "0", "2026-11-20 22:00:00", ""},
		{"STOCK", "WAREHOUSE-SOUTH", "watching", "/srv/out/warehouse/stock", "*.csv", "match", "BETA:in/", "2", "0", "2026-11-20 22:00:00", "/srv/out/warehouse/stock cannot be read: permission denied"},
		{"PRICES", "NORTH", "away", "out", "*.csv", "match", "BETA:in/", "2", "0", "2026-11-20 22:00:00", "agent away since 2026-11-20 22:10:00: it was stopped"},
	}},
	{"monitor history", [][]string{
		{"TIME", "STATE", "TRANSFER", "FILES", "FILE", "REASON"},
		{"2026-11-20 22:00:00", "submitted", "01a20772-f3c1-7aab-9803-6cf40de780e6", "1", "/srv/out/warehouse/south/2026/11/20/stock-4711.csv", ""},
		{"2026-11-20 22:00:00", "refused", "01a20772-f3c1-7aab-9803-7cf40de780e6", "1", "/srv/out/stock-4712.csv", "user bob does not have the authority source at agent ALPHA: no rule gives it"},
	}},
	{"schedule ls", [][]string{
		{"NAME", "AGENT", "NEXT", "EVERY", "LAST", "WAITING", "TO", "OWNER", "PROBLEM"},
		{"nightly", "ALPHA", "2026-11-20 22:00:00", "1 day", "successful", "0", "BETA", "bob", ""},
	}},
	{"schedule ls (an agent is away)", [][]string{
		{"NAME", "AGENT", "NEXT", "EVERY", "LAST", "WAITING", "TO", "OWNER", "PROBLEM"},
		{"nightly", "ALPHA", "2026-11-20 22:00:00", "1 day", "successful", "0", "BETA", "bob", ""},
		{"hourly", "NORTH", "2026-11-20 22:00:00", "1 hour", "failed", "0", "BETA", "bob", "agent away since 2026-11-20 22:10:00"},
	}},
	{"template ls", [][]string{
		{"NAME", "AGENT", "TO", "PARAMETERS", "OWNER", "PROBLEM"},
		{"monthly", "ALPHA", "BETA", "year month", "bob", "agent away since 2026-11-20 22:10:00"},
	}},
	{"job ls", [][]string{
		{"ID", "STATE", "FROM", "ENDED", "SUCCESSFUL", "FILES", "FAILED", "BYTES", "MADE", "JOB", "OWNER", "PROBLEM"},
		{"01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "running", "ALPHA", "1/3", "1", "20000", "0", "19.5 MiB", "2026-11-20 22:00:00", "prices", "bob", "agent away since 2026-11-20 22:10:00"},
	}},
	{"call ls", [][]string{
		{"ID", "STATE", "AGENT", "PROGRAM", "EXIT CODE", "MADE", "JOB", "OWNER"},
		{"01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "ended", "ALPHA", "/srv/bin/close-day", "0", "2026-11-20 22:00:00", "nightly", "bob"},
	}},
	{"queue ls", [][]string{
		{"QUEUE", "MESSAGES", "BYTES", "LIMIT", "REPLICAS"},
		{"ORDERS", "12", "4.0 KiB", "1.0 GiB", "1"},
	}},
	{"qm ls", [][]string{
		{"NAME", "CLUSTER", "BY", "STATE", "URL", "NATS", "LEADS", "CONNECTIONS", "STORE", "BEHIND"},
		{"QM1", "MAIN", "route", "UP", "nats://queue1.example.org:4222", "2.12.2", "COMMAND CONTROL EVENT", "7", "19.5 MiB", "0"},
	}},
	{"channel ls", [][]string{
		{"CHANNEL", "STATE", "DIRECTION", "ROUND TRIP", "IN", "OUT", "WAITING", "REASON"},
		{"SOUTH", "retrying", "out", "-", "0 B", "0 B", "3", "cannot connect to south.example.org:4222: connection refused"},
	}},
	{"token ls", [][]string{
		{"TOKEN", "FOR", "ROLE", "UNTIL"},
		{"3f9a0c12", "ferry://network-7f3a/user/bob", "sender", "2026-11-20 22:00:00"},
	}},
	{"identity ls", [][]string{
		{"IDENTITY", "ROLE", "ISSUED", "UNTIL", "STATE"},
		{"ferry://network-7f3a/agent/WAREHOUSE-SOUTH", "agent", "2026-11-20 22:00:00", "2026-12-20 22:00:00", "good"},
	}},
	{"identity show", [][]string{
		{"IDENTITY", "UNTIL", "RENEWED FROM", "DIRECTORY"},
		{"ferry://network-7f3a/user/bob", "2026-12-20 22:00:00", "2026-12-10 22:00:00", "/var/lib/bob/ferry/identities/network-7f3a"},
	}},
	{"policy test", [][]string{
		{"", "PRINCIPAL", "AUTHORITY", "AGENT", "PATH", "RULE"},
		{"allowed", "bob", "source", "ALPHA", "/srv/out/warehouse/south/stock-4711.csv", "senders"},
		{"refused", "bob", "destination", "WAREHOUSE-SOUTH", "/srv/in/stock-4711.csv", "user bob does not have the authority destination at agent WAREHOUSE-SOUTH: no rule gives it"},
	}},
	{"transfer ls (wide characters)", [][]string{
		{"ID", "STATE", "FROM", "TO", "FILES", "FAILED", "BYTES", "SUBMITTED", "JOB", "REASON"},
		{"01a20772-ca3d-7cbd-89b9-4cb1ee1b3a47", "partial", "ALPHA", "BETA", "1", "1", "4 B", "2026-11-20 22:00:00", "夜間バッチ", "/srv/in/大きさ.xml exists already; remove it or use --if-exists overwrite"},
		{"01a20772-f3c1-7aab-9803-6cf40de780e6", "successful", "ALPHA", "BETA", "20000", "0", "19.5 MiB", "2026-11-20 22:00:04", "nightly", ""},
	}},
	{"agent show (part)", [][]string{
		{"agent", "ALPHA"}, {"state", "DEGRADED"},
		{"reason", "the queue manager has lost messages; requests that were stored before 22:00 are to be submitted again"},
		{"roots", "/srv/out /srv/in"},
	}},
}

// TestScreens compares lists at 80, 120 and 200 columns with those in testdata.
func TestScreens(t *testing.T) {
	var shown strings.Builder
	for _, l := range lists {
		for _, width := range []int{80, 120, 200} {
			var rows [][]string
			for _, r := range l.rows {
				rows = append(rows, append([]string(nil), r...))
			}
			var out bytes.Buffer
			Screen{Width: width}.Table(&out, rows)
			fmt.Fprintf(&shown, "%s, %d columns:\n", l.command, width)
			for line := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\n"), "\n") {
				if n := Columns(line); n >= width {
					t.Errorf("%s: %d columns hold %d: %s", l.command, width, n, line)
				}
				shown.WriteString("  |" + line + "\n")
			}
		}
	}
	outputtest.Screens(t, *update, shown.String())
}
