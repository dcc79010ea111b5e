package cli

import (
	"github.com/spf13/cobra"

	"ferry/internal/transfer"
)

func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	case len(args) > 0:
		return transfer.Errorf(transfer.KindUsage, "`%s` takes no argument; %q is one too many", cmd.CommandPath(), args[0])
	}
	return nil
}

// oneArg accepts exactly one argument; the error gives its name.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return transfer.Errorf(transfer.KindUsage, "`%s` takes one argument, %s; it got %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// oneID accepts exactly one transfer ID, or the end of one.
func oneID(cmd *cobra.Command, args []string) error {
	if err := oneArg("a transfer ID or its last six or more characters")(cmd, args); err != nil {
		return err
	}
	return transfer.CheckIDSuffix(args[0])
}
