//go:build linux

package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// byRoot runs a program as root in a directory, with a HOME.
func byRoot(t *testing.T, dir, home, name string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "PATH=" + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// TestRootTrustsNoDirectoryOfAnotherUser runs commands of root on directories that another user of the host controls.
// They refuse them, and create no files there.
func TestRootTrustsNoDirectoryOfAnotherUser(t *testing.T) {
	mine, theirs := reachable(t), reachable(t)
	must(t, os.MkdirAll(filepath.Join(theirs, "of-root", "state"), 0o700))
	must(t, os.Chown(theirs, other, other))
	link, writable := filepath.Join(mine, "link"), filepath.Join(mine, "writable")
	must(t, os.Symlink(theirs, link))
	must(t, os.MkdirAll(filepath.Join(writable, "state"), 0o700))
	must(t, os.Chmod(writable, 0o777))
	before := list(t, theirs)
	for _, dir := range []string{theirs, filepath.Join(theirs, "new"), filepath.Join(theirs, "of-root", "state"), filepath.Join(link, "new"), filepath.Join(writable, "state")} {
		want := fmt.Sprintf("%s belongs to user %d; run `setpriv --reuid %d --regid %d --clear-groups -- ", theirs, other, other, other)
		if strings.HasPrefix(dir, writable) {
			want = "other users may write in the directory " + writable + "; take that right away: `chmod go-w " + writable + "`"
		}
		const away = "nats://127.0.0.1:1"
		for _, args := range [][]string{
			{"up", "--listen", "127.0.0.1:0", "--dir", dir},
			{"agent", "run", "ALPHA", "--network", away, "--root", mine, "--dir", dir},
			{"agent", "run", "ALPHA", "--standby", "--network", away, "--root", mine, "--dir", dir},
			{"coordination", "run", "--network", away, "--dir", dir},
			{"authority", "run", "--network", away, "--dir", dir},
			{"authority", "export", filepath.Join(mine, "out"), "--name", "HUB", "--listen", ":4222", "--dir", dir},
			{"authority", "export", dir, "--name", "HUB", "--listen", ":4222", "--dir", filepath.Join(mine, "authority")},
			{"agent", "ls", "--network", away, "--identity", dir},
		} {
			if args[0] == "agent" && args[1] == "ls" && filepath.Base(dir) == "new" {
				continue // no directory exists there
			}
			out, code := byRoot(t, mine, mine, ferry, args...)
			if code != 64 || !strings.Contains(out, want) {
				t.Errorf("ferry %s ends with %d: %s", strings.Join(args, " "), code, out)
			}
		}
	}
	if after := list(t, theirs); after != before {
		t.Errorf("the directory of the other user had\n%s\nand has\n%s", before, after)
	}
}

// list lists all files of a directory with owner and mode.
func list(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-printf", "%p %u %m\n").Output()
	must(t, err)
	return string(out)
}

// TestRootTakesNoSettingsOfAnotherUser gives root a settings file that another user controls, from HOME,
// XDG_CONFIG_HOME or FERRY_CONFIG. The command refuses it by name.
func TestRootTakesNoSettingsOfAnotherUser(t *testing.T) {
	mine, theirs := reachable(t), reachable(t)
	put := func(dir, name string) string {
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte("agent:\n  run:\n    root: [/]\n"), 0o644))
		return at
	}
	const usual = ".config/ferry/config.yaml"
	own, others, writable := put(mine, "own.yaml"), put(mine, "others.yaml"), put(mine, "writable.yaml")
	home := put(theirs, usual)
	must(t, os.Chown(theirs, other, other))
	must(t, os.Chown(others, other, other))
	must(t, os.Chmod(writable, 0o666))
	for _, c := range []struct{ home, setting, file, foreign string }{
		{theirs, "", home, theirs},
		{mine, "XDG_CONFIG_HOME=" + filepath.Join(theirs, ".config"), home, theirs},
		{mine, "FERRY_CONFIG=" + home, home, theirs},
		{mine, "FERRY_CONFIG=" + others, others, others},
		{mine, "FERRY_CONFIG=" + writable, writable, ""},
		{mine, "FERRY_CONFIG=" + own, "", ""},
	} {
		for _, args := range [][]string{{"config", "show"}, {"agent", "run", "ALPHA", "--network", "nats://127.0.0.1:1", "--dir", filepath.Join(mine, "state")}} {
			args = append([]string{c.setting, ferry}, args...)
			if c.setting == "" {
				args = args[1:]
			}
			out, code := byRoot(t, mine, c.home, "env", args...)
			want := fmt.Sprintf("settings file %s: %s belongs to user %d; run `setpriv --reuid %d", c.file, c.foreign, other, other)
			switch c.file {
			case "":
				if args[2] == "config" && (code != 0 || !strings.Contains(out, own)) {
					t.Errorf("%s ends with %d: %s", strings.Join(args, " "), code, out)
				}
				continue
			case writable:
				want = fmt.Sprintf("settings file %s: other users may write to the file %s; take that right away: `chmod go-w %s`", writable, writable, writable)
			}
			if code != 64 || !strings.Contains(out, want) {
				t.Errorf("%s ends with %d: %s", strings.Join(args, " "), code, out)
			}
		}
	}
}

