package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// program is a command tree of Ferry's shape.
func program() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "ferry"}
	root.PersistentFlags().String("network", "", "")
	send := &cobra.Command{Use: "send", Run: run}
	send.Flags().String("checksum", "xxh3", "")
	send.Flags().Bool("json", false, "")
	send.Flags().Bool("dry-run", false, "")
	send.Flags().Duration("recovery-timeout", time.Hour, "")
	send.Flags().Int("priority", 0, "")
	Never(send, "dry-run")
	agent := &cobra.Command{Use: "agent"}
	agentRun := &cobra.Command{Use: "run NAME", Run: run}
	agentRun.Flags().StringArray("root", nil, "")
	agentRun.Flags().String("dir", "", "")
	ls := &cobra.Command{Use: "ls", Run: run}
	ls.Flags().Bool("json", false, "")
	up := &cobra.Command{Use: "up", Run: run}
	up.Flags().StringArray("agent", nil, "")
	up.Flags().String("dir", "", "")
	agent.AddCommand(agentRun, ls)
	root.AddCommand(send, agent, up)
	return root
}

func find(t *testing.T, root *cobra.Command, path ...string) *cobra.Command {
	t.Helper()
	cmd, _, err := root.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func flagValue(t *testing.T, cmd *cobra.Command, name string) string {
	t.Helper()
	f := cmd.Flag(name)
	if f == nil {
		t.Fatalf("%s has no flag %s", cmd.Name(), name)
	}
	return f.Value.String()
}

func TestBindPrefersFlagThenEnvironmentThenFileThenDefault(t *testing.T) {
	path := write(t, `
network: nats://file:1
json: true
send:
  checksum: sha256
  priority: 3
agent:
  run:
    root: [/srv/in, /srv/out]
    dir: /var/lib/a
`)
	t.Setenv("FERRY_PRIORITY", "7")
	t.Setenv("FERRY_DIR", "") // empty is not set
	root := program()
	file, err := Load(root, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	send := find(t, root, "send")
	if err := send.ParseFlags([]string{"--checksum", "md5"}); err != nil {
		t.Fatal(err)
	}
	if err := Bind(send, file); err != nil {
		t.Fatal(err)
	}
	run := find(t, root, "agent", "run")
	if err := Bind(run, file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cmd        *cobra.Command
		flag, want string
	}{
		{send, "checksum", "md5"},
		{send, "priority", "7"},
		{send, "network", "nats://file:1"},
		{send, "json", "true"},
		{send, "recovery-timeout", "1h0m0s"},
		{run, "root", "[/srv/in,/srv/out]"},
		{run, "dir", "/var/lib/a"},
	} {
		if got := flagValue(t, c.cmd, c.flag); got != c.want {
			t.Errorf("%s --%s is %q, want %q", c.cmd.Name(), c.flag, got, c.want)
		}
	}
	if !send.Flags().Changed("priority") || send.Flags().Changed("recovery-timeout") {
		t.Error("a filled flag counts as set, a default does not")
	}

	origins := map[string]string{}
	for _, e := range Show(root, file) {
		origins[e.Command+" "+e.Flag] = e.Value + " from " + e.Origin
	}
	for key, want := range map[string]string{
		"send checksum":         "md5 from --checksum",
		"send priority":         "7 from FERRY_PRIORITY",
		"send network":          "nats://file:1 from " + path + ":2",
		"send recovery-timeout": "1h0m0s from default",
		"agent run root":        "[/srv/in,/srv/out] from " + path + ":9",
		"agent ls json":         "true from " + path + ":3",
	} {
		if origins[key] != want {
			t.Errorf("Show has %q for %q, want %q", origins[key], key, want)
		}
	}
	if _, ok := origins["send dry-run"]; ok {
		t.Error("Show lists a flag that is never a setting")
	}
}

func TestNarrowerPlaceWins(t *testing.T) {
	path := write(t, "json: true\nagent:\n  json: false\n  run:\n    dir: /a\ndir: /b\nup:\n  agent: A=/srv\n")
	root := program()
	file, err := Load(root, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{{"agent ls", "json", "false"}, {"send", "json", "true"}, {"agent run", "dir", "/a"}, {"up", "dir", "/b"}, {"up", "agent", "[A=/srv]"}} {
		cmd := find(t, root, strings.Fields(c[0])...)
		if err := Bind(cmd, file); err != nil {
			t.Fatal(err)
		}
		if got := flagValue(t, cmd, c[1]); got != c[2] {
			t.Errorf("%s --%s is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestEarlierFileWins(t *testing.T) {
	one := write(t, "send:\n  checksum: md5\n")
	two := write(t, "send:\n  checksum: sha256\n  priority: 2\n")
	root := program()
	file, err := Load(root, []string{one, filepath.Join(t.TempDir(), "absent.yaml"), two})
	if err != nil {
		t.Fatal(err)
	}
	send := find(t, root, "send")
	if err := Bind(send, file); err != nil {
		t.Fatal(err)
	}
	if got := flagValue(t, send, "checksum") + flagValue(t, send, "priority"); got != "md52" {
		t.Errorf("got %s", got)
	}
}

func TestBindWithoutFile(t *testing.T) {
	t.Setenv("FERRY_NETWORK", "nats://env:1")
	send := find(t, program(), "send")
	if err := Bind(send, nil); err != nil {
		t.Fatal(err)
	}
	if got := flagValue(t, send, "network"); got != "nats://env:1" {
		t.Errorf("network is %q", got)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"misspelt":            {"send:\n  cheksum: md5\n", `:2: unknown setting "cheksum" of send; did you mean "checksum"?`},
		"underscore":          {"recovery_timeout: 1s\n", `:1: unknown setting "recovery_timeout"; did you mean "recovery-timeout"?`},
		"nothing near":        {"\nbeverage: tea\n", `:2: unknown setting "beverage"; "ferry config show" lists them`},
		"misspelt command":    {"sned:\n  checksum: md5\n", `:1: unknown setting "sned"; did you mean "send"?`},
		"never":               {"send:\n  dry-run: true\n", `:2: unknown setting "dry-run" of send`},
		"help":                {"help: true\n", `:1: unknown setting "help"`},
		"flag as command":     {"network:\n  a: b\n", ":1: network is a flag"},
		"command as flag":     {"send: yes\n", ":1: send is a command"},
		"no value":            {"network:\n", ":1: network has no value"},
		"twice":               {"network: a\nnetwork: b\n", ":2: mapping key"},
		"not YAML":            {"network: a: b\n", ":1: "},
		"a list":              {"- network\n", ":1: settings are written as KEY: VALUE"},
		"a word":              {"network\n", ":1: settings are written as KEY: VALUE"},
		"list of lists":       {"root: [[a]]\n", ":1: root takes a word"},
		"anchor":              {"network: &n a\n", ":1: \"&\""},
		"tag":                 {"network: !!str a\n", ":1: \"!\""},
		"merge":               {"<<: {network: a}\n", ":1: \"<\""},
		"second document":     {"network: a\n---\nnetwork: b\n", "a second document"},
		"deep":                {"network: " + strings.Repeat("[", 40) + "\n", ":1: nested deeper than 32"},
		"deep dashes":         {strings.Repeat("- ", 40) + "\n", ":1: nested deeper than 32"},
		"many words":          {strings.Repeat("network: a\n", 7000), "more than 20000 words"},
		"too large":           {strings.Repeat("#", MaxSize+1), "over the limit of 1 MiB"},
		"password":            {"network: nats://me:hunter2@hub:1\n", ":1: network holds a password"},
		"password in a list":  {"root: [a, 'nats://me:hunter2@hub:1']\n", ":1: root holds a password"},
		"password, second of": {"network: nats://a:1,nats://me:hunter2@hub:1\n", ":1: network holds a password"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.text)
			_, err := Load(program(), []string{path})
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want the file and %q", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats the secret: %q", err)
			}
		})
	}
}

func TestLoadAcceptsWhatIsNotASecret(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\nnetwork: a\n", "network: nats://[::1]:4222,nats://me@hub:1\n", "network: http://h:1/a@b\n", "\xef\xbb\xbfnetwork: a\r\n", "\xff\xfen\x00e\x00t\x00w\x00o\x00r\x00k\x00:\x00 \x00a\x00\n\x00", "dir: |\n  /srv\n", `dir: ""` + "\n"} {
		if _, err := Load(program(), []string{write(t, text)}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBindNamesThePlaceOfABadValue(t *testing.T) {
	root := program()
	path := write(t, "send:\n  priority: high\n")
	file, err := Load(root, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	if err := Bind(find(t, root, "send"), file); err == nil || !strings.HasPrefix(err.Error(), path+":2: priority: ") {
		t.Errorf("error %v", err)
	}

	list := write(t, "send:\n  priority: [1, 2]\n")
	if file, err = Load(root, []string{list}); err != nil {
		t.Fatal(err)
	}
	if err := Bind(find(t, root, "send"), file); err == nil || !strings.Contains(err.Error(), "one value, not a list") {
		t.Errorf("error %v", err)
	}

	t.Setenv("FERRY_RECOVERY_TIMEOUT", "soon")
	if err := Bind(find(t, program(), "send"), nil); err == nil || !strings.HasPrefix(err.Error(), "FERRY_RECOVERY_TIMEOUT: recovery-timeout: ") {
		t.Errorf("error %v", err)
	}
}

func TestSecretsAreRefusedWhereverTheyComeFrom(t *testing.T) {
	const url = "nats://me:hunter2@hub:1"
	t.Run("flag", func(t *testing.T) {
		send := find(t, program(), "send")
		if err := send.ParseFlags([]string{"--network", url}); err != nil {
			t.Fatal(err)
		}
		refused(t, Bind(send, nil))
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("FERRY_NETWORK", url)
		root := program()
		refused(t, Bind(find(t, root, "send"), nil))
		for _, e := range Show(root, nil) {
			if strings.Contains(e.Value, "hunter2") {
				t.Errorf("Show repeats the secret: %+v", e)
			}
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "secrets are never settings") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestPaths(t *testing.T) {
	t.Setenv(EnvFile, "")
	got := Paths()
	if len(got) == 0 || got[len(got)-1] != systemFile(runtime.GOOS, os.Getenv) {
		t.Errorf("Paths() = %q", got)
	}
	if dir, err := os.UserConfigDir(); err == nil && !slices.Contains(got, filepath.Join(dir, "ferry", "config.yaml")) {
		t.Errorf("Paths() = %q lacks the user's", got)
	}
	absent := filepath.Join(t.TempDir(), "absent.yaml")
	t.Setenv(EnvFile, absent)
	if got := Paths(); !slices.Equal(got, []string{absent}) {
		t.Errorf("Paths() = %q", got)
	}
	if _, err := Load(program(), Paths()); err == nil {
		t.Error("a settings file asked for by name may not be missing")
	}
}

func TestStateDir(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	abs := t.TempDir()
	for _, c := range []struct {
		goos, home string
		getenv     func(string) string
		want       string
	}{
		{"linux", "/home/me", env(), filepath.FromSlash("/home/me/.local/state/ferry")},
		{"linux", "/home/me", env("XDG_STATE_HOME", abs), filepath.Join(abs, "ferry")},
		{"linux", "/home/me", env("XDG_STATE_HOME", "state"), filepath.FromSlash("/home/me/.local/state/ferry")},
		{"linux", "", env(), ""},
		{"darwin", "/Users/me", env("XDG_STATE_HOME", abs), filepath.FromSlash("/Users/me/Library/Application Support/ferry")},
		{"windows", `C:\Users\me`, env("LocalAppData", abs), filepath.Join(abs, "ferry")},
		{"windows", `C:\Users\me`, env(), ""},
	} {
		got, err := stateDir(c.goos, c.home, c.getenv)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s, home %q: %q, %v; want %q", c.goos, c.home, got, err, c.want)
		}
	}
	if dir, err := StateDir(); err == nil && !filepath.IsAbs(dir) {
		t.Errorf("StateDir() = %q", dir)
	}
	if got := systemFile("windows", env("ProgramData", "P")); got != filepath.Join("P", "ferry", "config.yaml") {
		t.Errorf("windows: %q", got)
	}
}

func TestNearest(t *testing.T) {
	known := map[string]bool{"checksum": true, "chunk-size": true, "lane": true}
	for name, want := range map[string]string{"cheksum": "checksum", "chunk_size": "chunk-size", "CHUNKSIZE": "chunk-size", "lnae": "lane", "x": "", "zzzzzzzz": "", strings.Repeat("lane", 100): ""} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzParse: no file makes the reader panic or hang. Accepted settings belong to flags of the program, and none of them
// is a secret.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"network: nats://hub:4222\n",
		"send:\n  checksum: sha256\n  priority: 3\nagent:\n  run:\n    root: [/a, /b]\n",
		"agent:\n  run:\n    root:\n      - /a\n      - '/b c'\ndir: |\n  /srv\n",
		"network: &a x\ndir: *a\n", "? a\n: b\n", "a: [[[", "- - -", "---\n...\n", "network: \"\\u00e9\"", "\t", "\x00", "network: nats://u:p@h",
	} {
		f.Add([]byte(seed))
	}
	known := keysOf(program())
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := parse("f", data, known)
		if err != nil && found != nil {
			t.Fatal("settings beside an error")
		}
		for where, s := range found {
			if !known.flags[where.command][where.flag] {
				t.Errorf("unknown %v", where)
			}
			for _, v := range s.values {
				if secret(v) {
					t.Errorf("secret in %v", where)
				}
			}
		}
	})
}
