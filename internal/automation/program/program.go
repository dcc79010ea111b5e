// Package program runs programs of a few directories. A program is a file beneath one of them. Only the agent's user and
// root can write to it and to every directory on the way to it. Links are followed, and a file outside the directory is
// not run.
//
// A program is given:
//
//   - its arguments, each as it stands: there is no shell and no variable, and a line end
//     is a character like others
//   - of the agent's environment PATH, HOME, LANG, LC_ALL, TZ, TMPDIR and the variables that
//     the system itself needs (see inherited), and those that the caller adds; nothing else
//   - its directory of programs as its working directory, and a standard input that has the caller's bytes or is at
//     its end
//   - one pipe as standard output and standard error, with the end of the output kept; no
//     other file of the agent's is open in it. A caller that wants an answer gets the standard output apart
//   - a process group of its own, which is killed when its time is over or the caller's
//     context ends. Processes that it leaves behind when it ends by itself continue
//     without a pipe.
//
// On Linux a program ends with the agent; elsewhere a program that an agent has left by a crash continues.
package program

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// inherited are the variables that a program has of the agent's.
var inherited = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "COMSPEC", "PATHEXT"}

// pipeGrace is the wait for the output of processes that a program has left running.
const pipeGrace = 2 * time.Second

// A Dir is the directories of programs.
type Dir struct {
	real []string // links resolved
}

// Open opens a list of directories with the system's separator. Each must exist, and others cannot write to it. Errors
// are of KindUsage.
func Open(list string) (*Dir, error) {
	d := &Dir{}
	for _, path := range filepath.SplitList(list) {
		real, err := open(path)
		if err != nil {
			return nil, err
		}
		d.real = append(d.real, real)
	}
	return d, nil
}

// open returns a directory with its links resolved.
func open(path string) (string, error) {
	bad := func(err error) (string, error) {
		return "", transfer.Errorf(transfer.KindUsage, "the directory of programs %s cannot be used: %w", path, err)
	}
	if path == "" { // it would be the working directory
		return bad(errors.New("the list of directories has an empty name"))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return bad(err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return bad(err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return bad(err)
	case !info.IsDir():
		return bad(errors.New("it is no directory"))
	}
	if err := checkWritable(info); err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "the directory of programs %s %w", path, err).WithHint(writableHint)
	}
	return real, nil
}

const writableHint = "make it belong to the agent's user or root, and `chmod go-w` it: whoever can write it could have the agent run anything"

// Path is the first directory, links resolved.
func (d *Dir) Path() string { return d.real[0] }

// Find returns the file of a program. Errors are of KindProgram.
func (d *Dir) Find(name string) (string, error) {
	file, _, err := d.find(name)
	return file, err
}

// Executable returns an error for a program that this user may not execute. It names the file: it is for the operator of
// the agent.
func (d *Dir) Executable(name string) error {
	file, err := d.Find(name)
	if err != nil || mayExecute(file) {
		return err
	}
	return d.bad(name, errors.New("it is not executable")).WithHint("`chmod 755 " + file + "`")
}

// find returns the file of a program and its directory. A relative name is looked for in each directory in turn; an
// absolute one lies in one of them.
func (d *Dir) find(name string) (file, dir string, err error) {
	path := filepath.FromSlash(name)
	absolute := filepath.IsAbs(path)
	if !absolute && !filepath.IsLocal(path) {
		return "", "", d.bad(name, errors.New("its name leads out of the agent's directories of programs"))
	}
	for _, dir = range d.real {
		at := path
		if !absolute {
			at = filepath.Join(dir, path)
		}
		if file, err = filepath.EvalSymlinks(at); err != nil {
			continue
		}
		if rel, outside := filepath.Rel(dir, file); outside == nil && filepath.IsLocal(rel) {
			return file, dir, d.guarded(name, dir, rel)
		}
		if !absolute {
			return "", "", d.bad(name, errors.New("it is a link out of the agent's directory of programs"))
		}
	}
	if absolute { // callers need not know which files there are elsewhere
		return "", "", d.bad(name, errors.New("it is no file in one of the agent's directories of programs")).WithHint("the agent's --programs names them")
	}
	return "", "", d.bad(name, withoutPath(err)).WithHint("name it as it is in the agent's directory of programs")
}

