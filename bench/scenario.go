// Package bench runs repeatable workloads over real Ferry processes, with other programs beside them in the same run.
// It reports times, rates, processor seconds and memory by role, beside the published figures of the product that Ferry
// re-creates.
//
// A Scenario is one workload with a name. It makes its files in memory, starts a Network of processes, and runs its
// Cases in interleaved rounds, so that other work of the host affects all of them alike. It returns a Report of tables,
// charts and bars, which is written as JSON, Markdown and one HTML page.
package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ferry/internal/transfer"
)

// A Scenario is one workload. Scenarios lists them all.
type Scenario struct {
	Name  string
	What  string   // one sentence for users
	Tools []string // programs beside ferry that must be in the PATH
	Root  bool     // only root can run it: namespaces, rate limits
	Run   func(ctx context.Context, e *Env) (*Report, error)
}

// An Env has the settings and directories of a scenario.
type Env struct {
	Ferry   string // the binary under measurement
	Before  string // the ferry program of an earlier commit; empty: none
	Version string // its version
	Dir     string // working directory, in memory if the host has such a file system
	Disk    string // working directory on disk; empty: none
	Out     string // directory of the reports
	Rounds  int    // measured rounds of each case, at least 1
	Warmups int    // rounds before them that are not measured
	Total   int64  // bytes that one measurement of a matrix moves
	Short   bool   // the short form: takes seconds, and only checks that everything works
	Log     *slog.Logger
	Notices io.Writer // gets progress lines; nil: none
}

// Say writes a progress line.
func (e *Env) Say(format string, args ...any) {
	if e.Notices != nil {
		fmt.Fprintf(e.Notices, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
}

// Scratch makes a new directory beneath Dir, and returns a function that removes it with its content.
func (e *Env) Scratch(name string) (dir string, remove func(), err error) {
	return scratch(e.Dir, name)
}

// ScratchOnDisk is Scratch beneath Disk.
func (e *Env) ScratchOnDisk(name string) (dir string, remove func(), err error) {
	if e.Disk == "" {
		return "", nil, transfer.Errorf(transfer.KindUsage, "there is no directory on disk to measure in").
			WithHint("give --disk DIR, a directory that is not on memory")
	}
	return scratch(e.Disk, name)
}

func scratch(in, name string) (string, func(), error) {
	dir, err := os.MkdirTemp(in, name+"-")
	if err != nil {
		return "", nil, transfer.Errorf(transfer.KindUnwritable, "no working directory can be made in %s: %w", filepath.Clean(in), err).
			WithHint("give --dir, or --disk, a directory that can be written")
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// OnMemory returns a directory with files in memory, or the directory of temporary files if the host has none.
func OnMemory() string {
	const shm = "/dev/shm"
	if i, err := os.Stat(shm); err == nil && i.IsDir() {
		return shm
	}
	return os.TempDir()
}

// WorkDir makes a new working directory in base, and base if it is missing. It returns a function that removes the new
// directory.
func WorkDir(base string) (dir string, remove func(), err error) {
	base, err = filepath.Abs(base)
	if err == nil {
		err = os.MkdirAll(base, 0o755)
	}
	if err != nil {
		return "", nil, transfer.Errorf(transfer.KindUnwritable, "the working directory %s cannot be made: %w", base, err)
	}
	return scratch(base, "ferry-bench")
}
