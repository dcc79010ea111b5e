package usage

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/sys/spelling"
	"ferry/internal/transfer"
)

// habits maps flags of other programs to the same function of Ferry.
var habits = map[string]string{
	"overwrite": "--if-exists overwrite", "force": "--if-exists overwrite", "ignore-existing": "--if-exists skip", "update": "--if-exists update",
	"backup": "--if-exists rename", "remove-source-files": "--delete-source", "move": "--delete-source", "bwlimit": "--limit", "progress": "no flag: progress is shown on a terminal",
	"verbose": "--log-level debug", "text": "--mode text", "parents": "no flag: missing directories are made", "url": "--network", "server": "--network",
}

// UnknownCommand returns the error for a word that is no command beneath cmd.
func UnknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	byName := map[string]string{}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() && c.Name() != "help" {
			continue
		}
		for _, n := range append([]string{c.Name()}, c.SuggestFor...) {
			names, byName[n] = append(names, n), c.CommandPath()
		}
	}

	hint := "`" + cmd.CommandPath() + " --help` lists the commands"
	if near := spelling.Nearest(word, 1, names); len(near) > 0 {
		hint = "did you mean `" + byName[near[0]] + "`? " + hint
	}
	return transfer.Errorf(transfer.KindUsage, "unknown command %q", word).WithHint(hint)
}

// FlagError returns the error for flags that could not be read.
func FlagError(cmd *cobra.Command, err error) error {
	hint := "`" + cmd.CommandPath() + " --help` lists the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if meant := meantFlag(cmd, unknown.GetSpecifiedName()); meant != "" {
			hint = "did you mean " + meant + "? " + hint
		}
	}
	return transfer.Errorf(transfer.KindUsage, "%v", err).WithHint(hint)
}

// meantFlag guesses the flag that was meant by an unknown one; empty: no flag is similar.
func meantFlag(cmd *cobra.Command, name string) string {
	if meant, ok := habits[name]; ok {
		flag, _, _ := strings.Cut(strings.TrimLeft(meant, "-"), " ")
		if cmd.Flags().Lookup(flag) != nil || len(flag) == 1 && cmd.Flags().ShorthandLookup(flag) != nil || strings.HasPrefix(meant, "no flag") && cmd.Name() == "send" {
			return meant
		}
	}

	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spelling.Nearest(name, 1, names); len(near) > 0 {
		return "--" + near[0]
	}
	return ""
}
