//go:build linux

package network

import (
	"encoding/json"
	"strconv"
)

// An OfJob is the output of ferry job show about a job, which is one source for several destinations.
type OfJob struct {
	ID    string
	State string
	Code  int `json:"result_code"`
}

// EndOfJob waits until the only job of an agent has ended, and returns it.
func (n *Network) EndOfJob(agent string) (job OfJob) {
	n.t.Helper()
	n.Until("the job of "+agent+" has ended", func() bool {
		var listed OfJob
		got := n.Ferry("job", "ls", "--json", "--agent", agent)
		if got.Code != 0 || json.Unmarshal([]byte(got.Stdout), &listed) != nil {
			return false
		}
		got = n.Ferry("job", "show", "--json", "--agent", agent, listed.ID)
		return got.Code == 0 && json.Unmarshal([]byte(got.Stdout), &job) == nil && job.State != "running"
	})
	return job
}

// Destinations checks the results of a job at an agent: each of its directories 0, 1 and so on has the given number of
// files, and one transfer was made for it.
func (n *Network) Destinations(agent string, count, files int) {
	n.t.Helper()
	var made int
	n.Until("the transfers of the job are known", func() bool {
		made = len(n.Transfers())
		return made >= count
	})
	if made != count {
		n.t.Errorf("%d transfers to %d destinations", made, count)
	}
	for k := range count {
		if got := n.Count(agent, strconv.Itoa(k)); got != files {
			n.t.Errorf("%d of %d files are at destination %d", got, files, k)
		}
	}
}
