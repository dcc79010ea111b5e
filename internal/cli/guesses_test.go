package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ferry/internal/cli/usage"
	"ferry/internal/transfer"
)

// guessed are command lines that users of other programs type, with the commands that Ferry has for them, separated by |.
var guessed = []struct{ typed, meant string }{
	// rclone
	{"copy a B:b", "ferry send"}, {"sync a B:b", "ferry send"}, {"move a B:b", "ferry send"}, {"copyto a b", "ferry send"}, {"moveto a b", "ferry send"},
	{"rcat b", "ferry send"}, {"lsd ALPHA:", "ferry ls"}, {"lsl ALPHA:", "ferry ls"}, {"lsf ALPHA:", "ferry ls"}, {"lsjson ALPHA:", "ferry ls"}, {"tree ALPHA:", "ferry ls"},
	{"check a b", "ferry audit verify"}, {"hashsum md5 a", "ferry audit find"}, {"serve", "ferry up"}, {"rcd", "ferry up"}, {"listremotes", "ferry agent ls"}, {"size ALPHA:", "ferry ls"},
	{"send a b --bwlimit 1M", "--limit"}, {"send a b --progress", "progress is shown"}, {"send a b --ignore-existing", "--if-exists skip"}, {"send a b --include x", "SOURCE"},
	// restic
	{"backup a", "ferry send"}, {"restore x", "ferry send"}, {"snapshots", "ferry transfer ls"}, {"init", "ferry up"}, {"stats", "ferry status|ferry transfer ls"}, {"find a", "ferry audit find"},
	{"forget x", "ferry transfer|ferry agent rm"}, {"key list", "ferry identity ls"}, {"diff a b", "ferry send"}, {"unlock", ""},
	// rsync, scp, sftp
	{"rsync a B:b", "ferry send"}, {"scp a B:b", "ferry send"}, {"cp a B:b", "ferry send"}, {"mv a B:b", "ferry send"}, {"put a", "ferry send"}, {"get a", "ferry send"},
	{"mput a", "ferry send"}, {"send -a a b", "--recursive"}, {"send -n a b", "--dry-run"}, {"send -z a b", "--compress"}, {"send -v a b", "--log-level"},
	{"send a b --remove-source-files", "--delete-source"}, {"send a b --delete-after", "--delete-source"}, {"send a b --update", "--if-exists update"},
	// Servers, containers, services
	{"ps", "ferry transfer ls"}, {"top", "ferry status|ferry transfer ls"}, {"logs", "ferry audit ls"}, {"log", "ferry audit ls"}, {"list", "ferry transfer ls"},
	{"cancel ID", "ferry transfer cancel"}, {"stop ID", "ferry transfer cancel"}, {"kill ID", "ferry transfer cancel"}, {"retry ID", "ferry transfer retry"}, {"resume ID", "ferry transfer resume"},
	{"show ID", "ferry transfer show"}, {"watch ID", "ferry transfer watch"}, {"start", "ferry up"}, {"doctor", "ferry status|ferry ready"}, {"health", "ferry status|ferry ready"},
	{"ping ALPHA", "ferry agent ping"}, {"whoami", "ferry identity show"}, {"export x", "ferry monitor export"}, {"report", "ferry status|ferry transfer ls"}, {"metrics", "ferry status|ferry transfer ls"},
	{"revoke x", "ferry identity revoke"}, {"join", "ferry agent run"}, {"users", "ferry identity ls"}, {"cron", "ferry schedule ls"}, {"rm ALPHA:a", ""}, {"delete ALPHA:a", ""}, {"mkdir ALPHA:d", "ferry send"},
	{"mount a b", ""}, {"shell", ""},
	{"transfer list", "ferry transfer ls"}, {"transfer stop ID", "ferry transfer cancel"}, {"transfer status ID", "ferry transfer show"}, {"transfer logs ID", "ferry audit show"},
	{"agent start ALPHA", "ferry agent run"}, {"agent status ALPHA", "ferry agent show"}, {"monitor add x", "ferry monitor create"}, {"schedule create x", "ferry send"}, {"policy edit", "ferry policy apply"},
	// IBM MQ MFT and IBM MQ
	{"fteCreateTransfer -sa A", "ferry send"}, {"fteListAgents", "ferry agent ls"}, {"fteCancelTransfer x", "ferry transfer cancel"}, {"ftePingAgent A", "ferry agent ping"},
	{"fteStartAgent A", "ferry agent run"}, {"fteStopAgent A", "SIGTERM"}, {"fteCreateMonitor", "ferry monitor create"}, {"fteListMonitors", "ferry monitor ls"}, {"fteListScheduledTransfers", "ferry schedule ls"},
	{"fteShowAgentDetails A", "ferry agent show"}, {"create-transfer", "ferry send"}, {"list-agents", "ferry agent ls"}, {"strmqm QM", "ferry up"}, {"dspmq", "ferry qm ls"},
}

