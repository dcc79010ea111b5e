package usage

import (
	"ferry/internal/cli/output"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// A Group is a heading of a command's help with the flags beneath it.
type Group struct {
	Title string
	Flags []string
}

// Groups shows a command's flags under headings. Flags that no group names come last.
func Groups(c *cobra.Command, groups []Group) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		out, width := c.OutOrStderr(), helpWidth(c)
		fmt.Fprintf(out, "Usage:\n  %s\n", c.UseLine())
		if c.HasExample() {
			fmt.Fprintf(out, "\nExamples:\n%s\n", c.Example)
		}
		shown := map[string]bool{}
		for _, g := range groups {
			set := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
			set.SortFlags = false
			for _, name := range g.Flags {
				set.AddFlag(c.Flags().Lookup(name))
				shown[name] = true
			}
			fmt.Fprintf(out, "\n%s:\n%s", g.Title, set.FlagUsagesWrapped(width))
		}
		rest := pflag.NewFlagSet("others", pflag.ContinueOnError)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !shown[f.Name] {
				rest.AddFlag(f)
			}
		})
		fmt.Fprintf(out, "\nOthers:\n%s", rest.FlagUsagesWrapped(width))
		return nil
	})
}

// helpWidth returns the width of help: that of the terminal, or 100 columns.
func helpWidth(c *cobra.Command) int {
	if f := output.FileOf(c.OutOrStdout()); f != nil {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 {
			return min(w, 120)
		}
	}
	return 100
}
