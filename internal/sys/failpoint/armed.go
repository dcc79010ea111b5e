//go:build failpoint

// Package failpoint names the places where a crash is worth testing; this is
// the build that acts on FERRY_FAILPOINT.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

type plan struct {
	action string
	after  int
}

var (
	mu    sync.Mutex
	plans = parse(os.Getenv("FERRY_FAILPOINT"))
)

func parse(s string) map[string]*plan {
	m := map[string]*plan{}
	for part := range strings.SplitSeq(s, ",") {
		name, action, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		p := &plan{action: action, after: 1}
		if a, n, ok := strings.Cut(action, "@"); ok {
			p.action = a
			p.after, _ = strconv.Atoi(n)
		}
		m[name] = p
	}
	return m
}

// Hit records that the named point has been reached, and follows the plan for it.
func Hit(name string) {
	mu.Lock()
	p := plans[name]
	if p == nil {
		mu.Unlock()
		return
	}

	p.after--
	if p.after != 0 {
		mu.Unlock()
		return
	}
	mu.Unlock()
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", name, p.action)
	switch p.action {
	case "panic":
		panic("failpoint " + name)
	case "kill":
		die()
	case "stop":
		stop()
	}
}
