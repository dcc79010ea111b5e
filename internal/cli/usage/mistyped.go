package usage

import (
	"errors"
	"slices"
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
	"verbose": "--log-level debug", "text": "--mode text", "delete-after": "--delete-source", "remove-source": "--delete-source",
	"existing": "--if-exists update", "include": "a SOURCE with * and ?", "exclude": "a SOURCE with * and ?, or --files-from", "compress-level": "--compress high", "background": "--detach", "async": "--detach",
	"hash": "--checksum", "password": "--join", "token": "--join", "parents": "no flag: missing directories are made", "url": "--network", "server": "--network",
}

// letters maps one-letter flags of other programs to flags of Ferry.
var letters = map[string]string{"n": "--dry-run", "a": "--recursive", "R": "--recursive", "z": "--compress auto", "v": "--log-level debug", "l": "--limit RATE"}

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
	if line := guessed(cmd, word); line != "" {
		hint = "did you mean `" + line + "`? " + hint
	} else if near := spelling.Nearest(word, 1, names); len(near) > 0 && slipped(word, near[0]) {
		hint = "did you mean `" + byName[near[0]] + "`? " + hint
	}
	return transfer.Errorf(transfer.KindUsage, "unknown command %q", word).WithHint(hint)
}

// slipped reports whether a word is another one with a typing error. One letter in place of another makes a short word
// a different word.
func slipped(word, meant string) bool {
	word = strings.ToLower(word)
	if len(meant) < 4 && len(word) == len(meant) {
		return slices.Equal(slices.Sorted(strings.SplitSeq(word, "")), slices.Sorted(strings.SplitSeq(meant, "")))
	}
	return spelling.Distance(word, meant) <= 1
}

// FlagError returns the error for flags that could not be read.
func FlagError(cmd *cobra.Command, err error) error {
	hint := "`" + cmd.CommandPath() + " --help` lists the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "" {
		if meant := letters[unknown.GetSpecifiedName()]; meant != "" && cmd.Flags().Lookup(strings.TrimPrefix(strings.Fields(meant)[0], "--")) != nil {
			hint = "did you mean " + meant + "? " + hint
		}
	} else if errors.As(err, &unknown) {
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
		if cmd.Flags().Lookup(flag) != nil || len(flag) == 1 && cmd.Flags().ShorthandLookup(flag) != nil || !strings.HasPrefix(meant, "-") && cmd.Name() == "send" {
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
