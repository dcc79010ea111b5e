// Command ferry-bench measures Ferry on this host, with other programs beside it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ferry/bench"
	"ferry/internal/transfer"
)

// version is set when the program is linked.
var version = "development"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "ferry-bench: %s\n", err)
	return transfer.KindOf(err).Code()
}

// flags are the flags of a run, as given.
type flags struct {
	ferry, before  string
	short, json    bool
	rounds         int
	total          string
	dir, disk, out string
	log            string
}

func newRoot() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{Use: "ferry-bench [flags] SCENARIO...", Short: "Measure Ferry, with other programs beside it",
		Long: `Runs workloads over real Ferry processes on this host, each case in interleaved
rounds, and writes the results into --out: report.jsonl, report.md, and
report.html, which is one page with charts. ` + "`ferry-bench ls`" + ` lists the scenarios;
"all" is every one.`,
		Example:           "  ferry-bench latency\n  ferry-bench --total 1G matrix peers\n  ferry-bench --short all",
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              some("scenarios", "`ferry-bench ls` lists them; all is every one"),
		ValidArgsFunction: complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.measure(cmd, args) },
	}
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return transfer.Errorf(transfer.KindUsage, "%w", err).WithHint("`" + cmd.CommandPath() + " --help` lists the flags")
	})
	f.add(c)
	c.AddCommand(newLs(), newReport(), newReports(f))
	return c
}

// add adds the flags of a run.
func (f *flags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.ferry, "ferry", "", "the ferry program to measure (default: that beside ferry-bench, else the one in PATH)")
	fl.StringVar(&f.before, "before", "", "the ferry program of an earlier commit, for the scenario before")
	fl.BoolVar(&f.short, "short", false, "the short form: a check that everything works, not a measurement")
	fl.IntVar(&f.rounds, "rounds", 3, "measured rounds of each case, after one of warm-up")
	fl.StringVar(&f.total, "total", "200M", "bytes that one measurement of a matrix moves")
	fl.StringVar(&f.dir, "dir", "", "working directory (default: a new one on memory, where the host has that)")
	fl.StringVar(&f.disk, "disk", "", "working directory on disk, for the cases that need one (default: none, and they are not run)")
	fl.StringVar(&f.out, "out", "bench", "directory for the reports; made if it is not there")
	fl.BoolVar(&f.json, "json", false, "the reports on stdout as JSON Lines, too")
	fl.StringVar(&f.log, "log-level", "warn", "debug, info, warn or error")
}

// some requires at least one argument.
func some(what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return transfer.Errorf(transfer.KindUsage, "`%s` takes one or more %s", cmd.CommandPath(), what).WithHint(hint)
		}
		return nil
	}
}

func complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, s := range bench.Scenarios() {
		names = append(names, s.Name+"\t"+s.What)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newLs() *cobra.Command {
	return &cobra.Command{Use: "ls", Short: "List the scenarios", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		rows := [][]string{{"SCENARIO", "NEEDS", "WHAT"}}
		for _, s := range bench.Scenarios() {
			needs := slices.Clone(s.Tools)
			if s.Root {
				needs = append(needs, "root")
			}
			if needs == nil {
				needs = []string{"-"}
			}
			rows = append(rows, []string{s.Name, strings.Join(needs, " "), s.What})
		}
		return table(cmd.OutOrStdout(), rows)
	}}
}

func newReport() *cobra.Command {
	var out string
	c := &cobra.Command{Use: "report FILE...", Short: "Write the reports of several runs, each a " + bench.FileJSON + ", as one",
		Args: some("files, each a "+bench.FileJSON+" of a run", "a run writes one into its --out"),
		RunE: func(_ *cobra.Command, args []string) error {
			var all []*bench.Report
			for _, path := range args {
				reports, err := bench.ReadReports(path)
				if err != nil {
					return err
				}
				all = append(all, reports...)
			}
			return bench.Write(out, all)
		}}
	c.Flags().StringVar(&out, "out", "bench", "directory for the report; made if it is not there")
	return c
}

