package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/bench/peers"
	"ferry/internal/transfer"
)

func peersScenario() Scenario {
	return Scenario{
		Name:  "peers",
		What:  "The same files with Ferry, vsftpd and curl or lftp, sftp and scp, an rsync daemon, rclone and cp: in memory, and on disk where --disk is given.",
		Tools: []string{"vsftpd", "curl", "lftp", "sshd", "ssh-keygen", "sftp", "scp", "rsync", "rclone", "cp", "sync"},
		Run:   runPeers,
	}
}

// A workload is the data of a scenario about peers.
type workload struct {
	name  string // for display
	dir   string // name of the set
	files int
	size  int64
}

// peerWorkloads returns the workloads for the comparison with peers.
func peerWorkloads(short bool) []workload {
	if short {
		return []workload{
			{"one file of 32 MiB", "one", 1, 32 << 20},
			{"20 files of 1 MiB", "many", 20, 1 << 20},
			{"200 files of 10 KiB", "small", 200, 10 << 10},
		}
	}
	return []workload{
		{"one file of 1 GiB", "one", 1, 1 << 30},
		{"1,000 files of 1 MiB", "many", 1000, 1 << 20},
		{"10,000 files of 10 KiB", "small", 10_000, 10 << 10},
	}
}

// A peerRun is one run of the scenario in one directory.
type peerRun struct {
	env     *Env
	dir     string
	synced  bool // copies must be on disk: Ferry with durability full, peers followed by a sync of their files
	pairs   []*Pair
	lanes   []Lane
	servers map[peers.Kind]*peers.Server
	copies  int
	series  []Series // of all workloads
}

func runPeers(ctx context.Context, e *Env) (*Report, error) {
	r := &Report{}
	dir, remove, err := e.Scratch("peers")
	if err != nil {
		return nil, err
	}
	defer remove()

	memory := &peerRun{env: e, dir: dir}
	if err := memory.all(ctx, r, peerWorkloads(e.Short)); err != nil {
		return nil, err
	}

	notesOnPeers(r)
	if e.Disk == "" {
		r.Bars = append(r.Bars, peakBar(memory.series))
		r.Note("On disk nothing was measured: no --disk was given.")
		return r, nil
	}

	if dir, remove, err = e.ScratchOnDisk("peers"); err != nil {
		return nil, err
	}
	defer remove()

	disk := &peerRun{env: e, dir: dir, synced: true}
	w := peerWorkloads(e.Short)
	if err := disk.all(ctx, r, []workload{w[0], w[2]}); err != nil {
		return nil, err
	}

	r.Bars = append(r.Bars, peakBar(append(memory.series, disk.series...)))
	r.Note("On disk, Ferry ran with durability full, and a peer's time goes on until its files are synced: each of up to %d files and its directory, or with `sync -f`, which syncs the whole file system at once, for more. Its bytes are then as safe as Ferry's, its names are not: after a crash in between a name may have its old content.", syncEach)
	return r, nil
}

// all runs workloads one after another, and adds their tables and bars.
func (p *peerRun) all(ctx context.Context, r *Report, list []workload) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	defer p.stop()

	for _, w := range list {
		series, turned, err := p.workload(ctx, w)
		if err != nil {
			return err
		}
		p.series = append(p.series, series...)
		where := "in memory"
		if p.synced {
			where = "on disk, synced"
		}
		r.Tables = append(r.Tables, peerTable(w.name+", "+where, series))
		r.Charts = append(r.Charts, peerChart(w.name+", "+where, series))
		if !p.synced {
			r.Tables = append(r.Tables, peerTable(w.name+", by turns", turned))
			r.Bars = append(r.Bars, peerBars(w.dir, w.name, instead(series, turned))...)
		}
	}
	return nil
}