// Of the command lines that users of other programs guess, most lead to the command of Ferry, and none to a command that
// does something else.
func TestGuessedCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	right := 0
	for _, g := range guessed {
		var out, errs bytes.Buffer
		code := run(strings.Fields(g.typed), &out, &errs)
		hint := ""
		if _, after, ok := strings.Cut(errs.String(), "did you mean "); ok {
			hint, _, _ = strings.Cut(after, "?")
		} else if _, after, ok := strings.Cut(errs.String(), "; "); ok && !strings.HasPrefix(after, "`") {
			hint = after
		}
		led := false
		for meant := range strings.SplitSeq(g.meant, "|") {
			led = led || meant != "" && strings.Contains(hint, meant)
		}
		switch {
		case code != transfer.CodeUsage:
			t.Errorf("ferry %s ends with %d: %s", g.typed, code, errs.String())
		case led:
			right++
		case hint != "":
			t.Errorf("ferry %s leads to %q, not to %q", g.typed, hint, g.meant)
		default:
			t.Logf("ferry %s leads nowhere", g.typed)
		}
	}
	if len(guessed) < 60 || right < len(guessed)*5/6 {
		t.Errorf("%d of %d lead to a command", right, len(guessed))
	}
}

// Every command line that a guess leads to exists, and so does every command that gets guesses.
func TestGuessesLeadToCommands(t *testing.T) {
	if dead := usage.Dead(newRoot()); len(dead) > 0 {
		t.Errorf("no command takes %q", dead)
	}
}

// No help of a flag puts words into the place of its value: the library takes words in back quotes for the name of the
// value.
func TestFlagsNameTheirValues(t *testing.T) {
	eachCommand(newRoot(), func(c *cobra.Command) {
		if strings.HasPrefix(c.CommandPath(), "ferry completion") {
			return
		}
		if text := c.LocalFlags().FlagUsages(); strings.Contains(text, "--join ferry") || strings.Contains(text, "--to-xml ferry") {
			t.Errorf("%s: %s", c.CommandPath(), text)
		}
		for line := range strings.SplitSeq(c.LocalFlags().FlagUsages(), "\n") {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), "   "); ok && len(strings.Fields(name)) > 3 {
				t.Errorf("%s: the value of %q has several words", c.CommandPath(), name)
			}
		}
	})
}

// Help fits the width of the terminal, and every command of ferry stands in it.
func TestHelpFitsTheWidth(t *testing.T) {
	for _, width := range []int{80, 120, 200} {
		t.Setenv("COLUMNS", fmt.Sprint(width))
		longest := 0
		eachCommand(newRoot(), func(c *cobra.Command) {
			if strings.HasPrefix(c.CommandPath(), "ferry completion ") {
				return // cobra's own
			}
			var out bytes.Buffer
			if code := run(append(strings.Fields(c.CommandPath())[1:], "--help"), &out, &out); code != 0 {
				t.Errorf("%s --help ends with %d", c.CommandPath(), code)
			}
			text, _, _ := strings.Cut(out.String(), "\nExamples:")
			if _, rest, ok := strings.Cut(out.String(), "\nExamples:"); ok {
				_, rest, _ = strings.Cut(rest, "\n\n")
				text += rest
			}
			for line := range strings.SplitSeq(text, "\n") {
				longest = max(longest, len([]rune(line)))
				if len([]rune(line)) > width {
					t.Errorf("%s --help has more than %d columns: %q", c.CommandPath(), width, line)
				}
			}
		})
		if longest < width*9/10 {
			t.Errorf("help of %d columns uses %d", width, longest)
		}
	}
	var out bytes.Buffer
	run([]string{"--help"}, &out, &out)
	for _, heading := range []string{"Move files:", "Look:", "Automate:", "Run:", "Give access:", "IBM MQ MFT:", "Other:"} {
		if !strings.Contains(out.String(), "\n"+heading+"\n") {
			t.Errorf("the help has no group %q: %s", heading, out.String())
		}
	}
	for _, c := range newRoot().Commands() {
		if c.IsAvailableCommand() && !strings.Contains(out.String(), "\n  "+c.Name()+" ") {
			t.Errorf("the help has no %s", c.Name())
		}
	}
}
