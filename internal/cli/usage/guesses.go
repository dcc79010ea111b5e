package usage

import (
	"strings"

	"github.com/spf13/cobra"
)

// guesses has the words that users of other programs try, by the command that gets the word, with the command lines of
// Ferry that do the same. Of several lines, separated by |, the first one with a command that exists is named.
var guesses = map[string]map[string]string{
	"ferry": {
		// Copying: rclone, rsync, scp, cp, sftp, restic.
		"copy": "ferry send", "cp": "ferry send", "scp": "ferry send", "rsync": "ferry send", "copyto": "ferry send", "put": "ferry send", "get": "ferry send",
		"push": "ferry send", "pull": "ferry send", "upload": "ferry send", "download": "ferry send", "backup": "ferry send", "restore": "ferry send",
		"mput": "ferry send", "mget": "ferry send", "fetch": "ferry send", "receive": "ferry send", "rcat": "ferry send -",
		"sync": "ferry send -r --if-exists update", "bisync": "ferry send -r --if-exists update", "mirror": "ferry send -r --if-exists update",
		"move": "ferry send --delete-source", "mv": "ferry send --delete-source", "moveto": "ferry send --delete-source",
		"check": "ferry audit verify", "cryptcheck": "ferry audit verify", "checksum": "ferry audit find", "hashsum": "ferry audit find", "md5sum": "ferry audit find", "sha256sum": "ferry audit find",
		// Looking.
		"dir": "ferry ls AGENT:PATH", "lsd": "ferry ls AGENT:PATH", "lsl": "ferry ls AGENT:PATH", "lsf": "ferry ls AGENT:PATH", "lsjson": "ferry ls --json AGENT:PATH", "tree": "ferry ls AGENT:PATH",
		"list": "ferry transfer ls", "ps": "ferry transfer ls", "queues": "ferry queue ls", "jobs": "ferry job ls", "transfers": "ferry transfer ls", "agents": "ferry agent ls",
		"snapshots": "ferry transfer ls", "history": "ferry transfer ls", "monitors": "ferry monitor ls", "schedules": "ferry schedule ls", "templates": "ferry template ls",
		"top": "ferry status|ferry transfer ls", "status": "ferry status|ferry transfer ls", "stats": "ferry status|ferry transfer ls", "stat": "ferry status|ferry transfer ls",
		"report": "ferry status|ferry transfer ls", "health": "ferry status|ferry ready", "doctor": "ferry status|ferry ready", "dashboard": "ferry status|ferry transfer ls",
		"overview": "ferry status|ferry transfer ls", "info": "ferry status|ferry agent ls", "metrics": "ferry status|ferry transfer ls", "summary": "ferry status|ferry transfer ls",
		"log": "ferry audit ls", "logs": "ferry audit ls", "events": "ferry audit ls", "search": "ferry audit find", "find": "ferry audit find", "grep": "ferry audit find",
		"show": "ferry transfer show ID", "watch": "ferry transfer watch ID", "follow": "ferry transfer watch ID", "tail": "ferry transfer watch ID", "progress": "ferry transfer watch ID",
		"verify": "ferry audit verify", "diff": "ferry send --dry-run --if-exists update", "wait": "ferry ready",
		"ping": "ferry agent ping NAME", "whoami": "ferry identity show", "users": "ferry identity ls", "user": "ferry token create --user",
		// Changing a transfer.
		"cancel": "ferry transfer cancel ID", "stop": "ferry transfer cancel ID", "kill": "ferry transfer cancel ID", "abort": "ferry transfer cancel ID",
		"retry": "ferry transfer retry ID", "resend": "ferry transfer retry ID", "repeat": "ferry transfer retry ID", "rerun": "ferry transfer retry ID", "restart": "ferry transfer retry ID",
		"ack": "ferry transfer ack ID", "acknowledge": "ferry transfer ack ID",
		"resume": "ferry transfer resume ID", "continue": "ferry transfer resume ID", "limit": "ferry agent set NAME --limit RATE", "bwlimit": "ferry agent set NAME --limit RATE",
		// Running and setting up.
		"serve": "ferry up", "server": "ferry up", "start": "ferry up", "daemon": "ferry up", "init": "ferry up", "run": "ferry up", "rcd": "ferry up", "listen": "ferry up",
		"join": "ferry agent run NAME --join FILE", "register": "ferry agent run NAME --join FILE", "enroll": "ferry login --join FILE", "enrol": "ferry login --join FILE",
		"invite": "ferry token create", "adduser": "ferry token create --user", "useradd": "ferry token create --user", "key": "ferry identity ls", "keys": "ferry identity ls",
		"acl": "ferry policy show", "rules": "ferry policy show", "permissions": "ferry policy show", "grant": "ferry policy apply", "revoke": "ferry identity revoke NAME", "allow": "ferry policy apply",
		"cron": "ferry schedule ls", "at": "ferry send --at TIME", "trigger": "ferry monitor create", "on": "ferry monitor create", "exec": "ferry call run",
		"settings": "ferry config show", "configure": "ferry config show", "env": "ferry config show", "export": "ferry monitor export NAME", "cluster": "ferry qm ls", "upgrade": "ferry version",
		// IBM MQ MFT and IBM MQ.
		"createtransfer": "ferry send", "canceltransfer": "ferry transfer cancel ID", "listagents": "ferry agent ls", "showagentdetails": "ferry agent show NAME", "showagent": "ferry agent show NAME",
		"pingagent": "ferry agent ping NAME", "startagent": "ferry agent run NAME", "createagent": "ferry agent run NAME", "listremotes": "ferry agent ls", "size": "ferry ls -l AGENT:PATH", "du": "ferry ls -l AGENT:PATH", "mkdir": "ferry send", "deleteagent": "ferry agent rm NAME", "cleanagent": "ferry transfer cancel ID",
		"createmonitor": "ferry monitor create", "listmonitors": "ferry monitor ls", "deletemonitor": "ferry monitor rm NAME", "startmonitor": "ferry monitor resume NAME", "stopmonitor": "ferry monitor pause NAME", "clearmonitorhistory": "ferry monitor clear NAME",
		"createtemplate": "ferry template create", "listtemplates": "ferry template ls", "deletetemplates": "ferry template rm NAME",
		"listscheduledtransfers": "ferry schedule ls", "deletescheduledtransfer": "ferry schedule rm NAME", "schedulecreate": "ferry send --at TIME",
		"displayversion": "ferry version", "setupcoordination": "ferry coordination run", "setupcommands": "ferry login --join FILE", "createlogger": "ferry audit xml",
		"startlogger": "ferry audit xml", "obfuscate": "ferry login --join FILE", "crtmqm": "ferry up", "strmqm": "ferry up", "dspmq": "ferry qm ls", "runmqsc": "ferry qm ls", "ras": "ferry agent show NAME",
	},
	"ferry agent":    {"start": "ferry agent run NAME", "create": "ferry agent run NAME", "add": "ferry agent run NAME", "status": "ferry agent show NAME", "info": "ferry agent show NAME", "details": "ferry agent show NAME", "limit": "ferry agent set NAME --limit RATE", "join": "ferry agent run NAME --join FILE"},
	"ferry transfer": {"create": "ferry send", "start": "ferry send", "new": "ferry send", "stop": "ferry transfer cancel ID", "kill": "ferry transfer cancel ID", "abort": "ferry transfer cancel ID", "rm": "ferry transfer cancel ID", "delete": "ferry transfer cancel ID", "status": "ferry transfer show ID", "info": "ferry transfer show ID", "follow": "ferry transfer watch ID", "tail": "ferry transfer watch ID", "logs": "ferry audit show ID", "log": "ferry audit show ID", "history": "ferry audit show ID", "repeat": "ferry transfer retry ID", "restart": "ferry transfer retry ID", "rerun": "ferry transfer retry ID", "continue": "ferry transfer resume ID", "find": "ferry audit find", "dismiss": "ferry transfer ack ID"},
	"ferry audit":    {"log": "ferry audit ls", "history": "ferry audit ls", "check": "ferry audit verify", "export": "ferry audit ls --json"},
	"ferry job":      {"create": "ferry send --also-to", "start": "ferry send --also-to", "stop": "ferry job cancel ID", "status": "ferry job show ID"},
	"ferry monitor":  {"add": "ferry monitor create", "new": "ferry monitor create", "stop": "ferry monitor pause NAME", "start": "ferry monitor resume NAME", "status": "ferry monitor show NAME", "delete": "ferry monitor rm NAME", "remove": "ferry monitor rm NAME", "log": "ferry monitor history NAME", "logs": "ferry monitor history NAME"},
	"ferry schedule": {"create": "ferry send --at TIME", "add": "ferry send --at TIME", "new": "ferry send --at TIME", "cancel": "ferry schedule rm NAME", "stop": "ferry schedule rm NAME", "status": "ferry schedule show NAME"},
	"ferry template": {"add": "ferry template create", "new": "ferry template create", "run": "ferry template send NAME", "start": "ferry template send NAME"},
	"ferry token":    {"new": "ferry token create", "add": "ferry token create", "revoke": "ferry token rm TOKEN"},
	"ferry identity": {"rm": "ferry identity revoke NAME", "delete": "ferry identity revoke NAME", "remove": "ferry identity revoke NAME", "create": "ferry token create", "add": "ferry token create"},
	"ferry policy":   {"set": "ferry policy apply", "edit": "ferry policy apply", "import": "ferry policy apply", "get": "ferry policy show", "ls": "ferry policy show", "list": "ferry policy show", "export": "ferry policy show", "check": "ferry policy test"},
	"ferry queue":    {"new": "ferry queue create", "add": "ferry queue create", "browse": "ferry queue get NAME", "read": "ferry queue get NAME", "write": "ferry queue put NAME", "info": "ferry queue show NAME"},
	"ferry qm":       {"start": "ferry up", "run": "ferry up", "create": "ferry up", "status": "ferry qm ls", "show": "ferry qm ls"},
	"ferry channel":  {"create": "ferry up --channel NAME=URL", "add": "ferry up --channel NAME=URL", "status": "ferry channel ls", "show": "ferry channel ls"},
}