// workload makes the files, measures all programs with them, and removes them. turned has the series measured by turns.
func (p *peerRun) workload(ctx context.Context, w workload) (series, turned []Series, err error) {
	set, err := MakeFiles(filepath.Join(p.dir, "sets", w.dir), w.files, w.size, Random)
	if err != nil {
		return nil, nil, err
	}

	// One of the servers caches its listings, so each workload has new servers.
	if err := p.serve(ctx); err != nil {
		return nil, nil, err
	}
	defer p.endServers()

	cases := p.cases(set)
	if series, err = p.env.Interleave(ctx, cases); err != nil {
		return nil, nil, err
	}

	if !p.synced {
		if turned, err = p.env.ByTurns(ctx, casesOf(cases, turnedCases[w.dir])); err != nil {
			return nil, nil, err
		}
	}
	if err := os.RemoveAll(set.Dir); err != nil {
		return nil, nil, unwritable(set.Dir, err)
	}
	return series, turned, nil
}

// turnedCases are, by workload, the cases of bars with a small margin, for ByTurns.
var turnedCases = map[string][]string{
	"one": {ferryCase(DirectPlain), ferryCase(DirectTLS), ferryCase(QueueLane), "vsftpd + curl, get", "vsftpd + curl, put",
		"vsftpd + curl --ssl-reqd, get", "vsftpd + curl --ssl-reqd, put", "rsync daemon -W"},
	"many":  {ferryCase(DirectPlain), "rsync daemon -W"},
	"small": {ferryCase(DirectPlain), "rsync daemon -W"},
}

// casesOf returns the cases in all with one of the names.
func casesOf(all []Case, names []string) []Case {
	return slices.DeleteFunc(slices.Clone(all), func(c Case) bool { return !slices.Contains(names, c.Name) })
}

// instead returns all, with the series of some in place of those of the same case.
func instead(all, some []Series) []Series {
	all = slices.Clone(all)
	for i := range all {
		for _, s := range some {
			if s.Case == all[i].Case {
				all[i] = s
			}
		}
	}
	return all
}

// start starts a pair for each lane that this Ferry has.
func (p *peerRun) start(ctx context.Context) error {
	p.lanes = []Lane{DirectPlain, DirectTLS, QueueLane}
	p.pairs = make([]*Pair, len(p.lanes))
	for i, lane := range p.lanes {
		if lane.Lacks() != "" {
			continue
		}
		pair, err := p.env.StartPair(ctx, PairConfig{Dir: filepath.Join(p.dir, "network", fmt.Sprint(i)), SourceRoot: p.root("sets"), Lane: lane})
		if err != nil {
			p.stop()
			return err
		}
		p.pairs[i] = pair
	}
	return nil
}

// serve starts every server.
func (p *peerRun) serve(ctx context.Context) error {
	p.servers = map[peers.Kind]*peers.Server{}
	for _, c := range peers.Clients() {
		if c.Server == peers.None || p.servers[c.Server] != nil {
			continue
		}
		s, err := peers.Start(ctx, c.Server, p.place())
		if err != nil {
			p.endServers()
			return err
		}
		p.servers[c.Server] = s
	}
	return nil
}

func (p *peerRun) endServers() {
	for _, s := range p.servers {
		s.Close()
	}
	p.servers = nil
}

func (p *peerRun) root(name string) string {
	dir := filepath.Join(p.dir, name)
	os.MkdirAll(dir, 0o755) // its users report problems with it
	return dir
}

func (p *peerRun) place() peers.Place {
	return peers.Place{Dir: p.root("peers"), Root: p.dir}
}

func (p *peerRun) stop() {
	for _, pair := range p.pairs {
		if pair != nil {
			pair.Close()
		}
	}
	p.pairs = nil
}

// ferryCase returns the name of the case of a lane.
func ferryCase(l Lane) string { return "Ferry, " + l.Name }

