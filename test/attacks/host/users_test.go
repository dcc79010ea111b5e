//go:build linux

package host_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// other is a user of the host without any rights in Ferry.
const other = 65_002

// as runs a program as a given user.
func as(uid uint32, env []string, name string, args ...string) (string, int) {
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	c.Env, c.Dir = env, "/"
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		return err.Error(), -1
	}
	return string(out), c.ProcessState.ExitCode()
}

// up starts a network with two agents, coordination and a user of its own. All places of secrets have one.
func up(t *testing.T, flags map[string][]string) *network.Network {
	t.Helper()
	n := network.Up(t, network.Setup{Ferry: ferry, Dir: reachable(t), Agents: []string{"ALPHA", "BETA"}, Direct: "tls", Flags: flags})
	n.Files("ALPHA", "in", 1, 20, 10_000)
	return n
}

// reachable returns a directory that every user can enter. Files in it need protection of their own.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ferry-attacked-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// TestAnotherUserOfTheHost runs commands as another user of the host. This user can read no file of Ferry, and has no
// rights in the network.
func TestAnotherUserOfTheHost(t *testing.T) {
	n := up(t, nil)
	n.Send("-r", "ALPHA:in", "BETA:out/").Ends("successful", 0)
	home := reachable(t)
	must(t, os.Chown(home, other, other))
	env := []string{"HOME=" + home, "FERRY_NETWORK=" + n.URL(), "PATH=" + os.Getenv("PATH")}
	for _, args := range [][]string{{"agent", "ls"}, {"send", "ALPHA:in/0", "BETA:x"}, {"transfer", "ls"}, {"audit", "ls"}, {"identity", "ls"},
		{"policy", "show"}, {"token", "create", "--user", "eve"}, {"agent", "run", "GAMMA", "--dir", home + "/g", "--root", home},
		{"coordination", "run", "--dir", home + "/c"}} {
		if out, code := as(other, env, ferry, args...); code != 53 {
			t.Errorf("ferry %s ends with %d: %s", strings.Join(args, " "), code, out)
		}
	}
	for _, who := range []string{network.QM, "ALPHA", "BETA"} {
		filepath.WalkDir(n.State(who), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if _, code := as(other, env, "cat", path); code == 0 && !harmless(d.Name()) {
					t.Errorf("another user reads %s", path)
				}
			}
			return nil
		})
		for _, file := range []string{"environ", "mem", "maps"} {
			if _, code := as(other, env, "head", "-c1", fmt.Sprintf("/proc/%d/%s", n.Pid(who), file)); code == 0 {
				t.Errorf("another user reads %s of %s", file, who)
			}
		}
		if _, code := as(other, env, "kill", fmt.Sprint(n.Pid(who))); code == 0 {
			t.Errorf("another user ends %s", who)
		}
	}
	n.Send("-r", "ALPHA:in", "BETA:again/").Ends("successful", 0)
}

// harmless reports whether a file of that name has no content.
func harmless(name string) bool { return name == "lock" || name == "LOCK" }

// A secret is a text that may appear only in its own file.
type secret struct{ name, text string }

var nkeySeed = regexp.MustCompile(`S[OAUX][A-Z2-7]{56}`)

// secrets returns the secrets of a network: private keys, seeds, tokens and signers in its state.
func secrets(t *testing.T, dirs ...string) (all []secret) {
	t.Helper()
	for _, dir := range dirs {
		must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if i := bytes.Index(data, []byte("PRIVATE KEY-----\n")); i >= 0 {
				line, _, _ := bytes.Cut(data[i+len("PRIVATE KEY-----\n"):], []byte("\n"))
				all = append(all, secret{path, string(line)})
			}
			if s := nkeySeed.Find(data); s != nil {
				all = append(all, secret{path, string(s)})
			}
			var k struct{ Signer string }
			if json.Unmarshal(data, &k) == nil && k.Signer != "" {
				// PRIVATE+KEY+NAME+HASH+SECRET (golang.org/x/mod/sumdb/note). The secret is in Base64, and may have a plus, too.
				parts := strings.SplitN(k.Signer, "+", 5)
				all = append(all, secret{path, parts[len(parts)-1]})
			}
			return nil
		}))
	}
	for _, s := range all {
		if len(s.text) < 20 {
			t.Fatalf("the secret in %s is read as %q, which is too short for one", s.name, s.text)
		}
	}
	if len(all) < 8 {
		t.Fatalf("only %d secrets were found: %v", len(all), all)
	}
	return all
}

