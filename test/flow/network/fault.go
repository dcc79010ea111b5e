//go:build linux

package network

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ferry/test/judge"
)

// Comes waits until a launched process is ready, or has ended instead, for example at a failpoint during its start. It
// reports whether the process is ready.
func (n *Network) Comes(who string) (ready bool) {
	n.t.Helper()
	p := n.process(who)
	select {
	case <-p.ready:
		return true
	case <-p.ended:
		select {
		case <-p.ready:
			return true
		default:
			return false
		}
	case <-time.After(patience):
		n.t.Fatalf("%s is neither ready nor gone after %s", who, patience)
		return false
	}
}

// Ended is closed when the command has ended.
func (s *Sending) Ended() <-chan struct{} { return s.ended }

// Kill ends the command with SIGKILL.
func (s *Sending) Kill() {
	s.n.t.Helper()
	s.n.must(s.cmd.Process.Kill())
	<-s.ended
}

// Killed reports whether the command was ended by a signal.
func (s *Sending) Killed() bool {
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode() < 0
	default:
		return false
	}
}

// Holds returns the resources of a running process. Only the process itself can count its goroutines. The number of
// threads, which grows with blocking goroutines, replaces it.
func (n *Network) Holds(who string) judge.Resources {
	n.t.Helper()
	pid := n.Pid(who)
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	n.must(err)
	return judge.Resources{Goroutines: int(n.statusOf(pid, "Threads:")), Descriptors: len(names),
		Memory: n.statusOf(pid, "VmRSS:") << 10, Store: n.storeOf(who)}
}

// statusOf reads a figure of a process from the kernel.
func (n *Network) statusOf(pid int, name string) int64 {
	n.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	n.must(err)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			v, err := strconv.ParseInt(f[1], 10, 64)
			n.must(err)
			return v
		}
	}
	n.t.Fatalf("the kernel does not say %s of process %d", name, pid)
	return 0
}

// storeOf returns the size of a process's state directory, without the parts that grow by design: the audit log and the
// EVENT stream, which keeps its newest 256 MiB.
func (n *Network) storeOf(who string) (size int64) {
	filepath.WalkDir(n.State(who), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it may have gone meanwhile
		}
		if d.IsDir() {
			if d.Name() == "audit" || d.Name() == "FERRY_EVENT" {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// Clear removes the source files and arrived files of a job, because a long-lived network would fill the disk.
func (n *Network) Clear(j *Job) {
	n.t.Helper()
	n.must(os.RemoveAll(n.Path(j.From, j.In)))
	n.must(os.RemoveAll(n.Path(j.To, filepath.Join(j.Out, filepath.Base(j.In)))))
}

// Count counts the files beneath a directory of an agent that have their final names.
func (n *Network) Count(agent, dir string) (files int) {
	filepath.WalkDir(n.Path(agent, dir), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".ferry-") {
			files++
		}
		return nil // a vanished file does not count
	})
	return files
}

// Wrote returns the output of a process in its present or last run.
func (n *Network) Wrote(who string) string {
	n.t.Helper()
	all := n.process(who).log.text()
	return all[strings.LastIndex(all, started)+len(started):]
}
