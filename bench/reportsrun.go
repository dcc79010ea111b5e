package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/bench/peers"
	"ferry/internal/transfer"
)

// Names of the programs beside Ferry in the document.
const (
	peerFTP     = "vsftpd + curl, put"
	peerFTPText = "vsftpd + curl --use-ascii, put"
)

// Shares of the time limit of a document. The rest is for files, processes and the exchanges of the technote.
const (
	limitWorks = 0.72
	limitCrowd = 0.2
)

// MakeDocument makes the measurements of the reports, and returns the document. It takes about as long as limit at most:
// each work is measured once, and again in further rounds, up to those of e, while there is time. only selects the works
// with that text in their names; empty: all, with the agents and the exchanges of the technote.
func MakeDocument(ctx context.Context, e *Env, limit time.Duration, only string) (*Document, error) {
	started := time.Now()
	host := ThisHost(e.Version)
	d := newDrafter(host.Cores)
	d.draft() // asks for the works
	if only != "" {
		d.wanted = slices.DeleteFunc(d.wanted, func(w work) bool { return !strings.Contains(w.name(), only) })
		e.Say("%d works have %q in their names", len(d.wanted), only)
	}

	dir, remove, err := e.Scratch("reports")
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &worker{env: e, dir: dir, source: filepath.Join(dir, "source"), sets: map[string]*FileSet{}, texts: map[int]*Texts{}, d: d}
	if r.unit, r.total, err = e.sizes(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.source, 0o755); err != nil {
		return nil, unwritable(r.source, err)
	}
	if err := r.all(ctx, time.Duration(limitWorks*float64(limit))); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(r.source); err != nil {
		return nil, unwritable(r.source, err)
	}
	if only == "" {
		if err := d.measureCrowd(ctx, e, time.Duration(limitCrowd*float64(limit))); err != nil {
			return nil, err
		}
		const exchanges = 100
		if d.stalls, err = Interleave(ctx, 1, 0, stallCases(exchanges), e.Say); err != nil {
			return nil, err
		}
	}
	doc := &Document{V: documentVersion, Host: host, Started: started.UTC(), Commit: e.Version, Measured: true, Rounds: e.Rounds, Parts: d.draft()}
	doc.Seconds = time.Since(started).Seconds()
	return doc, nil
}

// measureCrowd measures the numbers of agents, once: a round takes a good part of the limit.
func (d *drafter) measureCrowd(ctx context.Context, e *Env, limit time.Duration) error {
	e.Say("100 to 500 agents; about %s", limit.Round(time.Minute))
	one := *e
	one.Rounds, one.Warmups = 1, 0
	return withCrowd(ctx, &one, func(c *crowd, series []Series) {
		i := 0
		for _, size := range crowdSizes {
			for _, n := range c.counts {
				d.crowd[[2]int{n, size}] = series[i]
				i++
			}
		}
	})
}

// A worker measures the works of a document, one network after the other.
type worker struct {
	env    *Env
	dir    string
	source string
	unit   int64 // bytes of 1 MB
	total  int64 // of one measurement
	sets   map[string]*FileSet
	texts  map[int]*Texts
	d      *drafter
	nets   int
	copies int
}

// A network of works has one shape, one number of processors and one set of flags.
type workNetwork struct {
	shape, flags string
	processors   int
	peer         bool
}

func (w work) network() workNetwork {
	if w.peer != "" {
		return workNetwork{peer: true}
	}
	return workNetwork{shape: w.shape, flags: w.flags, processors: w.processors}
}

// all measures all works within a time. Each network has a part of it by the number of its works.
func (r *worker) all(ctx context.Context, limit time.Duration) error {
	groups := map[workNetwork][]work{}
	var order []workNetwork
	for _, w := range r.d.wanted {
		n := w.network()
		if groups[n] == nil {
			order = append(order, n)
		}
		groups[n] = append(groups[n], w)
	}
	for k, n := range order {
		part := time.Duration(float64(limit) * float64(len(groups[n])) / float64(len(r.d.wanted)))
		r.env.Say("network %d of %d: %s, %d works, about %s", k+1, len(order), cmp.Or(n.shape, "other programs")+" "+n.flags, len(groups[n]), part.Round(time.Second))
		if err := r.group(ctx, n, groups[n], part); err != nil {
			return err
		}
	}
	return nil
}

// group measures the works of one network. The works take turns in rounds, as many as fit into the time.
func (r *worker) group(ctx context.Context, n workNetwork, works []work, limit time.Duration) error {
	r.nets++
	dir := filepath.Join(r.dir, fmt.Sprintf("network%d", r.nets))
	defer os.RemoveAll(dir) // after the processes have ended
	var cases []Case
	if n.peer {
		end, peerCases, err := r.peerCases(ctx, dir, works)
		if err != nil {
			return err
		}
		defer end()
		cases = peerCases
	} else {
		pair, err := r.env.StartPair(ctx, PairConfig{Dir: dir, SourceRoot: r.source, Lane: QueueLane, Processors: n.processors, Flags: strings.Fields(n.flags), Bindings: n.shape == shapeBindings, Cluster: n.shape == shapeCluster})
		if err != nil {
			return err
		}
		defer pair.Close()
		for _, w := range works {
			c, err := r.one(pair, w)
			if err != nil {
				return err
			}
			cases = append(cases, c)
		}
	}

	started := time.Now()
	for round := range max(r.env.Rounds, 1) {
		used := time.Since(started)
		if round > 0 && used+used/time.Duration(round) > limit {
			r.env.Say("the time is over after %d rounds", round)
			break
		}
		series, err := Interleave(ctx, 1, 0, cases, r.env.Say)
		if err != nil {
			return err
		}
		for i, w := range works {
			s := r.d.measured[w]
			s.Case, s.Lacks = series[i].Case, series[i].Lacks
			s.Samples = append(s.Samples, series[i].Samples...)
			r.d.measured[w] = s
		}
	}
	return nil
}

