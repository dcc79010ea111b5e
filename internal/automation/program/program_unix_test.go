//go:build unix

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dirOf is a directory with programs, each a shell script.
func dirOf(t *testing.T, scripts map[string]string) *Dir {
	t.Helper()
	path := filepath.Join(t.TempDir(), "programs")
	must(t, os.Mkdir(path, 0o755))
	for name, text := range scripts {
		file := filepath.Join(path, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.Chmod(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		must(t, os.Chmod(file, 0o755))
	}
	d, err := Open(path)
	must(t, err)
	return d
}

// try runs a program; a host that has the script open for writing elsewhere is asked again.
func (d *Dir) try(t *testing.T, ctx context.Context, c Call) (Result, error) {
	t.Helper()
	for {
		res, err := d.Run(ctx, c)
		if !errors.Is(err, syscall.ETXTBSY) {
			return res, err
		}
		runtime.Gosched()
	}
}

func TestWhatAProgramIsGiven(t *testing.T) {
	t.Setenv("A_SECRET", "s3cret")
	t.Setenv("LANG", "C")
	open, err := os.Open(os.DevNull)
	must(t, err)
	defer open.Close()
	inherited, err := syscall.Dup(int(open.Fd())) // as if the parent of the agent had left it open
	must(t, err)
	defer syscall.Close(inherited)
	d := dirOf(t, map[string]string{
		"args":    `for a; do printf '[%s]' "$a"; done`,
		"sub/env": `env; cat; pwd; for fd in /proc/$$/fd/*; do readlink $fd; done`,
		"both":    `echo out; echo err >&2; exit 7`,
	})
	args := []string{"a b", "$HOME", "`id`", "*", "x\ny", "", "'\"", "-rf", "a;b|c>d"}
	res, err := d.try(t, t.Context(), Call{Name: "args", Args: args})
	must(t, err)
	if want := "[" + strings.Join(args, "][") + "]"; res.Output != want || res.Code != 0 || res.Cut != 0 {
		t.Errorf("the arguments came as %+v, want %q", res, want)
	}
	res, err = d.try(t, t.Context(), Call{Name: "sub/env", Env: []string{"FERRY_JOB=nightly"}})
	must(t, err)
	for _, want := range []string{"FERRY_JOB=nightly\n", "LANG=C\n", d.Path() + "\n"} {
		if !strings.Contains(res.Output, want) {
			t.Errorf("the program was not given %q: %q", want, res.Output)
		}
	}
	if strings.Contains(res.Output, "A_SECRET") {
		t.Errorf("the program was given the agent's environment: %q", res.Output)
	}
	if runtime.GOOS == "linux" { // its input, the pipe twice, and the script that the shell reads
		_, fds, _ := strings.Cut(res.Output, "\n"+d.Path()+"\n")
		if n := strings.Count(fds, "\n"); n != 4 || strings.Count(fds, "pipe:") != 2 {
			t.Errorf("the program has these open: %q", fds)
		}
	}
	res, err = d.try(t, t.Context(), Call{Name: "both"})
	must(t, err)
	if res.Code != 7 || res.Output != "out\nerr\n" {
		t.Errorf("the result of the program is %+v", res)
	}
}

func TestOnlyProgramsOfTheDirectory(t *testing.T) {
	d := dirOf(t, map[string]string{"good": "exit 0", "lax": "exit 0", "sub/good": "exit 0", "laxdir/x": "exit 0", "data": "exit 0"})
	outside := filepath.Join(filepath.Dir(d.Path()), "outside")
	must(t, os.WriteFile(outside, []byte("#!/bin/sh\ntouch "+outside+".ran\n"), 0o755))
	must(t, os.Chmod(filepath.Join(d.Path(), "lax"), 0o757))
	must(t, os.Chmod(filepath.Join(d.Path(), "laxdir"), 0o777))
	must(t, os.Chmod(filepath.Join(d.Path(), "data"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(d.Path(), "link")))
	must(t, os.Symlink(filepath.Dir(d.Path()), filepath.Join(d.Path(), "up")))
	must(t, os.Symlink("good", filepath.Join(d.Path(), "alias")))
	for _, name := range []string{"good", "sub/good", "alias"} {
		if _, err := d.try(t, t.Context(), Call{Name: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, why := range map[string]string{
		"../outside": "leads out", outside: "no file in one", "sub/../../outside": "leads out", "": "leads out", ".": "no file",
		"link": "a link out", "up/outside": "a link out", "sub": "no file", "none": "no such file",
		"lax": "can be written by others", "laxdir/x": "can be written by others", "data": "permission denied",
	} {
		_, err := d.try(t, t.Context(), Call{Name: name})
		if transfer.KindOf(err) != transfer.KindProgram || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", name, err, why)
		}
	}
	if _, err := os.Stat(outside + ".ran"); err == nil {
		t.Error("a program outside the directory was run")
	}
	must(t, os.Chmod(d.Path(), 0o777))
	if _, err := Open(d.Path()); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a directory that others can write to: %v", err)
	}
	for _, path := range []string{outside, outside + ".none"} {
		if _, err := Open(path); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s as directory: %v", path, err)
		}
	}
}

// A program that its user may not execute is found, and its mode is told.
func TestExecutable(t *testing.T) {
	d := dirOf(t, map[string]string{"yes.sh": "", "no.sh": ""})
	file := filepath.Join(d.Path(), "no.sh")
	must(t, os.Chmod(file, 0o644))
	must(t, d.Executable("yes.sh"))
	err := d.Executable("no.sh")
	if transfer.KindOf(err) != transfer.KindProgram || !strings.Contains(err.Error(), "it is not executable") || transfer.AsError(err).Hint != "`chmod 755 "+file+"`" {
		t.Errorf("a program without x: %v", err)
	}
	if err := d.Executable("none.sh"); transfer.KindOf(err) != transfer.KindProgram {
		t.Errorf("a program that is missing: %v", err)
	}
}

// Several directories are searched in turn, and an absolute name is one of a file in any of them.
func TestSeveralDirectories(t *testing.T) {
	first, second := dirOf(t, map[string]string{"both": "echo first", "one": "pwd"}), dirOf(t, map[string]string{"both": "echo second", "other": "pwd"})
	d, err := Open(first.Path() + string(filepath.ListSeparator) + second.Path())
	must(t, err)
	for name, want := range map[string]string{"both": "first", "one": first.Path(), "other": second.Path(), second.Path() + "/both": "second", second.Path() + "/other": second.Path()} {
		if res, err := d.try(t, t.Context(), Call{Name: name}); err != nil || res.Output != want+"\n" {
			t.Errorf("%s: %+v, %v, not %s", name, res, err, want)
		}
	}
	for _, name := range []string{"/bin/sh", second.Path(), second.Path() + "/none", second.Path() + "/../programs/../../x", "none"} {
		if _, err := d.try(t, t.Context(), Call{Name: name}); transfer.KindOf(err) != transfer.KindProgram {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Chdir(second.Path()) // an empty name would be the working directory
	for name, rest := range map[string]string{"a directory that does not exist": "/none", "an empty name": ""} {
		if _, err := Open(first.Path() + string(filepath.ListSeparator) + rest); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	d := dirOf(t, map[string]string{
		"flood": `head -c 5000000 /dev/zero | tr '\0' x; echo; echo the end`,
		"bytes": `printf 'a\377b'`,
		"split": `printf '\303\251%.0s' $(seq 1 3000); printf x`,
	})
	res, err := d.try(t, t.Context(), Call{Name: "flood"})
	must(t, err)
	if len(res.Output) != transfer.MaxOutput || res.Cut != 5_000_009-transfer.MaxOutput || !strings.HasSuffix(res.Output, "x\nthe end\n") {
		t.Errorf("%d bytes are kept, %d were cut: …%q", len(res.Output), res.Cut, res.Output[max(0, len(res.Output)-20):])
	}
	res, err = d.try(t, t.Context(), Call{Name: "bytes"})
	if must(t, err); res.Output != "a\uFFFDb" {
		t.Errorf("bytes that are no text became %q", res.Output)
	}
	res, err = d.try(t, t.Context(), Call{Name: "split"})
	if must(t, err); strings.Contains(res.Output, "\uFFFD") || int64(len(res.Output))+res.Cut != 6001 {
		t.Errorf("the end begins within a character: %q", res.Output[:8])
	}
}

// The processes that a program has started are killed with it when its time is over. None of them is left as a zombie.
// Processes that it leaves when it ends by itself keep no caller waiting.
func TestEnds(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	must(t, syscall.Mkfifo(pids, 0o600))
	d := dirOf(t, map[string]string{
		"hang":  "sleep 1000 & echo $$ $! >" + pids + "; wait",
		"leave": "sleep 1000 & echo $!",
		"die":   "kill -9 $$",
	})
	late := errors.New("late")
	ctx, end := context.WithCancelCause(t.Context())
	read := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(pids)
		read <- string(b)
		end(late)
	}()
	res, err := d.try(t, ctx, Call{Name: "hang"})
	if !errors.Is(err, late) || res.Code != -1 {
		t.Errorf("a program that was killed: %+v, %v", res, err)
	}
	var parent, child int
	if _, err := fmt.Sscan(<-read, &parent, &child); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(parent, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program is still there: %v", err)
	}
	for alive(child) {
		runtime.Gosched()
	}

	res, err = d.try(t, t.Context(), Call{Name: "leave"})
	must(t, err)
	left, err := strconv.Atoi(strings.TrimSpace(res.Output))
	if must(t, err); res.Code != 0 || !alive(left) {
		t.Errorf("a program that leaves another one: %+v", res)
	}
	must(t, syscall.Kill(left, syscall.SIGKILL))

	res, err = d.try(t, t.Context(), Call{Name: "die"})
	if transfer.KindOf(err) != transfer.KindProgram || !strings.Contains(err.Error(), "signal: killed") || res.Code != -1 {
		t.Errorf("a program that a signal ended: %+v, %v", res, err)
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
