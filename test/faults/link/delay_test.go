//go:build linux

package link_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/test/flow/network"
)

// delayed replaces the link of a process by one that delays each packet by half a round trip. The ends are TAP devices
// of the same names with a relay between them, because a kernel without netem has no other way.
func (w *wires) delayed(who string, trip time.Duration) {
	w.t.Helper()
	p := w.ports[who]
	run(w.t, "ip link del "+p.outside)
	outside, inside := tap(w.t, p.outside), tap(w.t, p.inside)
	w.t.Cleanup(func() { outside.Close(); inside.Close() })
	run(w.t, "ip link set "+p.inside+" netns "+p.name)
	w.join(p)
	go relay(outside, inside, trip/2)
	go relay(inside, outside, trip/2)
	start := time.Now()
	run(w.t, p.enter()+" bash -c", "exec 3<>/dev/tcp/"+w.ports[network.QM].addr+"/9 || true")
	if took := time.Since(start); took < trip {
		w.t.Fatalf("a connection is refused after %s; the round trip is to be %s", took, trip)
	}
}

// tap makes a TAP device, which exists until its file is closed.
func tap(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	q, err := unix.NewIfreq(name)
	must(t, err)
	q.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	must(t, unix.IoctlIfreq(fd, unix.TUNSETIFF, q))
	return os.NewFile(uintptr(fd), name)
}

// A packet is relayed at a time.
type packet struct {
	data []byte
	due  time.Time
}

// relay carries packets in one direction until a device is closed. A packet is lost if the other side of the device is
// down.
func relay(from, to *os.File, delay time.Duration) {
	way := make(chan packet, 1<<14)
	defer close(way)
	go func() {
		for p := range way {
			wait(time.Until(p.due))
			to.Write(p.data)
		}
	}()
	for {
		b := make([]byte, 2048)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		way <- packet{b[:n], time.Now().Add(delay)}
	}
}