// one returns the case of a work on its network.
func (r *worker) one(pair *Pair, w work) (Case, error) {
	j := Job{Checksum: w.checksum, Durability: transfer.DurabilityProcess, Lane: transfer.LaneQueue, Compress: w.compress,
		Settings: transfer.Settings{ChunkSize: w.chunkKiB << 10, WindowSize: w.window, FrameSize: w.frame, CheckpointInterval: w.checkpoint}}
	if w.stored {
		j.Delivery = transfer.DeliveryStored
	}
	var set *FileSet
	var err error
	switch {
	case w.route != "":
		i := slices.IndexFunc(routes, func(x route) bool { return x.name == w.route })
		text := w.text != binaryData
		of, becomes := routes[i].job(text, QueueLane)
		j.Content, j.Mode = of.Content, of.Mode
		set, err = r.text(w.fileMB, routes[i].from, becomes)
	case w.text != binaryData:
		j = j.AsText(w.text.from, w.text.to)
		from, to := w.text.forms()
		set, err = r.text(w.fileMB, from, to)
	default:
		set, err = r.files(w.fileMB, w.prose)
	}
	if err != nil {
		return Case{}, err
	}
	c := pair.Case(w.name(), set, j, w.atOnce > 1)
	if w.spread {
		n := min(w.atOnce, len(set.Names))
		c.Run = func(ctx context.Context) (Sample, error) { return pair.MoveSpread(ctx, set, j, n) }
	}
	return c, nil
}

// files returns the set of a size, which is made at its first use.
func (r *worker) files(size int, prose bool) (*FileSet, error) {
	content := Random
	if prose {
		content = Prose
	}
	name := fmt.Sprintf("%s%d", content, size)
	if r.sets[name] == nil {
		bytes := int64(size) * r.unit
		set, err := MakeFiles(filepath.Join(r.source, name), int(r.total/bytes), bytes, content)
		if err != nil {
			return nil, err
		}
		r.sets[name] = set
	}
	return r.sets[name], nil
}

// text returns the texts of a size in two forms.
func (r *worker) text(size int, from, to Form) (*FileSet, error) {
	if r.texts[size] == nil {
		bytes := int64(size) * r.unit
		t, err := MakeTexts(filepath.Join(r.source, fmt.Sprintf("text%d", size)), int(r.total/bytes), bytes,
			[]Form{FormUTF8, FormEBCDIC, FormFixed, FormVariable}, []Form{FormData, FormCut})
		if err != nil {
			return nil, err
		}
		r.texts[size] = t
	}
	return r.texts[size].Set(from, to), nil
}

// peerCases starts the servers of other programs, and returns the cases of their works. A program that is not there
// leaves a case that says so.
func (r *worker) peerCases(ctx context.Context, dir string, works []work) (end func(), cases []Case, err error) {
	place := peers.Place{Dir: filepath.Join(dir, "peers"), Root: r.dir}
	if err := os.MkdirAll(place.Dir, 0o755); err != nil {
		return nil, nil, unwritable(dir, err)
	}
	servers := map[peers.Kind]*peers.Server{}
	end = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	for _, w := range works {
		c := Case{Name: w.name(), Lacks: "not run: vsftpd and curl are not installed"}
		i := slices.IndexFunc(append(peers.Clients(), peers.TextClients()...), func(c peers.Client) bool { return c.Name == w.peer })
		if i >= 0 && (Scenario{Tools: []string{"vsftpd", "curl"}}).Check() == nil {
			client := append(peers.Clients(), peers.TextClients()...)[i]
			if servers[client.Server] == nil {
				if servers[client.Server], err = peers.Start(ctx, client.Server, place); err != nil {
					end()
					return nil, nil, err
				}
			}
			set, err := r.peerSet(w)
			if err != nil {
				end()
				return nil, nil, err
			}
			c.Lacks, c.Run = "", func(ctx context.Context) (Sample, error) {
				return r.copyByPeer(ctx, client, place, servers[client.Server], set)
			}
		}
		cases = append(cases, c)
	}
	return end, cases, nil
}

// peerSet returns the files of a work of another program. Text has one line end at both ends, so its bytes arrive
// unchanged.
func (r *worker) peerSet(w work) (*FileSet, error) {
	if w.text != binaryData {
		return r.text(w.fileMB, FormUTF8, FormUTF8)
	}
	return r.files(w.fileMB, false)
}

func (r *worker) copyByPeer(ctx context.Context, c peers.Client, place peers.Place, server *peers.Server, set *FileSet) (Sample, error) {
	r.copies++
	to := fmt.Sprintf("copies/%d", r.copies)
	copied := filepath.Join(r.dir, to, set.Name())
	work := peers.Work{Set: "source/" + set.Name(), To: to, Files: set.Names}
	s, err := measurePeer(ctx, c, place, server, work, func() error { return nil })
	if err != nil {
		return s, err
	}
	s.Bytes, s.Files = set.Bytes(), int64(len(set.Names))
	if err := set.Verify(copied); err != nil {
		return s, err
	}
	return s, os.RemoveAll(filepath.Join(r.dir, to))
}
