package qmgrtest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/ports"
)

// Patience is the time within which an event must come.
const Patience = 3 * time.Minute

// Context returns a context that ends twice Patience after its call, and with the test.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	t.Cleanup(cancel)
	return ctx
}

// Log returns a log that goes to standard error if QMGR_LOG is set, and nowhere otherwise.
func Log(t testing.TB) *slog.Logger {
	if os.Getenv("QMGR_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Eventually polls until cond holds.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(Patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}

// Receive returns the next value of a channel.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Patience):
		t.Fatalf("not within %s: %s", Patience, what)
		panic("unreachable")
	}
}

// WantKind fails the test if an error is not of a kind, or lacks one of the words.
func WantKind(t testing.TB, err error, kind transfer.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one of kind %s", kind)
	}
	if got := transfer.KindOf(err); got != kind {
		t.Errorf("the error %q is of kind %s; want %s", err, got, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

// FreePort returns an address without a listener. No other test uses it before this one ends, and no outgoing
// connection has it.
func FreePort(t testing.TB) string {
	t.Helper()
	port, release, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// NoLeaks fails the test if goroutines of this package or of the library are
// left when everything that the test cleans up has ended. Call it first.
func NoLeaks(t testing.TB) {
	t.Cleanup(func() {
		var left string
		gone := func() bool {
			buf := make([]byte, 1<<20)
			left = ""
			for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				if strings.Contains(g, "StartRouting") {
					continue // see cluster.OpenRoutes
				}
				if strings.Contains(g, "nats-io/") || strings.Contains(g, "ferry/internal/qmgr") && !strings.Contains(g, "testing.tRunner") {
					left += g + "\n\n"
				}
			}
			return left == ""
		}
		defer func() {
			if left != "" {
				t.Logf("left are:\n%s", left)
			}
		}()
		Eventually(t, "all goroutines ended", gone)
	})
}

// Secret is a secret part of inboxes that tests know.
var Secret = strings.Repeat("A", wire.InboxSecret)

// Noise returns bytes that no compression makes smaller.
func Noise(n int) []byte {
	b, r := make([]byte, n), rand.New(rand.NewPCG(1, 2))
	for k := range b {
		b[k] = byte(r.Uint32())
	}
	return b
}
