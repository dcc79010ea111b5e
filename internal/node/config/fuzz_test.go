package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// FuzzEnvironment: a flag takes any value of the environment, or the error names the variable and no secret.
func FuzzEnvironment(f *testing.F) {
	for _, s := range []string{"", "1", "true", "90s", "-1", "nats://u:p@h", "a,b", "\xff", "1h2m", "9999999999999999999", "/a\n/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ContainsRune(value, 0) {
			return // an environment cannot hold it
		}
		root := program()
		for _, path := range [][]string{{"send"}, {"agent", "run"}, {"up"}} {
			cmd := find(t, root, path...)
			cmd.Flags().VisitAll(func(flag *pflag.Flag) { t.Setenv(Env(flag.Name), value) })
			err := Bind(cmd, nil)
			if err != nil && (!strings.Contains(err.Error(), "FERRY_") || secret(value) && strings.Contains(err.Error(), value)) {
				t.Fatalf("%v", err)
			}
		}
	})
}
