package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// Iperf is the kind of an iperf3 server, which measures the rate of a path.
const Iperf Kind = "iperf3"

// A Throughput is the number of bytes received, and the time.
type Throughput struct {
	Bytes int64
	Time  time.Duration
}

// prepareIperf needs no file.
func (s *Server) prepareIperf() ([]string, error) {
	return []string{"-s", "-B", s.place.Address, "-p", fmt.Sprint(s.port)}, nil
}

// MeasurePath sends size bytes with iperf3 to its server over one connection.
func MeasurePath(ctx context.Context, server *Server, size int64) (Throughput, error) {
	program, err := Find("iperf3")
	if err != nil {
		return Throughput{}, err
	}

	argv := append(append([]string{}, server.place.ClientWrap...), program, "-c", server.place.Address, "-p", fmt.Sprint(server.port), "-n", fmt.Sprint(size), "-J")
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = environment(server.dir)
	ownGroup(c)
	c.Cancel = func() error { killGroup(c); return nil }
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(errs.String() + out.String())
		return Throughput{}, transfer.Errorf(transfer.KindInternal, "iperf3 failed: %w: %s", err, text[max(0, len(text)-500):])
	}
	return parseIperf(out.Bytes())
}

// maxIperf bounds the output of iperf3 in bytes.
const maxIperf = 16 << 20

// parseIperf reads the output of iperf3 -J: the receiver's sum.
func parseIperf(data []byte) (Throughput, error) {
	if len(data) > maxIperf {
		return Throughput{}, transfer.Errorf(transfer.KindTooLarge, "iperf3 printed %d bytes; the limit is %d", len(data), maxIperf)
	}

	var said struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bytes   int64   `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return Throughput{}, transfer.Errorf(transfer.KindInternal, "iperf3 printed no JSON: %w", err)
	}

	r := said.End.Received
	switch {
	case said.Error != "":
		return Throughput{}, transfer.Errorf(transfer.KindInternal, "iperf3: %.200s", said.Error)
	case r.Bytes <= 0 || !(r.Seconds > 0) || r.Seconds > 1e6:
		return Throughput{}, transfer.Errorf(transfer.KindInternal, "iperf3 says that %d bytes arrived in %v s", r.Bytes, r.Seconds)
	}
	return Throughput{Bytes: r.Bytes, Time: time.Duration(r.Seconds * float64(time.Second))}, nil
}
