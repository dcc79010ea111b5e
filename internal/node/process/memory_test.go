package process

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"ferry/internal/agent"
)

func TestMemoryIsLimitedByWhatTheAgentsMayHave(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	two := []agent.Config{{Memory: 64 << 20}, {Memory: 16 << 20}}
	for name, c := range map[string]struct {
		agents  []agent.Config
		manager bool
		env     string
		want    int64
	}{
		"no agents":         {nil, true, "", math.MaxInt64},
		"two agents":        {two, false, "", 128 << 20},
		"with a manager":    {two, true, "", 176 << 20},
		"said by who knows": {two, true, "1GiB", math.MaxInt64},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv("GOMEMLIMIT", c.env)
		LimitMemory(c.agents, c.manager)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%s: the limit is %d, not %d", name, got, c.want)
		}
	}
}

// The slack delays the next collections, and takes no memory. There is none where the environment says when to collect.
func TestTheSlackTakesNoMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usualPercent))
	defer slack.Store(0)
	for _, c := range []struct {
		name, env string
		n         int64
	}{
		{"said by who knows", "200", 0},
		{"as asked for", "", SlackOfManager},
	} {
		slack.Store(0)
		runtime.GC()
		debug.SetGCPercent(usualPercent)
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv("GOGC", c.env)
		before := figure("/memory/classes/heap/objects:bytes")
		SetSlack(SlackOfManager)
		if took := int64(figure("/memory/classes/heap/objects:bytes") - before); took > 1<<20 {
			t.Fatalf("%s: the slack takes %d bytes", c.name, took)
		}
		delays := func() bool {
			goal := int64(figure("/gc/heap/goal:bytes"))
			return c.n <= goal && goal < c.n+32<<20
		}
		if !delays() {
			t.Fatalf("%s: the next collection begins at %d bytes", c.name, figure("/gc/heap/goal:bytes"))
		}
		for range 2 { // collections
			for runtime.GC(); !delays(); {
				runtime.Gosched()
			}
		}
		if slack.Load() != c.n {
			t.Errorf("%s: the slack is %d bytes", c.name, slack.Load())
		}
	}
	kept := make([]byte, 8<<20) // more memory in use is a lower percentage
	for runtime.GC(); figure("/gc/gogc:percent") >= 1000; {
		runtime.Gosched()
	}
	runtime.KeepAlive(kept)
}

func figure(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A process that has collected once collects as often as usual from then on.
func TestTheFirstCollectionIsLater(t *testing.T) {
	percent := func() uint64 { return figure("/gc/gogc:percent") }
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	for range 3 { // a slack of another test may set it once more
		if DelayCollection(); percent() == firstPercent {
			break
		}
	}
	if percent() != firstPercent {
		t.Errorf("the percentage is %d, not %d, before the first collection", percent(), firstPercent)
	}
	for runtime.GC(); percent() != 100; { // a goroutine of the runtime's calls the cleanup
		runtime.Gosched()
	}
}
