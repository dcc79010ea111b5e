package process

import (
	"cmp"
	"fmt"

	"ferry/internal/agent"
	"ferry/internal/sys/descriptor"
	"ferry/internal/transfer"
)

// ShareFiles gives each agent of this process its share of the files that the process may have open. The queue manager,
// where there is one, gets the number of its clients. Below a minimum no service is started, because it would stand
// still.
func ShareFiles(agents []agent.Config, manager bool) (clients int, err error) {
	wanted := 1
	for n := range agents {
		wanted = max(wanted, wantedBy(&agents[n]))
	}

	limit := descriptor.Limit()
	share, clients, err := descriptor.Divide(limit, len(agents), manager, wanted)
	if err != nil {
		return 0, transfer.Errorf(transfer.KindUsage, "this process may have %d files open at once, and %s needs %d",
			limit, processName(len(agents), manager), descriptor.Least(len(agents), manager)).
			WithHint("raise the hard limit: ulimit -Hn in a shell, LimitNOFILE= in a unit of systemd")
	}

	if manager {
		clients += 2 * (len(agents) + 1) // those of this process take no descriptor, and are counted
	}

	for n := range agents {
		c := &agents[n]
		c.Files = share
		if most := wantedBy(c); share.Transfers < most {
			c.Log.Warn("the limit of open files allows fewer transfers at once than were asked for",
				"agent", c.Name, "limit", limit, "transfers", share.Transfers, "wanted", most)
		}
	}
	return clients, nil
}

// wantedBy returns the number of transfers that an agent is to run at once, in the direction with more of them.
func wantedBy(c *agent.Config) int {
	return max(cmp.Or(c.MaxSource, agent.DefaultTransfers), cmp.Or(c.MaxDestination, agent.DefaultTransfers))
}

func processName(agents int, manager bool) string {
	who := fmt.Sprintf("%d agents", agents)
	if agents == 1 {
		who = "an agent"
	}
	switch {
	case !manager:
		return who
	case agents == 0:
		return "a queue manager"
	}
	return "a queue manager with " + who
}
