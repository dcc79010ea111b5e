package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ferry/internal/bench"
	"ferry/internal/transfer"
)

// benchFlags are the flags of ferry bench as they were given.
type benchFlags struct {
	short, json    bool
	rounds         int
	total          string
	dir, disk, out string
	log            logFlags
}

func newBench() *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{Use: "bench [flags] SCENARIO...", Short: "Measure Ferry, with other programs beside it",
		Long: `Runs workloads over real Ferry processes on this host, each case in interleaved
rounds, and writes what it measured into --out: report.jsonl, report.md, and
report.html, which is one page with charts. ` + "`ferry bench ls`" + ` lists the scenarios;
"all" is every one.`,
		Example: "  ferry bench latency\n  ferry bench --total 1G matrix peers\n  ferry bench --short all",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return transfer.Errorf(transfer.KindUsage, "`ferry bench` takes one or more scenarios").WithHint("`ferry bench ls` lists them; all is every one")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, s := range bench.Scenarios() {
				names = append(names, s.Name+"\t"+s.What)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runBench(cmd, f, args) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.short, "short", false, "the short form: a check that everything works, not a measurement")
	fl.IntVar(&f.rounds, "rounds", 3, "measured rounds of each case, after one of warm-up")
	fl.StringVar(&f.total, "total", "200M", "bytes that one measurement of a matrix moves")
	fl.StringVar(&f.dir, "dir", "", "working directory (default: a new one on memory, where the host has that)")
	fl.StringVar(&f.disk, "disk", "", "working directory on disk, for the cases that need one (default: none, and they are not run)")
	fl.StringVar(&f.out, "out", "bench", "directory for the reports; made if it is not there")
	fl.BoolVar(&f.json, "json", false, "the reports on stdout as JSON Lines, too")
	f.log.add(c, "warn")
	c.AddCommand(newBenchLs(), newBenchReport())
	return c
}

func newBenchLs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "ls", Short: "List the scenarios", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		rows := [][]string{{"SCENARIO", "NEEDS", "WHAT"}}
		for _, s := range bench.Scenarios() {
			needs := slices.Clone(s.Tools)
			if s.Root {
				needs = append(needs, "root")
			}
			if asJSON {
				printJSON(cmd, map[string]any{"scenario": s.Name, "what": s.What, "needs": append([]string{}, needs...)})
			}
			rows = append(rows, []string{s.Name, or(strings.Join(needs, " "), "-"), s.What})
		}
		if !asJSON {
			table(cmd.OutOrStdout(), rows)
		}
		return nil
	}}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return c
}

func newBenchReport() *cobra.Command {
	var out string
	c := &cobra.Command{Use: "report FILE...", Short: "Write the reports of several runs, each a report.jsonl, as one",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return transfer.Errorf(transfer.KindUsage, "`ferry bench report` takes one or more files, each a %s of a run", bench.FileJSON)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
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

func runBench(cmd *cobra.Command, f *benchFlags, args []string) error {
	list, err := bench.Find(args)
	if err != nil {
		return err
	}
	e, done, err := f.env(cmd)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var reports []*bench.Report
	err = bench.Run(ctx, e, list, func(r *bench.Report) error {
		reports = append(reports, r)
		if f.json {
			printJSON(cmd, r)
		}
		return bench.Write(f.out, reports)
	})
	if len(reports) > 0 {
		e.Say("written: %s", filepath.Join(f.out, bench.FileHTML))
	}
	if ctx.Err() != nil && cmd.Context().Err() == nil {
		return transfer.Errorf(transfer.KindCancelled, "the run was ended by a signal; it had finished %s", plural(int64(len(reports)), "scenario"))
	}
	if err == nil && !f.json {
		showBars(cmd, reports)
	}
	return err
}

// showBars prints what became of each bar.
func showBars(cmd *cobra.Command, reports []*bench.Report) {
	rows := [][]string{{"SCENARIO", "BAR", "VALUE", "TO PASS", "AIM", "VERDICT"}}
	for _, r := range reports {
		for _, b := range r.Bars {
			limit, aim := b.Limits()
			rows = append(rows, []string{r.Scenario, b.Name, b.Shown(), limit, aim, b.Verdict()})
		}
	}
	if len(rows) > 1 {
		table(cmd.OutOrStdout(), rows)
	}
}

// env makes what scenarios run in, and a function that removes its working
// directories.
func (f *benchFlags) env(cmd *cobra.Command) (*bench.Env, func(), error) {
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
	log, err := f.log.logger(cmd)
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, transfer.Errorf(transfer.KindInternal, "the ferry program cannot be found: %w", err)
	}
	e := &bench.Env{Ferry: self, Version: version, Out: f.out, Rounds: f.rounds, Warmups: 1, Total: int64(total), Short: f.short, Log: log, Notices: cmd.ErrOrStderr()}
	if f.short && !cmd.Flags().Changed("rounds") {
		e.Rounds, e.Warmups = 1, 0
	}
	if f.short && !cmd.Flags().Changed("total") {
		e.Total = 2 << 20
	}
	var removes []func()
	done := func() {
		for _, r := range removes {
			r()
		}
	}
	for _, d := range []struct {
		given, fallback string
		to              *string
	}{{f.dir, bench.OnMemory(), &e.Dir}, {f.disk, "", &e.Disk}} {
		base := or(d.given, d.fallback)
		if base == "" {
			continue
		}
		dir, remove, err := bench.WorkDir(base)
		if err != nil {
			done()
			return nil, nil, err
		}
		*d.to = dir
		removes = append(removes, remove)
	}
	return e, done, nil
}
