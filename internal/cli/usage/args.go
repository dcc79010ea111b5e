package usage

import (
	"github.com/spf13/cobra"

	"ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// NoArgs accepts no argument.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && cmd.HasSubCommands():
		return UnknownCommand(cmd, args[0])
	case len(args) > 0:
		return transfer.Errorf(transfer.KindUsage, "`%s` takes no argument; %q is one too many", cmd.CommandPath(), args[0])
	}
	return nil
}

// OneArg accepts exactly one argument; the error gives its name.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return transfer.Errorf(transfer.KindUsage, "`%s` takes one argument, %s; it got %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// IDs accepts one or more IDs of transfers, jobs or calls, or the ends of such.
func IDs(noun string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return OneID(noun)(cmd, args)
		}
		for n := range args {
			if err := readID(&args[n]); err != nil {
				return err
			}
		}
		return nil
	}
}

// OneID accepts exactly one ID of a transfer, a job or a call, or the end of one.
func OneID(noun string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := OneArg("a "+noun+" ID or its last six or more characters")(cmd, args); err != nil {
			return err
		}
		return readID(&args[0])
	}
}

// readID checks an ID or the end of one. An ID in the 48 digits of MQ MFT's programs becomes one in Ferry's form, for
// the command that gets the arguments.
func readID(arg *string) error {
	if len(*arg) != 48 {
		return transfer.CheckIDSuffix(*arg)
	}
	id, err := xml.ParseID(*arg)
	if err != nil {
		return err
	}
	*arg = id.String()
	return nil
}
