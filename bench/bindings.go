package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"ferry/bench/published"
	"ferry/internal/transfer"
)

// Bindings mode: each agent runs in the process of a queue manager of its own, and a channel joins the two.

// upBeside starts a network in bindings mode: the first agent with QM, which has coordination, and
// each other one with a queue manager that dials QM.
func (n *Network) upBeside(ctx context.Context) error {
	channel, err := FreePort()
	if err != nil {
		return err
	}
	first := n.cfg.Agents[0]
	args := append([]string{"up", "--listen", n.cfg.Listen, "--dir", n.state("QM"), "--channel-listen", channel, "--agent", first.Names[0] + "=" + first.Root, "--log-level", "warn"}, first.Flags...)
	if err := n.launch("QM", first.Role, "agent ", 1, append(args, n.cfg.Manager...)); err != nil {
		return err
	}
	if err := n.ready(ctx, n.procs...); err != nil {
		return err
	}
	if err := n.consent(ctx); err != nil {
		return err
	}
	for _, a := range n.cfg.Agents[1:] {
		name := "QM-" + a.Names[0]
		token, err := n.token(ctx, name)
		if err != nil {
			return err
		}
		defer os.Remove(token)
		listen, err := FreePort()
		if err != nil {
			return err
		}
		args := append([]string{"up", "--name", name, "--listen", listen, "--dir", n.state(name), "--channel", "QM=nats://" + channel, "--join", token,
			"--agent", a.Names[0] + "=" + a.Root, "--log-level", "warn"}, a.Flags...)
		if err := n.launch(name, a.Role, "agent ", 1, args); err != nil {
			return err
		}
	}
	return n.ready(ctx, n.procs...)
}

// token returns the path of a file with a token for a queue manager.
func (n *Network) token(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, n.env.Ferry, "token", "create", "--qm", name, "--network", n.URL)
	cmd.Env = n.environment()
	text, err := cmd.Output()
	if err != nil {
		return "", transfer.Errorf(transfer.KindInternal, "queue manager %s gets no token: %w", name, err)
	}
	file := filepath.Join(n.cfg.Dir, name+".token")
	return file, os.WriteFile(file, text, 0o600)
}

// bindingsCells returns the cells of the reports in bindings mode. The short form has the quickest one.
func bindingsCells(short bool) (all []cell) {
	for _, text := range []pages{binaryData, toUTF8} {
		for _, sum := range []string{"none", "md5"} {
			for _, ten := range []bool{false, true} {
				for _, size := range matrixSizes {
					if !short || text == binaryData && sum == "none" && !ten {
						all = append(all, cell{bindings: true, text: text, ten: ten, size: size, checksum: sum, lane: QueueLane, chunk: defaultChunk})
					}
				}
			}
		}
	}
	return all
}

// ofBindings returns the series of a cell in bindings mode.
func (m *matrix) ofBindings(text, ten, md5 bool, size int) Series {
	pages, sum := binaryData, "none"
	if text {
		pages = toUTF8
	}
	if md5 {
		sum = "md5"
	}
	for _, c := range m.cells {
		if c.bindings && c.text == pages && c.ten == ten && c.size == size && c.checksum == sum {
			return m.series[c.at]
		}
	}
	return Series{Lacks: "not run in the short form"}
}

// bindingsTables returns the tables beside the reports' columns of bindings mode.
func (m *matrix) bindingsTables() []Table {
	windows := Table{Title: "Bindings mode, two queue managers and a channel, beside Windows 9.0.5 (the quickest chunk of each)",
		Columns: []Column{{Name: "data"}, {Name: "checksum"}, {Name: "transfers"}, {Name: "file", Unit: "MB"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"}, {Name: "time over client mode", Digits: 2},
			{Name: "chunk there", Unit: "KiB"}, {Name: "published", Unit: "s", Digits: 2}, {Name: "rate there", Unit: "MB/s", Digits: 1}, {Name: "times as fast", Digits: 1}}}
	const moved = 1000 // MB in each row of the reports
	for _, b := range published.WindowsBest() {
		if b.Mode != published.Bindings {
			continue
		}
		ten := b.Transfers == published.Ten
		s := m.ofBindings(b.Text, ten, b.MD5, b.FileMB)
		pages := binaryData
		if b.Text {
			pages = toUTF8
		}
		row := []Cell{Text("%s", dataText(b.Text)), Text("%s", md5Text(b.MD5)), Text("%s", transfersText(ten)), One(float64(b.FileMB)), s.Cell(s.Wall()), Of(s.Rate()),
			overCell(s.Wall(), m.ofText(pages, ten, b.FileMB, map[bool]string{true: "md5", false: "none"}[b.MD5], QueueLane, defaultChunk).Wall()),
			One(float64(b.ChunkKiB)), One(b.Seconds), One(moved / b.Seconds)}
		faster := Cell{}
		if r := s.Rate().Median; r > 0 {
			faster = One(r / (moved / b.Seconds))
		}
		windows.Add(append(row, faster)...)
	}

	linux := Table{Title: "Bindings mode, text, beside Linux 7.0.1",
		Columns: []Column{{Name: "transfers"}, {Name: "file", Unit: "MB"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"}, {Name: "chunk there", Unit: "KiB"}, {Name: "published", Unit: "s", Digits: 2}, {Name: "rate there", Unit: "MB/s", Digits: 1}, {Name: "times as fast", Digits: 1}}}
	for _, c := range published.Find(published.Like{Source: published.Linux, Mode: published.Bindings}) {
		s := m.ofBindings(true, c.Transfers == published.Ten, false, c.FileMB)
		faster := Cell{}
		if r := s.Rate().Median; r > 0 {
			faster = One(r / c.Rate())
		}
		linux.Add(Text("%s", transfersText(c.Transfers == published.Ten)), One(float64(c.FileMB)), s.Cell(s.Wall()), Of(s.Rate()), One(float64(c.ChunkKiB)), One(c.Seconds), One(c.Rate()), faster)
	}
	return []Table{windows, linux}
}
