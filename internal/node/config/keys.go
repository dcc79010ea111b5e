package config

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/sys/spelling"
)

const (
	annotationNever  = "ferry_config_never"
	annotationOrigin = "ferry_config_origin"
)

// Never says that flags of cmd can be given on the command line only. Without
// being named, this holds for help and version.
func Never(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			f = cmd.PersistentFlags().Lookup(name)
		}
		if f == nil {
			panic("config: " + cmd.Name() + " has no flag " + name)
		}
		annotate(f, annotationNever, "true")
	}
}

func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = []string{value}
}

// settable says whether a flag may come from a file or the environment.
func settable(f *pflag.Flag) bool {
	return f.Name != "help" && f.Name != "version" && f.Annotations[annotationNever] == nil
}

// eachFlag visits the settable flags of one command, inherited ones too.
func eachFlag(cmd *cobra.Command, visit func(*pflag.Flag)) {
	seen := map[string]bool{}
	once := func(f *pflag.Flag) {
		if settable(f) && !seen[f.Name] {
			seen[f.Name] = true
			visit(f)
		}
	}
	cmd.LocalFlags().VisitAll(once)
	cmd.InheritedFlags().VisitAll(once)
}

// commandPath is the name of a command without the program's: "agent run", and
// "" for the program itself.
func commandPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// keys are the names that a settings file may use.
type keys struct {
	flags    map[string]map[string]bool // command path, flag of it or of a command under it
	commands map[string]map[string]bool // command path, name of a command right under it
}

func keysOf(root *cobra.Command) keys {
	k := keys{map[string]map[string]bool{}, map[string]map[string]bool{}}
	k.add(root)
	return k
}

func (k keys) add(cmd *cobra.Command) map[string]bool {
	path := commandPath(cmd)
	flags, commands := map[string]bool{}, map[string]bool{}
	eachFlag(cmd, func(f *pflag.Flag) { flags[f.Name] = true })
	for _, sub := range cmd.Commands() {
		commands[sub.Name()] = true
		for name := range k.add(sub) {
			flags[name] = true
		}
	}
	k.flags[path], k.commands[path] = flags, commands
	return flags
}

// nearest is the known name that is most like a misspelt one, "" where none is
// near.
func nearest(name string, known ...map[string]bool) string {
	var names []string
	for _, set := range known {
		for n := range set {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if near := spelling.Nearest(name, 1, names); len(near) > 0 {
		return near[0]
	}
	return ""
}
