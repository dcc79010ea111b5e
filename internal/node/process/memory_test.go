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

// The slack is added to the memory limit of the agents. There is none where the environment says when to collect.
func TestSlackIsBesideTheLimit(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	defer slack.Store(nil)
	for name, c := range map[string]struct {
		limit, want int64
		env         string
	}{
		"with a limit":      {100 << 20, 132 << 20, ""},
		"without one":       {math.MaxInt64, math.MaxInt64, ""},
		"said by who knows": {100 << 20, 100 << 20, "200"},
	} {
		debug.SetMemoryLimit(c.limit)
		slack.Store(nil)
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv("GOGC", c.env)
		SetSlack(SlackOfOthers)
		if got := debug.SetMemoryLimit(-1); got != c.want || (slack.Load() == nil) != (c.env != "") {
			t.Errorf("%s: the limit is %d, not %d, and the slack %v", name, got, c.want, slack.Load() != nil)
		}
	}
}

// A process that has collected once collects as often as usual from then on.
func TestTheFirstCollectionIsLater(t *testing.T) {
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	DelayCollection()
	if percent() != firstPercent {
		t.Errorf("the percentage is %d, not %d, before the first collection", percent(), firstPercent)
	}
	for runtime.GC(); percent() != 100; { // a goroutine of the runtime's calls the cleanup
		runtime.Gosched()
	}
}
