package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Env is the environment variable that stands for a flag.
func Env(flag string) string {
	return "FERRY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Bind gives every flag of cmd that is not on the command line the value that
// the environment or else the files have for it. A flag so filled counts as
// set. Bind belongs in the program's PersistentPreRunE, before required flags
// are looked at.
func Bind(cmd *cobra.Command, file *File) error {
	var first error
	eachFlag(cmd, func(f *pflag.Flag) {
		if err := bind(cmd, file, f); err != nil && first == nil {
			first = err
		}
	})
	return first
}

// Typed reports whether a command's flag was given on the command line, and is not from the
// environment or a file.
func Typed(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed && f.Annotations[annotationOrigin] == nil
}

func bind(cmd *cobra.Command, file *File, f *pflag.Flag) error {
	if f.Changed {
		if secret(f.Value.String()) {
			return secretError("--"+f.Name, "the flag")
		}
		return nil
	}

	s, ok := file.lookup(cmd, f)
	if !ok {
		return nil
	}

	for _, v := range s.values {
		if secret(v) {
			return secretError(s.origin, f.Name)
		}
	}
	if err := set(f, s); err != nil {
		return fmt.Errorf("%s: %s: %w", s.origin, f.Name, err)
	}

	f.Changed = true
	annotate(f, annotationOrigin, s.origin)
	return nil
}

func set(f *pflag.Flag, s setting) error {
	if !s.list {
		return f.Value.Set(s.values[0])
	}
	many, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return fmt.Errorf("takes one value, not a list")
	}
	return many.Replace(s.values)
}

// lookup returns the setting of a flag in the environment, or else that of the narrowest command in the files.
func (file *File) lookup(cmd *cobra.Command, f *pflag.Flag) (setting, bool) {
	if v, ok := os.LookupEnv(Env(f.Name)); ok && v != "" {
		return setting{values: []string{v}, origin: Env(f.Name)}, true
	}
	if file == nil {
		return setting{}, false
	}
	for c := cmd; c != nil; c = c.Parent() {
		if s, ok := file.settings[place{commandPath(c), f.Name}]; ok {
			return s, true
		}
	}
	return setting{}, false
}

// An Effective is one flag of one command, the value that it has, and where
// the value is from.
type Effective struct {
	Command string `json:"command"` // "agent run"; "" for the program itself
	Flag    string `json:"flag"`
	Value   string `json:"value"`
	Origin  string `json:"origin"` // --FLAG, FERRY_FLAG, FILE:LINE or default
}

// Show lists the effective settings of a program, command by command, from flags of the command line, the environment
// and the files.
func Show(root *cobra.Command, file *File) []Effective {
	var all []Effective
	if root.Hidden || root.Name() == "help" || root.Name() == "completion" {
		return nil
	}
	if root.Runnable() {
		eachFlag(root, func(f *pflag.Flag) { all = append(all, show(root, file, f)) })
	}
	for _, sub := range root.Commands() {
		all = append(all, Show(sub, file)...)
	}
	return all
}

func show(cmd *cobra.Command, file *File, f *pflag.Flag) Effective {
	e := Effective{commandPath(cmd), f.Name, f.DefValue, "default"}
	if f.Changed {
		e.Value, e.Origin = f.Value.String(), "--"+f.Name
		if from := f.Annotations[annotationOrigin]; from != nil {
			e.Origin = from[0]
		}
	} else if s, ok := file.lookup(cmd, f); ok {
		e.Value, e.Origin = strings.Join(s.values, ","), s.origin
		if s.list {
			e.Value = "[" + e.Value + "]"
		}
	}

	if secret(e.Value) {
		e.Value = "(refused: it holds a password)"
	}
	return e
}
