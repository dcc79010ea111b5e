package usage

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"ferry/internal/cli/output"
)

// A Group is a heading of a command's help with the flags beneath it.
type Group struct {
	Title string
	Flags []string
}

// A CommandGroup is a heading of a command's help with the commands beneath it. A command may stand in several groups.
type CommandGroup struct {
	Title    string
	Commands []string
}

// Groups shows a command's flags under headings. Flags that no group names come last.
func Groups(c *cobra.Command, groups []Group) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		width := helpWidth(out)
		usageLines(out, c, width)
		shown := map[string]bool{}
		for _, g := range groups {
			set := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
			set.SortFlags = false
			for _, name := range g.Flags {
				set.AddFlag(c.Flags().Lookup(name))
				shown[name] = true
			}
			flagLines(out, g.Title, set, width)
		}
		rest := pflag.NewFlagSet("others", pflag.ContinueOnError)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !shown[f.Name] {
				rest.AddFlag(f)
			}
		})
		flagLines(out, "Others", rest, width)
		return nil
	})
}

// Help makes root and all commands beneath it show their help in the width of the terminal. The commands of root stand
// in groups; those that no group names come last.
func Help(root *cobra.Command, groups []CommandGroup) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		out := c.OutOrStdout()
		if text := cmp.Or(c.Long, c.Short); text != "" {
			fmt.Fprintf(out, "%s\n", wrapped(text, helpWidth(out)))
		}
		if c.Runnable() || c.HasSubCommands() {
			fmt.Fprintln(out)
			c.UsageFunc()(c) // writes to the same output, and fails with it
		}
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		width := helpWidth(out)
		usageLines(out, c, width)
		if c == root {
			groupLines(out, c, groups, width)
		} else {
			groupLines(out, c, nil, width)
		}
		if c.HasAvailableFlags() {
			flagLines(out, "Flags", c.Flags(), width)
		}
		if c.HasAvailableSubCommands() {
			fmt.Fprintf(out, "\n`%s COMMAND --help` shows the help of a command.\n", c.CommandPath())
		}
		return nil
	})
}

// usageLines prints the form of the command line and the examples.
func usageLines(out io.Writer, c *cobra.Command, width int) {
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(out, "Usage:\n%s\n", hanging("  ", line, width))
	if c.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", c.Example)
	}
}

// flagLines prints flags below a heading.
func flagLines(out io.Writer, title string, set *pflag.FlagSet, width int) {
	fmt.Fprintf(out, "\n%s:\n%s", title, set.FlagUsagesWrapped(width))
}

// groupLines prints the commands beneath c in groups.
func groupLines(out io.Writer, c *cobra.Command, groups []CommandGroup, width int) {
	byName, grouped, pad := map[string]*cobra.Command{}, map[string]bool{}, 0
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() || sub.Name() == "help" {
			byName[sub.Name()] = sub
			pad = max(pad, len(sub.Name()))
		}
	}
	for _, g := range groups {
		for _, name := range g.Commands {
			grouped[name] = true
		}
	}
	rest := CommandGroup{Title: "Commands"}
	if len(groups) > 0 {
		rest.Title = "Other"
	}
	for _, sub := range c.Commands() {
		if byName[sub.Name()] != nil && !grouped[sub.Name()] {
			rest.Commands = append(rest.Commands, sub.Name())
		}
	}
	for _, g := range append(groups[:len(groups):len(groups)], rest) {
		if len(g.Commands) > 0 {
			fmt.Fprintf(out, "\n%s:\n", g.Title)
		}
		for _, name := range g.Commands {
			if sub := byName[name]; sub != nil {
				fmt.Fprintln(out, hanging(fmt.Sprintf("  %-*s  ", pad, name), sub.Short, width))
			}
		}
	}
}

// wrapped breaks the paragraphs of a text anew for a width. Paragraphs with an indented line stay.
func wrapped(text string, width int) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for n, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			paragraphs[n] = hanging("", strings.ReplaceAll(p, "\n", " "), width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// hanging breaks a text into lines of a width. The first line begins with head, and the others are indented as far.
func hanging(head, text string, width int) string {
	indent := strings.Repeat(" ", len(head))
	var b strings.Builder
	b.WriteString(head)
	column := len(head)
	for n, word := range strings.Fields(text) {
		switch size := len([]rune(word)); {
		case n == 0:
			column += size
		case column+1+size > width:
			b.WriteString("\n" + indent)
			column = len(indent) + size
		default:
			b.WriteByte(' ')
			column += 1 + size
		}
		b.WriteString(word)
	}
	return b.String()
}

// Widths of help, in columns: where nothing tells the width, and the least one.
const (
	defaultWidth = 80
	leastWidth   = 40
)

// helpWidth returns the width of help: that of the terminal, or COLUMNS, or 80 columns.
func helpWidth(out io.Writer) int {
	if f := output.FileOf(out); f != nil {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return max(w, leastWidth)
		}
	}
	if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		return max(w, leastWidth)
	}
	return defaultWidth
}
