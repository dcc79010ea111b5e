// Package cli is the command line of Ferry: its commands, their flags, output and result codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/node/config"
	"ferry/internal/transfer"
)

// version is the version of the program. Main sets it.
var version = "development"

// Main runs the command line args and returns the exit code. The first of args is the name of the program.
func Main(of string, args []string, stdout, stderr io.Writer) int {
	version = of
	return run(asFTE(args[0], args[1:]), stdout, stderr)
}

// run is the whole program; its result is the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	noCores()
	collectLater()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return exitCode(root.ExecuteContext(context.Background()), stderr)
}

// An exit is a result code that has been explained already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("result code %d", int(e)) }

func exitCode(err error, stderr io.Writer) int {
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}

	err = asOwner(err, os.Args)
	explain(stderr, err)
	var sig signalError
	if errors.As(err, &sig) {
		return sig.code()
	}
	return transfer.KindOf(err).Code()
}

func explain(stderr io.Writer, err error) {
	fmt.Fprintf(stderr, "ferry: %s\n", printable(err.Error()))
}

// printable keeps a message on one line, because names may contain any character.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ferry",
		Short: "Move files between hosts: whole, once, and on record",
		Long: `Ferry moves files between hosts under management: every file is checksummed,
restartable, committed exactly once, and on record.

  ferry send SOURCE... DEST            move files on this host
  ferry up --agent ALPHA=/srv/alpha    a queue manager with an agent
  ferry send ALPHA:in.csv BETA:/srv/   move files between agents`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return bindSettings(root, cmd) }
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newSend(), newSubmit(), newCat(), newUp(), newAgent(), newCoordination(), newTransfer(), newMonitor(), newSchedule(), newTemplate(), newJob(), newCall(), newAudit(), newChannel(), newCodepages(), newDataset(), newToken(), newAuthority(), newIdentity(), newPolicy(), newLogin(), newQM(), newQueue(), newReady(), newConfig(), newVersion(), newMan(), newWords(), newFTE(), newInstallFTE(), newImport())
	completion(root)
	addCompletions(root)
	return root
}

// completion keeps cobra's own completion command, for the shells that the
// contract names.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return transfer.Errorf(transfer.KindUsage, "shell %q is unknown; it is one of bash, zsh, fish, powershell", args[0])
				}
				return nil
			}
			c.RunE = func(cmd *cobra.Command, args []string) error { return cmd.Help() }
		}
	}
}

func bindSettings(root, cmd *cobra.Command) error {
	file, err := config.Load(root, config.Paths())
	if err == nil {
		err = config.Bind(cmd, file)
	}
	return settingsError(err)
}

// settingsError makes an error in the settings one of usage.
func settingsError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return transfer.Errorf(transfer.KindUsage, "settings file %s, named by %s, does not exist", os.Getenv(config.EnvFile), config.EnvFile).
			WithHint("correct or unset " + config.EnvFile)
	}
	return transfer.Errorf(transfer.KindUsage, "%w", err)
}

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

// A keeper keeps data in a directory that it must not lose, and reports when the directory is gone.
type keeper interface {
	Gone() <-chan struct{}
	Lost() error
}

// watchKeeper ends ctx, with the reason for lost, when a keeper has lost its
// directory.
func watchKeeper(ctx context.Context, end context.CancelCauseFunc, k keeper) {
	go func() {
		select {
		case <-k.Gone():
			end(k.Lost())
		case <-ctx.Done():
		}
	}()
}

// lost is the reason of a process that stops without having been told to; nil where it was told.
func lost(ctx context.Context) error {
	if e := (*transfer.Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// stateDir is the user's state directory.
func stateDir() (string, error) {
	dir, err := config.StateDir()
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "%v", err)
	}
	return dir, nil
}

// logFlags are the level and the format of the log.
type logFlags struct{ level, format string }

func (f *logFlags) add(c *cobra.Command, level string) {
	c.Flags().StringVar(&f.level, "log-level", level, "debug, info, warn or error")
	c.Flags().StringVar(&f.format, "log-format", "text", "text or json: one line, or one JSON object, for each event")
}

// logger writes to stderr.
func (f *logFlags) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(f.level)); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "--log-level %q is unknown; it is one of debug, info, warn, error", f.level)
	}
	opt := &slog.HandlerOptions{Level: l}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), opt)), nil
	}
	return nil, transfer.Errorf(transfer.KindUsage, "--log-format %q is unknown; it is one of text, json", f.format)
}

// errorLogger is the logger of commands that have no flags for it.
func errorLogger(cmd *cobra.Command) (*slog.Logger, error) {
	return (&logFlags{"error", "text"}).logger(cmd)
}

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), "ferry", version)
			return nil
		}}
}

func newConfig() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show settings and where they come from", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var asJSON bool
	show := &cobra.Command{Use: "show", Short: "List every setting with its value and origin", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := config.Load(cmd.Root(), config.Paths())
			if err != nil {
				return settingsError(err)
			}
			for _, e := range config.Show(cmd.Root(), file) {
				if asJSON {
					printJSON(cmd, e)
				} else {
					fmt.Fprintf(cmd.OutOrStdout(), "%-20s --%-20s %-30q %s\n", e.Command, e.Flag, e.Value, e.Origin)
				}
			}
			return nil
		}}
	show.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	c.AddCommand(show, &cobra.Command{Use: "paths", Short: "List the settings files, first wins, and the state directory", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, p := range config.Paths() {
				fmt.Fprintln(cmd.OutOrStdout(), p)
			}
			dir, err := stateDir()
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "state:", dir)
			}
			return err
		}})
	return c
}
