package server

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func TestServerErrorsNameTheThing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg   Config
		kind  transfer.Kind
		words []string
	}{
		"port in use":      {Config{Listen: l.Addr().String()}, transfer.KindInUse, []string{l.Addr().String(), "address already in use", "--listen"}},
		"no port":          {Config{Listen: "127.0.0.1"}, transfer.KindUsage, []string{"HOST:PORT"}},
		"bad port":         {Config{Listen: "127.0.0.1:70000"}, transfer.KindUsage, []string{"70000"}},
		"directory a file": {Config{Dir: filepath.Join(file, "dir")}, transfer.KindUnwritable, []string{file, "--dir"}},
		"no directory":     {Config{Dir: "-"}, transfer.KindUsage, []string{"directory"}},
		"store too small":  {Config{MaxStore: 1 << 20}, transfer.KindUsage, []string{"1.0 MiB"}},
		"name":             {Config{Name: "Q M"}, transfer.KindUsage, []string{`"Q M"`}},
	} {
		t.Run(name, func(t *testing.T) {
			switch c.cfg.Dir {
			case "":
				c.cfg.Dir = t.TempDir()
			case "-":
				c.cfg.Dir = ""
			}
			s, err := Start(t.Context(), c.cfg)
			if err == nil {
				s.Shutdown()
			}
			qmgrtest.WantKind(t, err, c.kind, c.words...)
		})
	}
}

func TestTwoServersNeverShareADirectory(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir := t.TempDir()
	first := start(t, dir, "")
	_, err := Start(t.Context(), Config{Dir: dir})
	qmgrtest.WantKind(t, err, transfer.KindAlive, dir, "in use")
	first.Shutdown()
	start(t, dir, "").Shutdown()
}

func TestServerDescribesItself(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	data, err := c.Request(t.Context(), wire.AskSubject(wire.Manager, c.Self()), nil, qmgrtest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var a errands.About
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	if a.V != 1 || a.Name != "QM" || a.Sync != "always" || a.MaxPayload != 2<<20 || a.MaxPending != 64<<20 || a.Version == "" {
		t.Errorf("the answer is %s", data)
	}
	want := qmgr.Facts{ServerName: "QM", URL: s.URL(), MaxPayload: 2 << 20, MaxPending: 64 << 20}
	if got := c.Facts(); got != want {
		t.Errorf("facts are %+v; want %+v", got, want)
	}
}

func TestInProcessOnly(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "")
	if s.URL() != "" {
		t.Errorf("the URL is %q", s.URL())
	}
	c := connect(t, qmgr.ConnConfig{Server: s})
	want := qmgr.Facts{ServerName: "QM", MaxPayload: 2 << 20, MaxPending: 64 << 20, InProcess: true}
	if got := c.Facts(); got != want {
		t.Errorf("facts are %+v; want %+v", got, want)
	}
	if err := c.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStartServerWithEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Dir: t.TempDir()}); err == nil {
		t.Error("it started")
	}
}

// BenchmarkStartAndConnect measures the start of a box before any data moves.
func BenchmarkStartAndConnect(b *testing.B) {
	var starting, connecting, closing time.Duration
	for b.Loop() {
		t0 := time.Now()
		s, err := Start(b.Context(), Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		c, err := qmgr.Connect(b.Context(), qmgr.ConnConfig{Server: s})
		if err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		c.Close()
		s.Shutdown()
		starting, connecting, closing = starting+t1.Sub(t0), connecting+t2.Sub(t1), closing+time.Since(t2)
	}
	n := float64(b.N)
	b.ReportMetric(starting.Seconds()*1e3/n, "start-ms")
	b.ReportMetric(connecting.Seconds()*1e3/n, "connect-ms")
	b.ReportMetric(closing.Seconds()*1e3/n, "close-ms")
}
