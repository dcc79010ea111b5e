package bench

import (
	"slices"
	"strings"

	"ferry/internal/sys/spelling"
	"ferry/internal/transfer"
)

// Scenarios returns all scenarios, in the order of lists and runs.
func Scenarios() []Scenario {
	return []Scenario{
		latencyScenario(),
		matrixScenario(),
		agentsScenario(),
		resumeScenario(),
		tuningScenario(),
		costScenario(),
		channelScenario(),
		textScenario(),
		recordScenario(),
		peersScenario(),
		linkScenario(),
		shapesScenario(),
		beforeScenario(),
	}
}

// Find returns the scenarios with some names, in the order of the names. "all" stands for every one. For an unknown
// name it returns an error of usage that lists similar ones.
func Find(names []string) ([]Scenario, error) {
	all := Scenarios()
	var found []Scenario
	for _, name := range names {
		if name == "all" {
			found = append(found, all...)
			continue
		}
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			hint := "`ferry-bench ls` lists them"
			if near := nearest(name, all); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "? `ferry-bench ls` lists them all"
			}
			return nil, transfer.Errorf(transfer.KindUsage, "there is no scenario %q", name).WithHint(hint)
		}
		found = append(found, all[i])
	}
	return found, nil
}

// nearest returns the names of scenarios that are similar to a name.
func nearest(name string, all []Scenario) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return spelling.Nearest(name, 2, names)
}