// TestSecretsStayWhereTheyAre looks for secrets in arguments, logs, outputs of commands, files that other users may
// read, and core dumps. There must be none.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	n := up(t, nil)
	token := strings.TrimSpace(n.Ferry("token", "create", "--user", "bob").OK().Stdout)
	all := append(secrets(t, n.State(network.QM), n.State("ALPHA"), n.State("BETA"), filepath.Dir(filepath.Dir(n.State("ALPHA")))+"/home"),
		secret{"the token of bob", strings.Split(token, ":")[4]})

	var said bytes.Buffer
	args := map[string]bool{}
	done := make(chan struct{})
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		for {
			select {
			case <-done:
				return
			default:
				for _, a := range commandLines() {
					args[a] = true
				}
			}
		}
	}()
	file := filepath.Join(t.TempDir(), "bob.token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	for _, c := range [][]string{{"login", "--join", file}, {"identity", "ls"}, {"identity", "ls", "--json"}, {"identity", "show", "--json"}, {"token", "ls", "--json"},
		{"policy", "show", "--json"}, {"agent", "show", "ALPHA", "--json"}, {"audit", "ls", "--json"}, {"config", "show"}, {"transfer", "ls", "--json"},
		{"identity", "renew"}, {"agent", "ping", "ALPHA"}, {"audit", "verify", "--json"}, {"login", "--join", token}} {
		r := n.Ferry(c...)
		said.WriteString(r.Stdout + r.Stderr)
	}
	n.Send("-r", "ALPHA:in", "BETA:out/").Ends("successful", 0)
	close(done)
	<-watch
	for a := range args {
		if strings.HasSuffix(a, "login --join "+token) {
			continue // it is refused for it
		}
		said.WriteString(a + "\n")
	}
	for _, who := range []string{network.QM, "ALPHA", "BETA"} {
		said.WriteString(n.Wrote(who))
	}
	for _, s := range all {
		if strings.Contains(said.String(), s.text) {
			at := strings.Index(said.String(), s.text)
			t.Errorf("the secret in %s is in arguments, logs or output, behind %q", s.name, said.String()[max(0, at-200):at])
		}
	}
	noCore(t, n)
}

// commandLines returns the arguments of all processes.
func commandLines() (all []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && len(data) > 0 {
			all = append(all, strings.TrimRight(strings.ReplaceAll(string(data), "\x00", " "), " "))
		}
	}
	return all
}

// noCore kills an agent as a defect would, where core dumps are permitted, and looks for a core dump.
func noCore(t *testing.T, n *network.Network) {
	t.Helper()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", n.Pid("BETA")))
	must(t, err)
	line := slices.IndexFunc(strings.Split(string(limits), "\n"), func(l string) bool {
		return strings.HasPrefix(l, "Max core file size") && strings.Fields(l)[4] == "1"
	})
	if line < 0 {
		t.Errorf("cores are allowed:\n%s", limits)
	}
	n.Signal("BETA", syscall.SIGABRT)
	n.Gone("BETA")
	for _, dir := range []string{".", "/", n.State("BETA")} {
		found, _ := filepath.Glob(filepath.Join(dir, "core*"))
		for _, f := range found {
			if st, err := os.Stat(f); err == nil && time.Since(st.ModTime()) < time.Minute && st.Mode().IsRegular() {
				t.Errorf("there is a core: %s", f)
			}
		}
	}
}