func (p *peerRun) cases(set *FileSet) (all []Case) {
	durability := transfer.DurabilityProcess
	if p.synced {
		durability = transfer.DurabilityFull
	}

	for i, lane := range p.lanes {
		if p.pairs[i] == nil {
			all = append(all, Case{Name: ferryCase(lane), Lacks: lane.Lacks()})
			continue
		}
		all = append(all, p.pairs[i].Case(ferryCase(lane), set, Job{Lane: lane.Lane, Durability: durability}, false))
	}

	for _, c := range peers.Clients() {
		if c.One != "" && len(set.Names) > 1 {
			all = append(all, Case{Name: c.Name, Lacks: "not run: " + c.One})
			continue
		}
		all = append(all, Case{Name: c.Name, Run: func(ctx context.Context) (Sample, error) { return p.measure(ctx, c, set) }})
	}
	return all
}

// measure copies a set with a peer, verifies the copy and removes it.
func (p *peerRun) measure(ctx context.Context, c peers.Client, set *FileSet) (Sample, error) {
	p.copies++
	to := fmt.Sprintf("copies/%d", p.copies)
	work := peers.Work{Set: "sets/" + set.Name(), To: to, Files: set.Names}
	copied := filepath.Join(p.dir, to, set.Name())
	after := func() error { return nil }
	if p.synced {
		after = func() error { return syncTree(ctx, copied, len(set.Names)) }
	}

	s, err := measurePeer(ctx, c, p.place(), p.servers[c.Server], work, after)
	if err != nil {
		return s, err
	}

	s.Bytes, s.Files = set.Bytes(), int64(len(set.Names))
	if err := set.Verify(copied); err != nil {
		return s, err
	}
	return s, os.RemoveAll(filepath.Join(p.dir, to))
}

// measurePeer measures one copy of a peer, including the sync after it.
func measurePeer(ctx context.Context, c peers.Client, place peers.Place, server *peers.Server, work peers.Work, after func() error) (Sample, error) {
	m := &Meter{}
	if server != nil {
		m.Add(RoleServer, server.Pid)
	}

	var cost peers.Cost
	s, err := m.Measure(func() (Sample, error) {
		wall, used, err := c.Copy(ctx, place, server, work)
		if err != nil {
			return Sample{}, err
		}
		cost = used
		start := time.Now()
		err = after()
		return Sample{Wall: wall + time.Since(start)}, err
	})
	if err != nil {
		return s, err
	}

	s.CPU[RoleClient] += cost.CPU
	s.Peak[RoleClient] = max(s.Peak[RoleClient], cost.Peak)
	return s, nil
}

// syncEach is the most files that are synced one by one. For more, a sync of the whole file system is quicker.
const syncEach = 16

