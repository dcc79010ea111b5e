package descriptor

import "testing"

// At any limit, the parts do not come to more than it, and each agent can do its work.
func TestDivide(t *testing.T) {
	for agents := 0; agents <= 5; agents++ {
		for _, manager := range []bool{false, true} {
			least := Least(agents, manager)
			if _, _, err := Divide(least-1, agents, manager, 25); err == nil {
				t.Errorf("%d agents, manager %v: %d is enough, one less than the least", agents, manager, least-1)
			}
			for limit := least; limit < 70_000; limit += 1 + limit/50 {
				s, clients, err := Divide(limit, agents, manager, 25)
				if err != nil {
					t.Fatalf("%d agents, manager %v, limit %d: %v", agents, manager, limit, err)
				}
				sum := ofProcess + clients
				if manager {
					sum += ofManager
				}
				sum += agents * (ofAgent + s.Unauthenticated + s.Transfers*perBoth + s.Places*ofPlace + s.Optional)
				if sum > limit {
					t.Errorf("%d agents, manager %v, limit %d: %+v and %d clients come to %d", agents, manager, limit, s, clients, sum)
				}
				if manager != (clients >= leastClients) {
					t.Errorf("%d agents, manager %v, limit %d: %d clients", agents, manager, limit, clients)
				}
				// A file that is being written takes one of Places; one more must be left for a complete file.
				if agents > 0 && (s.Transfers < 1 || s.Places < s.Transfers+2 || s.Optional < 0 || s.Unauthenticated < leastUnauthenticated) {
					t.Errorf("%d agents, manager %v, limit %d: %+v", agents, manager, limit, s)
				}
			}
		}
	}
}

// These are the figures of the documents.
func TestDivideKnown(t *testing.T) {
	for _, c := range []struct {
		limit, agents int
		manager       bool
		want          Share
		clients       int
	}{
		{128, 1, false, Share{Transfers: 3, Places: 17, Optional: 18, Unauthenticated: 13}, 0},
		{256, 1, false, Share{Transfers: 7, Places: 37, Optional: 38, Unauthenticated: 29}, 0},
		{1024, 1, false, Share{Transfers: 25, Places: 183, Optional: 184, Unauthenticated: 125}, 0},
		{4096, 1, false, Share{Transfers: 25, Places: 1024, Optional: 1443, Unauthenticated: 256}, 0},
		{1024, 2, true, Share{Transfers: 12, Places: 53, Optional: 53, Unauthenticated: 44}, 245},
	} {
		if got, clients, err := Divide(c.limit, c.agents, c.manager, 25); err != nil || got != c.want || clients != c.clients {
			t.Errorf("limit %d, %d agents, manager %v: %+v, %d clients, %v", c.limit, c.agents, c.manager, got, clients, err)
		}
	}
	if l := Limit(); l < 1 {
		t.Errorf("the limit here is %d", l)
	}
}
