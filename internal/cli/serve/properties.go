package serve

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/cli/session"
	"ferry/internal/content/textfile"
	mftconfig "ferry/internal/mft/config"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// takeProperties sets flags without a value, from the command line, the environment or a settings file, to those of an
// agent.properties of MQ MFT. It returns the name of the agent.
func (f *agentFlags) takeProperties(cmd *cobra.Command, name string, args []string) ([]string, error) {
	if len(args) > 1 {
		return nil, transfer.Errorf(transfer.KindUsage, "--properties is for one agent, and %d are named", len(args))
	}
	log, err := f.log.Logger(cmd)
	if err != nil {
		return nil, err
	}
	files := mftconfig.Files{Properties: name, Sandboxes: filepath.Join(filepath.Dir(name), "UserSandboxes.xml")}
	if files.Data, err = session.ReadInput(cmd, "properties", name, textfile.Room(mftconfig.MaxProperties)); err != nil {
		return nil, err
	}
	if _, err := os.Stat(files.Sandboxes); name != "-" && !errors.Is(err, fs.ErrNotExist) {
		if files.XML, err = session.ReadInput(cmd, "sandboxes", files.Sandboxes, mftxml.MaxDocument); err != nil {
			return nil, err
		}
	}
	a, notes, err := mftconfig.ReadAgent(files)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "%s: %w", name, err)
	}

	var why []string
	for _, n := range notes {
		if n.Outcome == mftconfig.Missed {
			why = append(why, n.What+": "+n.Text)
			log.Warn("a property is not taken", "file", n.File, "line", n.Line, "property", n.What, "reason", n.Text)
		}
	}
	if a == nil {
		return nil, transfer.Errorf(transfer.KindUsage, "%s is no agent's here: %s", name, strings.Join(why, "; "))
	}
	if len(args) == 1 && !strings.EqualFold(args[0], string(a.Name)) {
		return nil, transfer.Errorf(transfer.KindUsage, "%s is of the agent %s, and not of %s", name, a.Name, args[0])
	}
	for _, s := range a.Settings {
		if err := fillFlag(cmd.Flags().Lookup(s.Flag), s.Values); err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "%s: --%s: %w", name, s.Flag, err)
		}
	}
	if a.Sandbox != nil && f.sandbox.file == "" {
		f.sandbox.rules, err = policy.Parse(a.Sandbox)
	}
	return []string{string(a.Name)}, err
}

// fillFlag sets a flag that has no value.
func fillFlag(f *pflag.Flag, values []string) error {
	if f.Changed {
		return nil
	}
	f.Changed = true
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	return f.Value.Set(values[0])
}
