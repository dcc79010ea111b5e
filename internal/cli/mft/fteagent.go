package mft

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ferry/internal/cli/output"
	"ferry/internal/mft/commands"
	"ferry/internal/node/member"
	"ferry/internal/security/keyfile"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agent that fteStartAgent has started holds the lock of its process file for as long as it runs: it gets the open
// file from its parent. While the lock is held, the number in the file is therefore the agent's.

// Times of fteStartAgent and fteStopAgent.
const (
	agentStarts = 60 * time.Second
	agentStops  = 5 * time.Minute
	agentLook   = 100 * time.Millisecond
	agentWrites = 64 << 10 // bytes of its log, until it is ready
)

// agentFiles are the directory and the files of an agent of fteStartAgent.
type agentFiles struct{ state, process, log string }

func filesOf(name transfer.AgentName) (f agentFiles, err error) {
	home, err := member.StateDir()
	if err != nil {
		return f, err
	}
	dir, err := keyfile.Make(filepath.Join(home, "fte"))
	if err != nil {
		return f, transfer.Errorf(transfer.KindUnwritable, "the directory of the agents cannot be made: %w", err)
	}
	at := filepath.Join(dir.Path(), name.Token())
	return agentFiles{at, at + ".process", at + ".log"}, nil
}

// start runs an agent in a process of its own and waits until it answers, or with -F runs it in this one.
func (r *fteRun) start() error {
	name, err := r.Agent(r.Args[0])
	if err != nil {
		return err
	}
	files, err := filesOf(name)
	if err != nil {
		return err
	}
	args := []string{"agent", "run", string(name), "--dir", files.state}
	if r.Has("F") {
		if code := r.run(args, r.cmd.OutOrStdout(), r.cmd.ErrOrStderr()); code != 0 {
			return output.Exit(commands.CodeOf(code))
		}
		return nil
	}
	if runtime.GOOS == "windows" {
		return transfer.Errorf(transfer.KindNotBuilt, "fteStartAgent starts no process in the background on Windows").WithHint("use -F, or a service that runs `ferry agent run`")
	}

	lock, err := filelock.Take(files.process)
	if errors.Is(err, filelock.ErrHeld) {
		r.say(commands.Runs, name)
		return nil
	}
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the process file cannot be made: %w", err)
	}
	defer lock.Close()
	log, err := os.OpenFile(files.log, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the log cannot be made: %w", err)
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	child, err := spawn(args, lock.(*os.File), log)
	if err != nil {
		return err
	}
	wrote := func() string {
		b, _ := io.ReadAll(io.NewSectionReader(log, before, agentWrites))
		return string(b)
	}
	if err := r.ready(name, child, wrote); err != nil {
		if _, away := r.beat(name); away == nil { // another service has started it
			r.say(commands.Runs, name)
			return nil
		}
		return transfer.AsError(err).WithHint("its log is " + files.log)
	}
	r.say(commands.Started, name, files.log)
	return nil
}

// beat asks an agent whether it is there.
func (r *fteRun) beat(name transfer.AgentName) (*wire.Beat, error) {
	net, ctx, done, err := r.q.Open(r.cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	b, _, err := net.Ping(ctx, name)
	return b, err
}

// elsewhere returns the error for an agent that fteStartAgent has not started here. It says how an agent that runs is
// stopped.
func (r *fteRun) elsewhere(name transfer.AgentName) error {
	b, away := r.beat(name)
	if away != nil {
		return transfer.Errorf(transfer.KindNotFound, "agent %s was not started here by fteStartAgent, or runs no more", name).
			WithHint("tell its process to stop with SIGTERM, or its service")
	}
	return transfer.Errorf(transfer.KindNotFound, "agent %s runs at %s, and was not started here by fteStartAgent", name, output.Printable(b.Host)).
		WithHint("stop its service there, as with `systemctl stop ferry-agent@" + string(name) + "`, or the process of `ferry up` that has it")
}

// spawn starts this program in the background, with a log. It holds the lock, which has its number.
func spawn(args []string, lock, log *os.File) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, args...)
	child.Stdout, child.Stderr, child.ExtraFiles = log, log, []*os.File{lock}
	apart(child)
	if err := child.Start(); err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "the agent cannot be started: %w", err)
	}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(child.Process.Pid)), 0)
	}
	if err != nil {
		child.Process.Kill()
		return nil, transfer.Errorf(transfer.KindUnwritable, "the process file cannot be written: %w", err)
	}
	return child, nil
}

// ready waits until a started agent says that it is.
func (r *fteRun) ready(name transfer.AgentName, child *exec.Cmd, wrote func() string) error {
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	late := time.After(agentStarts)
	tick := time.NewTicker(agentLook)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			lines := strings.Split(strings.TrimSpace(wrote()), "\n")
			return transfer.Errorf(transfer.KindInternal, "agent %s did not start: %s", name, lines[len(lines)-1])
		case <-late:
			return transfer.Errorf(transfer.KindTimeout, "agent %s is started, and not ready after %s", name, agentStarts)
		case <-tick.C:
			if strings.Contains(wrote(), "agent "+string(name)+" ready\n") {
				return nil
			}
		}
	}
}

// stop sends an agent that fteStartAgent has started the signal to stop, and waits until it has stopped.
func (r *fteRun) stop() error {
	name, err := r.Agent(r.Args[0])
	if err != nil {
		return err
	}
	files, err := filesOf(name)
	if err != nil {
		return err
	}
	lock, err := filelock.Take(files.process)
	if err == nil {
		lock.Close()
		return r.elsewhere(name)
	}
	if !errors.Is(err, filelock.ErrHeld) {
		return transfer.Errorf(transfer.KindUnwritable, "the process file cannot be read: %w", err)
	}
	number, err := os.ReadFile(files.process)
	pid, nerr := strconv.Atoi(string(number))
	if err = errors.Join(err, nerr); err != nil || pid <= 1 {
		return transfer.Errorf(transfer.KindInternal, "the process file %s says nothing of use: %q", files.process, number)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return transfer.Errorf(transfer.KindInternal, "agent %s cannot be told to stop: %w", name, err)
	}

	late := time.After(agentStops)
	tick := time.NewTicker(agentLook)
	defer tick.Stop()
	for {
		select {
		case <-late:
			return transfer.Errorf(transfer.KindTimeout, "agent %s has not stopped after %s", name, agentStops)
		case <-tick.C:
			if lock, err := filelock.Take(files.process); err == nil {
				lock.Close()
				r.say(commands.Stopped, name)
				return nil
			}
		}
	}
}
