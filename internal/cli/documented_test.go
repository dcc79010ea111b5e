package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// eachCommand calls fn for every command that is not hidden.
func eachCommand(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			eachCommand(sub, fn)
		}
	}
}

// The flags in --help are those of docs/configure.md and of the manual pages, with none missing and none more.
func TestEveryFlagIsDocumented(t *testing.T) {
	text := ""
	for _, name := range []string{"configure.md", "text-and-records.md"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`[^`]*`").FindAllString(text, -1) {
		for _, f := range regexp.MustCompile(`--[a-z][a-z0-9-]+`).FindAllString(m, -1) {
			documented[f] = true
		}
	}
	pages := t.TempDir()
	root := newRoot()
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1"}, pages); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"--help": true, "--version": true}
	eachCommand(root, func(c *cobra.Command) {
		if strings.HasPrefix(c.CommandPath(), "ferry completion") {
			return // cobra's own
		}
		page, err := os.ReadFile(filepath.Join(pages, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		man, help := strings.ReplaceAll(string(page), `\-`, "-"), c.UsageString()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flag := "--" + f.Name
			known[flag] = true
			if f.Name == "help" || f.Name == "version" {
				return
			}
			if !documented[flag] {
				t.Errorf("%s %s is not in docs/configure.md", c.CommandPath(), flag)
			}
			if !strings.Contains(help, flag) {
				t.Errorf("%s --help does not list %s", c.CommandPath(), flag)
			}
			if !strings.Contains(man, flag) {
				t.Errorf("the manual page of %s does not have %s", c.CommandPath(), flag)
			}
		})
	})
	for flag := range documented {
		if !known[flag] {
			t.Errorf("docs/configure.md speaks of %s, and no command has it", flag)
		}
	}
}