// guessed returns the command line of Ferry that does the same as a word of other programs beneath cmd. It is empty for
// other words. Letter case, hyphens, and the fte of IBM MQ MFT's commands do not count.
func guessed(cmd *cobra.Command, word string) string {
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(word))
	at := guesses[cmd.CommandPath()]
	lines, ok := at[plain]
	if !ok {
		lines = at[strings.TrimPrefix(plain, "fte")]
	}
	for line := range strings.SplitSeq(lines, "|") {
		if line != "" && exists(cmd.Root(), line) {
			return line
		}
	}
	return ""
}

// Dead returns the command lines of the table that no command of root takes.
func Dead(root *cobra.Command) (all []string) {
	for path, words := range guesses {
		if at, rest, err := root.Find(strings.Fields(path)[1:]); err != nil || len(rest) > 0 || at.CommandPath() != path {
			all = append(all, path)
		}
		for _, lines := range words {
			alternatives := strings.Split(lines, "|")
			if last := alternatives[len(alternatives)-1]; !exists(root, last) {
				all = append(all, last)
			}
		}
	}
	return all
}

// exists reports whether the command of a command line exists.
func exists(root *cobra.Command, line string) bool {
	c, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil || c == root {
		return false
	}
	return len(rest) == 0 || !c.HasSubCommands() || strings.HasPrefix(rest[0], "-")
}
