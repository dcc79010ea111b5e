package main

import (
	"math"
	"runtime/debug"
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
		limitMemory(c.agents, c.manager)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%s: the limit is %d, not %d", name, got, c.want)
		}
	}
}
