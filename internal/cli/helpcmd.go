package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"ferry/internal/cli/output"
	"ferry/internal/cli/usage"
	"ferry/internal/transfer"
)

// newHelp makes the command that shows the help of another one.
func newHelp() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND...]", Short: "Help about any command or topic",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			at, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) == 0 {
				for _, c := range at.Commands() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, word := range args {
				next, _, err := at.Find([]string{word})
				if err != nil || next == at {
					return usage.UnknownCommand(at, word)
				}
				at = next
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		}}
}

// newWords is a topic of help and no command.
func newWords() *cobra.Command {
	return &cobra.Command{Use: "words", Short: "Explain the words on Ferry's screens", Long: `The words on Ferry's screens and in its documents:

  one box       ` + "`ferry send`" + ` on one host without agents: everything in one process
  agent         a process that reads and writes the files of one host
  queue manager the server through which agents speak; ` + "`ferry up`" + ` runs one
  coordination  the service that knows which agents there are, and keeps the audit log
  transfer      one request with all of its files; it has one ID and one outcome
  item          a file or directory of a transfer
  lane          the way the data takes: direct, from agent to agent, or queue, through
                the queue manager; the smaller messages always take the latter
  chunk         the data of one message
  window, frame the amount of data sent before the destination answers: a window is a
                number of chunks, a frame a number of windows
  run-ahead     that amount in bytes
  checkpoint    an offset of a file: all bytes before it are safe at the destination;
                after a failure a transfer goes on from there
  epoch         one run of a transfer from its opening to its end or to the next failure
  ACK           the destination's answer that data has arrived; after each checkpoint, and
                at the end of each file

States of a transfer:

  queued        the queue manager has the request; its source agent has not taken it yet
  accepted      the source agent has the request, and the transfer waits for its turn
  negotiating   the two agents agree on the settings
  recovering    the same after a failure: they agree on where to go on
  running       files are sent
  waiting       something is missing that may come: an agent, space, a free place.
                ` + "`ferry transfer show ID`" + ` has the reason, and when it gives up
  finishing     every file is decided; sources are being deleted (settling, in JSON)
  parked        set aside for a person: ` + "`ferry transfer resume`" + ` or ` + "`cancel`" + ` decides
  cancelling    the agents remove the files that have not arrived
  cancelled     ended by ` + "`ferry transfer cancel`" + `; files that had arrived stay
  withdrawn     given up before any agent took it, by its sender or with its dead letter,
                or a retry while another one runs; it never runs
  successful    every file has arrived
  partial       some files have arrived
  failed        no file has arrived, or the time of the wait was over

States of an agent:

  READY         it takes transfers, and has none
  ACTIVE        it has transfers, and takes more
  DEGRADED      it works, and has lost something; its reason has the next step
  STOPPING      it ends its work, because a person has stopped it
  STOPPED       it was stopped; transfers for it wait until it is started
  UNREACHABLE   it has not reported for a while, and no person has stopped it
  STANDBY       a second instance, which takes over when the first one is gone
  away          stopped or unreachable

Other words:

  dead letter   a request or command that its agent can never take, such as one for an
                agent that was removed; ` + "`ferry queue dead ls`" + ` lists them. A letter is one
                of them, with an ID of its own
  exit          a program of an agent's settings that decides about each transfer or
                monitor; the exit code is the result code of any program
  root          a directory; an agent may read and write beneath its roots only
  bindings      an agent in the same process as its queue manager; otherwise a client
  outbox        audit records that an agent has and coordination has not yet
  job           a name for people, on record with a transfer
`}
}

// newMan writes manual pages.
func newMan() *cobra.Command {
	return &cobra.Command{Use: "man DIR", Short: "Write the manual pages, one for each command, into a directory", Args: usage.OneArg("a directory"),
		Example: "  ferry man /usr/local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return transfer.Errorf(transfer.KindUnwritable, "the directory for the manual pages cannot be made: %w", err)
			}
			h := &doc.GenManHeader{Section: "1", Source: "Ferry " + output.Version, Manual: "Ferry"}
			if err := doc.GenManTree(cmd.Root(), h, args[0]); err != nil {
				return transfer.Errorf(transfer.KindUnwritable, "the manual pages cannot be written: %w", err)
			}
			pages, _ := filepath.Glob(filepath.Join(args[0], "ferry*.1"))
			fmt.Fprintf(cmd.OutOrStdout(), "%s in %s\n", output.Plural(int64(len(pages)), "page"), strings.TrimSuffix(args[0], "/"))
			return nil
		}}
}
