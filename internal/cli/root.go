// Package cli is the command line of Ferry: its commands, their flags, output and result codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	cliagent "ferry/internal/cli/agent"
	cliaudit "ferry/internal/cli/audit"
	clicall "ferry/internal/cli/call"
	clicontent "ferry/internal/cli/content"
	cliidentity "ferry/internal/cli/identity"
	clijob "ferry/internal/cli/job"
	climft "ferry/internal/cli/mft"
	climonitor "ferry/internal/cli/monitor"
	"ferry/internal/cli/output"
	"ferry/internal/cli/qm"
	clischedule "ferry/internal/cli/schedule"
	"ferry/internal/cli/send"
	"ferry/internal/cli/serve"
	"ferry/internal/cli/session"
	clistatus "ferry/internal/cli/status"
	clitemplate "ferry/internal/cli/template"
	clitransfer "ferry/internal/cli/transfer"
	"ferry/internal/cli/usage"
	"ferry/internal/node/config"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/transfer"
)

// Main runs the command line args and returns the exit code. The first of args is the name of the program.
func Main(of string, args []string, stdout, stderr io.Writer) int {
	output.Version = of
	return run(climft.AsFTE(args[0], args[1:]), stdout, stderr)
}

// run is the whole program; its result is the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	process.DisableCoreFiles()
	process.DelayCollection()
	root := newRoot()
	root.SetArgs(args)
	out := output.NewChecked(stdout)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil && out.Err() != nil {
		output.Explain(stderr, fmt.Errorf("the command has ended without an error, but standard output could not be written: %w", out.Err()))
		return transfer.CodeOutput
	}
	return session.ExitCode(err, stderr)
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
		Version:       output.Version,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.UnknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return bindSettings(root, cmd) }
	root.SetFlagErrorFunc(usage.FlagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(send.New(), climft.NewSubmit(), send.NewCat(), serve.NewUp(), cliagent.New(), cliagent.NewLs(), serve.NewCoordination(), clitransfer.New(), clistatus.New(), climonitor.New(), clischedule.New(), clitemplate.New(), clijob.New(), clicall.New(), cliaudit.New(), qm.NewChannel(), clicontent.NewCodepages(), clicontent.NewDataset(), cliidentity.NewToken(), serve.NewAuthority(), cliidentity.NewIdentity(), cliidentity.NewPolicy(), cliidentity.NewLogin(), qm.NewQM(), qm.NewQueue(), qm.NewReady(), newConfig(), newVersion(), newMan(), newWords(), climft.NewFTE(run), climft.NewInstallFTE(), climft.NewImport())
	usage.Help(root, groups())
	completion(root)
	addCompletions(root)
	return root
}

// groups returns the commands by the work that they are for.
func groups() []usage.CommandGroup {
	return []usage.CommandGroup{
		{Title: "Move files", Commands: []string{"send", "cat", "ls", "template"}},
		{Title: "Look", Commands: []string{"status", "transfer", "job", "audit", "agent"}},
		{Title: "Automate", Commands: []string{"monitor", "schedule", "call", "queue"}},
		{Title: "Run", Commands: []string{"up", "agent", "ready", "coordination", "channel", "qm"}},
		{Title: "Give access", Commands: []string{"token", "login", "identity", "policy", "authority"}},
		{Title: "IBM MQ MFT", Commands: []string{"submit", "import", "install-fte"}},
	}
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

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), "ferry", output.Version)
			return nil
		}}
}

func newConfig() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show settings and where they come from", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var asJSON bool
	show := &cobra.Command{Use: "show", Short: "List every setting with its value and origin", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := config.Load(cmd.Root(), config.Paths())
			if err != nil {
				return settingsError(err)
			}
			for _, e := range config.Show(cmd.Root(), file) {
				if asJSON {
					output.JSON(cmd, e)
				} else {
					fmt.Fprintf(cmd.OutOrStdout(), "%-20s --%-20s %-30q %s\n", e.Command, e.Flag, e.Value, e.Origin)
				}
			}
			return nil
		}}
	show.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	c.AddCommand(show, &cobra.Command{Use: "paths", Short: "List the settings files, first wins, and the state directory", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, p := range config.Paths() {
				fmt.Fprintln(cmd.OutOrStdout(), p)
			}
			dir, err := member.StateDir()
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "state:", dir)
			}
			return err
		}})
	return c
}