// newReports makes the command of IBM's reports.
func newReports(f *flags) *cobra.Command {
	limit, only := 55*time.Minute, ""
	c := &cobra.Command{Use: "reports", Short: "Make the measurements of IBM's five reports, and write one document with their chapters", Args: cobra.NoArgs,
		Long: `Measures each table and chart of IBM's five reports with Ferry, and writes ` + bench.FileDocument + `, with the
charts beside it, into --out. Each table has IBM's figure, Ferry's, and the ratio; each
conclusion of a report has a verdict. --short writes all tables without measuring anything.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := f.document(cmd, limit, only)
			if err == nil {
				err = bench.WriteDocument(f.out, doc)
			}
			if err == nil && f.json {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(doc)
			}
			return err
		}}
	f.add(c)
	c.Flags().StringVar(&only, "only", "", "only the works with this text in their names, as \"client, binary, 10 MB files\"; the others are not measured")
	c.Flags().DurationVar(&limit, "limit", limit, "about the longest time; works have fewer rounds where it is short")
	return c
}

// document makes the document of the reports.
func (f *flags) document(cmd *cobra.Command, limit time.Duration, only string) (*bench.Document, error) {
	if f.short {
		return bench.ShortDocument(bench.ThisHost(version), time.Now()), nil
	}
	e, done, err := f.env(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return bench.MakeDocument(ctx, e, limit, only)
}

// measure runs the scenarios and writes their reports, each as soon as it is complete.
func (f *flags) measure(cmd *cobra.Command, args []string) error {
	list, err := bench.Find(args)
	if err != nil {
		return err
	}

	e, done, err := f.env(cmd)
	if err != nil {
		return err
	}
	defer done()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var reports []*bench.Report
	err = bench.Run(ctx, e, list, func(r *bench.Report) error {
		reports = append(reports, r)
		if f.json {
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(r); err != nil {
				return err
			}
		}
		return bench.Write(f.out, reports)
	})
	if len(reports) > 0 {
		e.Say("written: %s", filepath.Join(f.out, bench.FileHTML))
	}

	if ctx.Err() != nil {
		return transfer.Errorf(transfer.KindCancelled, "a signal ended the run after %d scenarios", len(reports))
	}
	if err == nil && !f.json {
		err = showBars(cmd.OutOrStdout(), reports)
	}
	return err
}

// showBars prints the result of each bar.
func showBars(w io.Writer, reports []*bench.Report) error {
	rows := [][]string{{"SCENARIO", "BAR", "VALUE", "TO PASS", "AIM", "VERDICT"}}
	for _, r := range reports {
		for _, b := range r.Bars {
			limit, aim := b.Limits()
			rows = append(rows, []string{r.Scenario, b.Name, b.Shown(), limit, aim, b.Verdict()})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return table(w, rows)
}

func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// env returns the Env of the scenarios, and a function that removes its working directories.
func (f *flags) env(cmd *cobra.Command) (*bench.Env, func(), error) {
	if f.rounds < 1 || f.rounds > 1000 {
		return nil, nil, transfer.Errorf(transfer.KindUsage, "--rounds %d is out of range; it goes from 1 to 1000", f.rounds)
	}

	total, err := transfer.ParseSize(f.total)
	if err != nil {
		return nil, nil, err
	}

	if total < 1<<20 {
		return nil, nil, transfer.Errorf(transfer.KindUsage, "--total %s is out of range; it begins at 1M", f.total)
	}

	var level slog.Level
	if err := level.UnmarshalText([]byte(f.log)); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindUsage, "--log-level %q is unknown; it is one of debug, info, warn, error", f.log)
	}

	program, of, err := f.program()
	if err != nil {
		return nil, nil, err
	}

	before := f.before
	if before != "" {
		if before, err = filepath.Abs(before); err == nil {
			_, err = os.Stat(before)
		}
		if err != nil {
			return nil, nil, transfer.Errorf(transfer.KindUsage, "the program of --before is not there: %w", err).WithHint("`make bench SCENARIOS=before` builds one")
		}
	}

	e := &bench.Env{Ferry: program, Before: before, Version: of, Out: f.out, Rounds: f.rounds, Warmups: 1, Total: int64(total), Short: f.short,
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})), Notices: cmd.ErrOrStderr()}
	if f.short && !cmd.Flags().Changed("rounds") {
		e.Rounds, e.Warmups = 1, 0
	}

	if f.short && !cmd.Flags().Changed("total") {
		e.Total = 2 << 20
	}

	var removes []func()
	done := func() {
		for _, remove := range removes {
			remove()
		}
	}
	base := f.dir
	if base == "" {
		base = bench.OnMemory()
	}

	for _, d := range []struct {
		base string
		to   *string
	}{{base, &e.Dir}, {f.disk, &e.Disk}} {
		if d.base == "" {
			continue
		}
		dir, remove, err := bench.WorkDir(d.base)
		if err != nil {
			done()
			return nil, nil, err
		}
		*d.to = dir
		removes = append(removes, remove)
	}
	return e, done, nil
}

// program returns the absolute path of the measured ferry program, and its version.
func (f *flags) program() (path, version string, err error) {
	path = f.ferry
	if path == "" {
		path = "ferry"
		if runtime.GOOS == "windows" {
			path += ".exe"
		}
		if self, err := os.Executable(); err == nil {
			if beside := filepath.Join(filepath.Dir(self), path); exists(beside) {
				path = beside
			}
		}
	}

	if path, err = exec.LookPath(path); err == nil {
		path, err = filepath.Abs(path)
	}

	var said []byte
	if err == nil {
		said, err = exec.Command(path, "version").Output()
	}
	if err != nil {
		return "", "", transfer.Errorf(transfer.KindUsage, "there is no ferry program to measure: %w", err).WithHint("build one with `make build`, or name it with --ferry")
	}
	return path, strings.TrimPrefix(strings.TrimSpace(string(said)), "ferry "), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