// TestADirectoryOfAnotherUserInOneOfRoot gives a part of the state directory to another user. It is refused, though the
// directory itself belongs to root.
func TestADirectoryOfAnotherUserInOneOfRoot(t *testing.T) {
	for _, part := range []string{"qm", "coordination", "authority", "identities", "agents"} {
		dir := filepath.Join(reachable(t), "state")
		must(t, os.MkdirAll(filepath.Join(dir, part), 0o700))
		must(t, os.Chown(filepath.Join(dir, part), other, other))
		out, code := byRoot(t, dir, reachable(t), ferry, "up", "--listen", "127.0.0.1:0", "--dir", dir, "--agent", "ALPHA="+reachable(t))
		if want := fmt.Sprintf("%s belongs to user %d; run `", filepath.Join(dir, part), other); code != 64 || !strings.Contains(out, want) {
			t.Errorf("with %s of another user it ends with %d: %s", part, code, out)
		}
	}
}

// TestTheCommandThatRootIsTold runs a command as root with the HOME of another user. The error has the command that
// works as that user, by name or by number, and that command works.
func TestTheCommandThatRootIsTold(t *testing.T) {
	for _, user := range []struct {
		uid  int
		told string
	}{{1, `runuser -u \w+ -- `}, {other, `setpriv --reuid 65002 --regid 65002 --clear-groups -- `}} {
		home := reachable(t)
		must(t, os.WriteFile(filepath.Join(home, "a"), []byte("text"), 0o644))
		must(t, os.Chown(home, user.uid, user.uid))
		out, code := byRoot(t, home, home, ferry, "send", "a", "b c")
		m := regexp.MustCompile("belongs to user \\w+; run `((?:" + user.told + ")\\S+ send a 'b c')`.*, or as root with a HOME that is root's").FindStringSubmatch(out)
		if code != 64 || m == nil {
			t.Errorf("as root it ends with %d: %s", code, out)
			continue
		}
		if out, code := byRoot(t, home, home, "sh", "-c", m[1]); code != 0 {
			t.Errorf("%s ends with %d: %s", m[1], code, out)
		}
		if data, err := os.ReadFile(filepath.Join(home, "b c")); err != nil || string(data) != "text" {
			t.Errorf("%q, %v", data, err)
		}
		if out, code := byRoot(t, home, home, ferry, "up", "--listen", "127.0.0.1:0", "--dir", reachable(t)); code != 64 || !strings.Contains(out, home+" belongs to user ") {
			t.Errorf("a network of root with the identity in a HOME of another user: %d, %s", code, out)
		}
	}
}

// TestTokensThatOthersCanRead takes a token from a file that only its owner can read or reach, from standard input and
// from a pipe. A file that other users can reach and read is refused, for root as for another user, and its token stays
// valid.
func TestTokensThatOthersCanRead(t *testing.T) {
	n := up(t, nil)
	open, closed := reachable(t), reachable(t)
	must(t, os.Chmod(closed, 0o700))
	made := func() string { return strings.TrimSpace(n.Ferry("token", "create", "--user", "bob").OK().Stdout) }
	token, dir := made(), open
	put := func(where string, mode os.FileMode) string {
		t.Helper()
		dir = where
		file := filepath.Join(where, "bob.token")
		must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
		must(t, os.Chmod(file, mode))
		return file
	}
	login := func(uid int, stdin string, args ...string) (string, int) {
		t.Helper()
		home := reachable(t)
		must(t, os.Chown(home, uid, uid))
		c := exec.Command("setpriv", append([]string{"--reuid", fmt.Sprint(uid), "--regid", fmt.Sprint(uid), "--clear-groups", "--"}, args...)...)
		c.Env, c.Dir = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, home
		if stdin != "" {
			f, err := os.Open(stdin)
			must(t, err)
			defer f.Close()
			c.Stdin = f
		}
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	for _, uid := range []int{0, other} {
		for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o444} {
			file := put(open, mode)
			must(t, os.Chown(file, uid, other+1))
			out, code := login(uid, "", ferry, "login", "--join", file)
			if code != 64 || !strings.Contains(out, fmt.Sprintf("the file %s has mode %04o, and no directory on its way is closed to other users", file, mode)) || !strings.Contains(out, "chmod 600") {
				t.Errorf("a token of mode %o as user %d: %d, %s", mode, uid, code, out)
			}
		}
		for source, join := range map[string]func() (string, int){
			"mode 0600": func() (string, int) {
				file := put(open, 0o600)
				must(t, os.Chown(file, uid, uid))
				return login(uid, "", ferry, "login", "--join", file)
			},
			"standard input": func() (string, int) { return login(uid, put(open, 0o644), ferry, "login", "--join", "-") },
			"a pipe": func() (string, int) {
				return login(uid, "", "bash", "-c", `"$0" login --join <(cat "$1")`, ferry, put(open, 0o644))
			},
			"the environment": func() (string, int) {
				return login(uid, "", "sh", "-c", `FERRY_JOIN=$(cat "$1") exec "$0" login`, ferry, put(open, 0o644))
			},
			"a mounted secret": func() (string, int) { // as in a directory of one user
				file := put(closed, 0o444)
				must(t, os.Chown(closed, uid, uid))
				return login(uid, "", ferry, "login", "--join", file)
			},
		} {
			if out, code := join(); code != 0 {
				t.Errorf("a token from %s, in %s, as user %d: %d, %s", source, dir, uid, code, out)
			}
			token = made()
		}
	}
}