// guarded refuses a program that others can write to, or that is no file. rel is its path in a directory.
func (d *Dir) guarded(name, dir, rel string) error {
	at := dir
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return d.bad(name, withoutPath(err))
		}
		if err := checkWritable(info); err != nil {
			return transfer.Errorf(transfer.KindProgram, "the program %s cannot be run: %s %w", name, at, err).WithHint(writableHint)
		}
		if at == filepath.Join(dir, rel) && !info.Mode().IsRegular() {
			return d.bad(name, errors.New("it is no file"))
		}
	}
	return nil
}

func (d *Dir) bad(name string, err error) *transfer.Error {
	return transfer.Errorf(transfer.KindProgram, "the program %.100s cannot be run: %w", name, err)
}

// withoutPath returns an error without the path that it names, because callers need not know the directory.
func withoutPath(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// A Call is one run of a program.
type Call struct {
	Name string
	Args []string
	Env  []string // NAME=VALUE, beside the inherited ones

	Input  []byte // its standard input
	Answer int    // most bytes of an answer on its standard output; 0: that is output like others
}

// A Result is the result of a run.
type Result struct {
	Code   int    // exit code; -1: it did not end by itself
	Output string // the end of its output, in UTF-8
	Cut    int64  // bytes that came before that

	Answer []byte // its standard output, if the call wants an answer
	Over   bool   // that was longer than the call allows; the rest was refused
}

// Run runs a program and waits for it. Where ctx ends before the program, Run kills the program with its group; the
// error is then the cause of ctx. Other errors say that it was not started, or was ended by a signal. They are of
// KindProgram, or of a kind that waits where the host is short of something.
func (d *Dir) Run(ctx context.Context, c Call) (Result, error) {
	file, dir, err := d.find(c.Name)
	if err != nil {
		return Result{Code: -1}, err
	}
	if err := refuseScript(file, c.Args); err != nil {
		return Result{Code: -1}, err
	}

	out := &tail{}
	cmd := exec.CommandContext(ctx, file, c.Args...)
	cmd.Dir, cmd.Env = dir, environment(c.Env)
	cmd.Stdout, cmd.Stderr = out, out
	said := &answer{most: c.Answer}
	if c.Answer > 0 {
		cmd.Stdout = said
	}
	if len(c.Input) > 0 {
		cmd.Stdin = bytes.NewReader(c.Input)
	}
	cmd.WaitDelay = pipeGrace
	setProcessGroup(cmd)
	err = run(cmd)
	res := Result{Code: -1}
	res.Output, res.Cut = out.text()
	res.Answer, res.Over = said.kept, said.over
	if s := cmd.ProcessState; s != nil {
		res.Code = s.ExitCode()
	}
	var exited *exec.ExitError
	switch {
	case errors.Is(err, errTooLong): // the program ended by itself
		return res, nil
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // something that it has left has the pipe
		return res, nil
	case ctx.Err() != nil:
		res.Code = -1
		return res, context.Cause(ctx)
	case errors.As(err, &exited) && exited.Exited():
		return res, nil
	case errors.As(err, &exited):
		return res, transfer.Errorf(transfer.KindProgram, "the program %s was ended by a signal: %s", c.Name, exited)
	case transfer.KindOf(err).Waits():
		return res, err
	}
	return res, d.bad(c.Name, withoutPath(err)).WithHint("check that it is executable, and that the interpreter of its first line exists")
}

func environment(more []string) (env []string) {
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, more...)
}

// An answer keeps the bytes written to it, and refuses more than it may have.
type answer struct {
	most int
	kept []byte
	over bool
}

var errTooLong = errors.New("the answer is too long")

func (a *answer) Write(p []byte) (int, error) {
	if len(a.kept)+len(p) > a.most {
		a.over = true
		return 0, errTooLong
	}
	a.kept = append(a.kept, p...)
	return len(p), nil
}

// A tail keeps the end of the bytes written to it.
type tail struct {
	kept  []byte
	total int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.total += int64(len(p))
	if over := len(p) - transfer.MaxOutput; over > 0 {
		t.kept = append(t.kept[:0], p[over:]...)
		return len(p), nil
	}
	if over := len(t.kept) + len(p) - transfer.MaxOutput; over > 0 {
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

// text returns the kept bytes, and the number of bytes before them. Bytes that are no UTF-8 are replaced.
func (t *tail) text() (s string, cut int64) {
	kept := t.kept
	if t.total > int64(len(kept)) { // it may begin within a character
		for n := 0; n < utf8.UTFMax && len(kept) > 0 && !utf8.RuneStart(kept[0]); n++ {
			kept = kept[1:]
		}
	}
	return string(bytes.ToValidUTF8(kept, []byte("\uFFFD"))), t.total - int64(len(kept))
}
