package agent

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client/draft"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// lsHint is the hint for `ferry ls` without a directory of an agent.
const lsHint = "give AGENT:PATH; `ferry agent ls` lists the agents, `ferry transfer ls` the transfers"

// NewLs makes the command `ferry ls`.
func NewLs() *cobra.Command {
	q := &session.Query{}
	var long, asCSV bool
	c := &cobra.Command{Use: "ls [flags] AGENT:PATH", Short: "List a directory of an agent",
		Long: `Lists the names in a directory of an agent, or one file. A path without a leading /
is beneath the agent's first root. A person sees the files that a rule lets it send
or write, and the directories that lead to them.`,
		Example: "  ferry ls ALPHA:\n  ferry ls -l ALPHA:out/\n  ferry ls --csv ALPHA:/srv/alpha/out",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return transfer.Errorf(transfer.KindUsage, "`ferry ls` takes one argument, a directory of an agent; it got %d", len(args)).WithHint(lsHint)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, dir, err := directoryOf(args[0])
			if err != nil {
				return err
			}
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			if !q.JSON && !asCSV {
				return net.Directory(ctx, name, dir, func(_ transfer.Path, e *wire.DirEntry) error {
					showEntry(cmd, e, long)
					return nil
				})
			}
			return output.List(cmd, q.JSON, []string{"PATH", "TYPE", "SIZE", "MODIFIED"}, func(row output.Row) error {
				return net.Directory(ctx, name, dir, func(at transfer.Path, e *wire.DirEntry) error {
					l := view.EntryOf(name, at, e)
					row(l, l.Path.String(), l.Type, strconv.FormatInt(l.Size, 10), l.Modified.Format(time.RFC3339))
					return nil
				})
			})
		}}
	q.Add(c)
	c.Flags().BoolVarP(&long, "long", "l", false, "size and time of modification, too")
	c.Flags().BoolVar(&asCSV, "csv", false, "a table with commas, for spreadsheets")
	return c
}

// showEntry prints a name, with a / at the end of a directory's.
func showEntry(cmd *cobra.Command, e *wire.DirEntry, long bool) {
	text, size := output.Printable(e.Name.String()), "-"
	switch e.Type {
	case wire.EntryDir:
		text += "/"
	case wire.EntryFile:
		size = transfer.FormatBytes(e.Size)
	case wire.EntryLink:
		size = "link"
	}
	if !long {
		fmt.Fprintln(cmd.OutOrStdout(), text)
		return
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%10s  %s  %s\n", size, output.Stamp(time.Unix(0, e.Mtime)), text)
}

// directoryOf reads AGENT:PATH. Without a path it is the agent's first root.
func directoryOf(arg string) (transfer.AgentName, transfer.Path, error) {
	if text, ok := strings.CutSuffix(arg, ":"); ok {
		name, err := transfer.ParseAgentName(text)
		return name, ".", err
	}
	name, at, err := draft.Destination(arg)
	switch {
	case err != nil:
		return "", "", err
	case name == "":
		hint := lsHint
		if n, err := transfer.ParseAgentName(arg); err == nil {
			hint = fmt.Sprintf("`ferry ls %s:` lists the first root of agent %s; `ferry transfer ls` lists the transfers", n, n)
		}
		return "", "", transfer.Errorf(transfer.KindUsage, "`ferry ls` lists a directory of an agent, and %s names no agent", transfer.Path(arg)).WithHint(hint)
	case at.Place != transfer.Files:
		return "", "", transfer.Errorf(transfer.KindUsage, "`ferry ls` lists directories of files, and %s is none", transfer.Path(arg)).
			WithHint("`ferry queue ls` lists queues, `ferry dataset ls` the data sets of a directory")
	}
	return name, at.Path, nil
}
