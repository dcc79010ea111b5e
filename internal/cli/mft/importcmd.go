package mft

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client/view"
	"ferry/internal/mft/commands"
	mftconfig "ferry/internal/mft/config"
	"ferry/internal/node/config"
	"ferry/internal/transfer"
)

// An importing is one run of ferry import.
type importing struct {
	session.Query
	to     string
	dryRun bool
	counts map[mftconfig.Outcome]int
}

// The outcomes for files that an import makes.
const (
	madeFile  mftconfig.Outcome = "made"
	wouldMake mftconfig.Outcome = "would make"
	isThere   mftconfig.Outcome = "unchanged"
)

// NewImport makes the command `ferry import`.
func NewImport() *cobra.Command {
	i := &importing{counts: map[mftconfig.Outcome]int{}}
	c := &cobra.Command{Use: "import [flags] DIR", Short: "Make settings of a configuration directory of IBM MQ MFT",
		Long: `Reads a configuration directory of IBM MQ Managed File Transfer: that of a
coordination queue manager (coordination.properties, agents/NAME/agent.properties,
UserSandboxes.xml), or one above it. For each agent it writes NAME.yaml, settings as
FERRY_CONFIG takes them, and where the agent has a sandbox NAME.sandbox.json, the
rules for reading and writing. A file that is there with another content is not
replaced. With --network the agents that are named in monitors (fteListMonitors
-ox) and templates (fteListTemplates -x) are told to keep them; run them first.

It prints a result for each property and each file: taken; not needed; or not taken,
with the reason. It makes no agent if Ferry's rules cannot express the agent's sandbox.

Result codes: 0 everything is taken or not needed, 20 something is not taken, 64
there is no such directory, or a file is there already; 75 no queue manager answers.`,
		Example: `  ferry import /var/mqm/mqft/config/COORDQM --dry-run
  ferry import /var/mqm/mqft/config/COORDQM --to ferry.d --network nats://hub:4222
  FERRY_CONFIG=ferry.d/ALPHA.yaml ferry agent run ALPHA --dir /var/lib/ferry/alpha`,
		Args: usage.OneArg("the configuration directory"),
		RunE: i.run}
	fl := c.Flags()
	fl.StringVar(&i.to, "to", ".", "directory for the settings and rules; made if it is not there")
	fl.BoolVar(&i.dryRun, "dry-run", false, "list the files and objects, and make nothing")
	i.Query.Add(c)
	return c
}

func (i *importing) run(cmd *cobra.Command, args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return transfer.Errorf(transfer.KindUsage, "the configuration cannot be read: %w", err).WithHint("name its directory, as mqft/config/COORDQM")
	}
	defer root.Close()
	found, err := mftconfig.Read(root.FS())
	if err != nil {
		return transfer.Errorf(transfer.KindUsage, "%s: %w", args[0], err)
	}
	if len(found.Agents)+len(found.Documents)+len(found.Notes) == 0 {
		return transfer.Errorf(transfer.KindUsage, "%s has no file", args[0]).WithHint("name the configuration directory, as mqft/config/COORDQM")
	}

	files, err := i.files(found)
	if err != nil {
		return err
	}
	for _, n := range found.Notes {
		i.say(cmd, n)
	}
	for _, f := range files {
		if err := i.make(cmd, f); err != nil {
			return err
		}
	}
	if err := i.documents(cmd, found.Documents); err != nil {
		return err
	}
	if !i.JSON {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d taken, %d not needed, %d not taken\n", output.Plural(int64(len(found.Agents)), "agent"),
			i.counts[mftconfig.Taken], i.counts[mftconfig.Needless], i.counts[mftconfig.Missed])
	}
	if i.counts[mftconfig.Missed] > 0 {
		return output.Exit(transfer.CodePartial)
	}
	return nil
}

// say prints the outcome for one object of the configuration.
func (i *importing) say(cmd *cobra.Command, n mftconfig.Note) {
	i.counts[n.Outcome]++
	if i.JSON {
		output.JSON(cmd, view.ImportOf(n))
		return
	}
	at := n.File
	if n.Line > 0 {
		at += fmt.Sprintf(":%d", n.Line)
	}
	if n.What != "" {
		at += " " + n.What
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%-10s %s: %s\n", n.Outcome, output.Printable(at), output.Printable(n.Text))
}

// A newFile is a file that the import makes.
type newFile struct {
	name, is string
	data     []byte
	there    bool // as it is to be
}

// files are those that are made of agents. None of them is there with another content.
func (i *importing) files(found *mftconfig.Config) (all []newFile, err error) {
	to, err := filepath.Abs(i.to)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "--to %s: %w", i.to, err)
	}
	for n := range found.Agents {
		a := &found.Agents[n]
		name := string(a.Name)
		var values []config.Value
		if i.Network != "" {
			values = append(values, config.Value{Flag: "network", Words: []string{i.Network}})
		}
		for _, s := range a.Settings {
			values = append(values, config.Value{Flag: s.Flag, Words: s.Values, List: s.List})
		}
		if a.Sandbox != nil {
			box := filepath.Join(to, name+".sandbox.json")
			values = append(values, config.Value{Flag: "sandbox", Words: []string{box}})
			all = append(all, newFile{name: box, is: "rules for reading and writing at agent " + name, data: append(a.Sandbox, '\n')})
		}
		file := filepath.Join(to, name+".yaml")
		all = append(all, newFile{name: file, is: "settings: FERRY_CONFIG=" + file + " ferry agent run " + name,
			data: append(config.Render("Settings of the agent "+name+", of its configuration in MQ MFT.", "agent run", values),
				config.Render("Messages as scripts for MQ MFT look for them.", "fte", []config.Value{{Flag: "fte-messages", Words: []string{commands.StyleBFG}}})...)})
	}
	for n := range all {
		f := &all[n]
		there, err := os.ReadFile(f.name)
		f.there = err == nil && bytes.Equal(there, f.data)
		if _, err := os.Lstat(f.name); err == nil && !f.there {
			return nil, transfer.Errorf(transfer.KindUsage, "%s is there already, and says something else", f.name).WithHint("remove it, or give another directory with --to")
		}
	}
	return all, nil
}

// make writes a file, durably, and prints the outcome.
func (i *importing) make(cmd *cobra.Command, f newFile) error {
	switch {
	case f.there:
		i.say(cmd, mftconfig.Note{File: f.name, Outcome: isThere, Text: f.is})
		return nil
	case i.dryRun:
		i.say(cmd, mftconfig.Note{File: f.name, Outcome: wouldMake, Text: f.is})
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.name), 0o755); err != nil {
		return transfer.Errorf(transfer.KindUsage, "--to %s: %w", i.to, err)
	}
	file, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return transfer.Errorf(transfer.KindUsage, "%s is there already", f.name).WithHint("give another directory with --to")
	case err != nil:
		return transfer.Errorf(transfer.KindUsage, "--to %s: %w", i.to, err)
	}
	_, err = file.Write(f.data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return transfer.Errorf(transfer.KindUsage, "%s cannot be written: %w", f.name, err)
	}
	i.say(cmd, mftconfig.Note{File: f.name, Outcome: madeFile, Text: f.is})
	return nil
}
