package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// Check returns an error that names a requirement of a scenario that this host lacks.
func (s Scenario) Check() error {
	for _, tool := range s.Tools {
		if _, err := exec.LookPath(tool); err != nil {
			return transfer.Errorf(transfer.KindInternal, "scenario %s needs the program %s, which is not in the PATH", s.Name, tool).
				WithHint("install it; `make bench-peers` installs all that the scenarios need on Debian and Ubuntu")
		}
	}
	if s.Root && os.Geteuid() != 0 {
		return transfer.Errorf(transfer.KindInternal, "scenario %s needs root: it makes network namespaces and limits their rate", s.Name).
			WithHint("run it with sudo, or choose another")
	}
	return nil
}

// Run runs scenarios one after another, and passes each report to emit as soon as it is complete. It checks the
// requirements of all scenarios before the first one runs.
func Run(ctx context.Context, e *Env, list []Scenario, emit func(*Report) error) error {
	for _, s := range list {
		if err := s.Check(); err != nil {
			return err
		}
	}

	host := ThisHost(e.Version) // once: later the load would be that of the previous scenario
	for _, s := range list {
		e.Say("%s: %s", s.Name, s.What)
		started := time.Now()
		r, err := s.Run(ctx, e)
		if err != nil {
			return transfer.Errorf(transfer.KindOf(err), "scenario %s: %w", s.Name, err)
		}
		r.V, r.Scenario, r.What, r.Short = ReportVersion, s.Name, s.What, e.Short
		r.Started, r.Seconds, r.Host = started.UTC(), time.Since(started).Seconds(), host
		r.Rounds, r.Warmups = cmp.Or(r.Rounds, e.Rounds), cmp.Or(r.Warmups, e.Warmups)
		if host.busy() {
			r.Note("The host was busy before the run: %.1f tasks could run at once on %d processors. Times and rates of this run are not to be trusted.", host.Load, host.Cores)
		}
		if e.Short {
			for i, b := range r.Bars {
				r.Bars[i] = b.Lacking("the short form is too small to judge by")
			}
		}
		if err := r.check(); err != nil {
			return err
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// busy reports whether other work used a good part of the processors in the minute before the measurement.
func (h Host) busy() bool { return h.Load > 0.5*float64(h.Cores) }

// ThisHost returns the description of this host. Unknown fields stay empty.
func ThisHost(version string) Host {
	h := Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Version: version}
	h.Kernel = strings.TrimSpace(proc("/proc/sys/kernel/osrelease"))
	for line := range strings.Lines(proc("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}

	if f := strings.Fields(proc("/proc/meminfo")); len(f) > 1 && f[0] == "MemTotal:" {
		kib, _ := strconv.ParseInt(f[1], 10, 64)
		h.Memory = kib << 10
	}

	if f := strings.Fields(proc("/proc/loadavg")); len(f) > 0 {
		h.Load, _ = strconv.ParseFloat(f[0], 64)
	}
	return h
}

// proc returns the content of a file that only Linux has.
func proc(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// Names of the files of Write.
const (
	FileJSON     = "report.jsonl"
	FileMarkdown = "report.md"
	FileHTML     = "report.html"
)

// Write writes reports into a directory, and makes the directory: as JSON Lines, as Markdown, as one HTML page, and
// each chart as an SVG file of its own.
func Write(dir string, reports []*Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return unwritten(dir, err)
	}

	var lines []byte
	for _, r := range reports {
		line, err := json.Marshal(r)
		if err != nil {
			return transfer.Errorf(transfer.KindInternal, "the report of %s cannot be written as JSON: %w", r.Scenario, err)
		}
		lines = append(append(lines, line...), '\n')
		for i, c := range r.Charts {
			drawing, err := c.SVG()
			if err != nil {
				return transfer.Errorf(transfer.KindInternal, "a chart of %s cannot be drawn: %w", r.Scenario, err)
			}
			if err := write(dir, fmt.Sprintf("%s-%02d.svg", r.Scenario, i+1), drawing); err != nil {
				return err
			}
		}
	}

	html, err := HTML(reports)
	if err != nil {
		return transfer.Errorf(transfer.KindInternal, "the page cannot be written: %w", err)
	}

	for name, text := range map[string]string{FileJSON: string(lines), FileMarkdown: Markdown(reports), FileHTML: html} {
		if err := write(dir, name, text); err != nil {
			return err
		}
	}
	return nil
}

func write(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		return unwritten(dir, err)
	}
	return nil
}

func unwritten(dir string, err error) error {
	return transfer.Errorf(transfer.KindUnwritable, "reports cannot be written into %s: %w", dir, err).
		WithHint("give --out a directory that can be written")
}

// ReadReports reads a file of JSON Lines by Write.
func ReadReports(path string) ([]*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the reports in %s cannot be read: %w", path, err)
	}

	var all []*Report
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		r, err := ReadReport([]byte(line))
		if err != nil {
			return nil, transfer.Errorf(transfer.KindOf(err), "%s, line %d: %w", path, len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// ascending returns the different values of v, in order.
func ascending(v []float64) []float64 {
	slices.Sort(v)
	return slices.Compact(v)
}