// syncTree makes a tree durable, in the quickest way for its number of files.
func syncTree(ctx context.Context, dir string, files int) error {
	if files > syncEach {
		if text, err := exec.CommandContext(ctx, "sync", "-f", dir).CombinedOutput(); err != nil {
			return transfer.Errorf(transfer.KindInternal, "sync -f %s failed: %w: %s", dir, err, strings.TrimSpace(string(text)))
		}
		return nil
	}

	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// sumCPU returns the processor time of some roles together, in seconds.
func sumCPU(s Series, roles ...Role) Figure {
	return s.Figure(func(x Sample) float64 {
		var t time.Duration
		for _, r := range roles {
			t += x.CPU[r]
		}
		return t.Seconds()
	})
}

func peerTable(title string, all []Series) Table {
	t := Table{Title: title, Columns: []Column{
		{Name: "with"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s", Digits: 0},
		{Name: "Ferry, direct lane, plain, is so many times as fast", Digits: 2},
		{Name: "CPU of sender and receiver", Unit: "s", Digits: 2}, {Name: "CPU beside them", Unit: "s", Digits: 2}}}
	first := all[0]
	for _, s := range all {
		faster := Cell{}
		if first.Lacks == "" && s.Lacks == "" && s.Case != first.Case {
			faster = One(first.Rate().Median / s.Rate().Median)
		}
		t.Add(Text("%s", s.Case), s.Cell(s.Wall()), s.Cell(s.Rate()), faster,
			s.Cell(sumCPU(s, RoleSource, RoleDestination, RoleClient, RoleServer)), s.Cell(sumCPU(s, RoleManager, RoleCoordination)))
	}
	return t
}

func peerChart(title string, all []Series) Chart {
	c := Chart{Title: title, Kind: Bars, X: "with", Y: "MB/s", Lines: []Line{{Name: "rate"}}}
	for _, s := range all {
		if s.Lacks == "" {
			c.Lines[0].Points = append(c.Lines[0].Points, At(float64(len(c.Categories)), s.Rate()))
			c.Categories = append(c.Categories, s.Case)
		}
	}
	return c
}

// rateBar returns the bar of one median rate over the greatest of others, at least limit.
func rateBar(name string, over Series, under []Series, limit, aim float64) Bar {
	bar := AtLeast(name, "", 0, limit, aim)
	if over.Lacks != "" {
		return bar.Lacking(over.Lacks)
	}
	best := 0.0
	for _, s := range under {
		best = max(best, s.Rate().Median) // 0 for a series that was not run
	}
	if best == 0 || len(over.Samples) == 0 {
		return bar.Lacking("it was not run")
	}
	return AtLeast(name, "", over.Rate().Median/best, limit, aim)
}

// named returns the series with a case of one of the names, or with a case that begins with a name ending in *.
func named(all []Series, names ...string) []Series {
	return slices.DeleteFunc(slices.Clone(all), func(s Series) bool {
		return !slices.ContainsFunc(names, func(n string) bool {
			prefix, more := strings.CutSuffix(n, "*")
			return s.Case == n || more && strings.HasPrefix(s.Case, prefix)
		})
	})
}

// peerBars returns the bars of one workload in memory. Against FTP the fastest direction and program count.
func peerBars(workload, title string, all []Series) []Bar {
	lane := func(l Lane) Series {
		if s := named(all, ferryCase(l)); len(s) == 1 {
			return s[0]
		}
		return Series{Lacks: "it was not run"}
	}
	bar := func(l Lane, than string, under []Series, limit, aim float64) Bar {
		return rateBar(fmt.Sprintf("%s: rate of the %s over %s", title, l.Name, than), lane(l), under, limit, aim)
	}
	curl, rsync := named(all, "vsftpd + curl, get", "vsftpd + curl, put"), named(all, "rsync daemon -W")
	switch workload {
	case "one":
		tls := named(all, "vsftpd + curl --ssl-reqd*")
		return []Bar{
			bar(DirectPlain, "vsftpd + curl", curl, 0.95, 1.2),
			bar(DirectTLS, "vsftpd + curl --ssl-reqd", tls, 1, 1.3),
			bar(DirectTLS, "sftp", named(all, "sftp"), 1, 1.3),
			bar(DirectPlain, "rsync daemon -W", rsync, 1.2, 1.5),
			bar(QueueLane, "vsftpd + curl", curl, 0.5, 0.7),
		}
	case "many":
		return []Bar{bar(DirectPlain, "rsync daemon -W", rsync, 1.1, 1.6)}
	case "small":
		ftp := named(all, "vsftpd + curl, get", "vsftpd + curl, put", "vsftpd + lftp mirror", "vsftpd + lftp mirror, 4 at once") // without encryption
		return []Bar{
			bar(DirectPlain, "rsync daemon -W", rsync, 1.2, 2),
			bar(DirectPlain, "FTP", ftp, 15, 25),
		}
	}
	return nil
}

func notesOnPeers(r *Report) {
	r.Note("Everything is on this host: both ends share its processors. Files and copies are on memory; Ferry ran with durability process, and no peer syncs anything.")
	r.Note("A peer's time is from the start of its client's process to its end, log-in and the making of connections included; Ferry's is from before the request is handed over until the submitter knows the end, by agents that were connected already.")
	r.Note("Every copy was verified against the digests of the sources after its time was taken. Of all these, only Ferry and rsync compare a digest of each file at both ends themselves; with TLS and SSH, data on the way cannot be changed unnoticed.")
	r.Note("The cases of the closest bars were measured %d times more in a round, without the others in between: those bars are of the tables \"by turns\".", turns)
	r.Note("Bars over FTP take the fastest of these runs: curl, getting or putting, and lftp with one connection and with four.")
}
