package bench

import (
	"cmp"
	"slices"
	"strings"

	"ferry/internal/spelling"
	"ferry/internal/transfer"
)

// Scenarios are all workloads, in the order in which they are listed and run.
func Scenarios() []Scenario {
	return []Scenario{
		latencyScenario(),
		matrixScenario(),
		agentsScenario(),
		tuningScenario(),
		costScenario(),
		channelScenario(),
		textScenario(),
		recordScenario(),
		peersScenario(),
		linkScenario(),
	}
}

// Find gives the scenarios of some names, in the order of the names; "all" is
// every one. An unknown name is an error of usage that says which ones come
// near.
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
			return nil, transfer.Errorf(transfer.KindUsage, "there is no scenario %q; the nearest names are %s", name, strings.Join(nearest(name, all), ", ")).
				WithHint("`ferry bench ls` lists them all")
		}
		found = append(found, all[i])
	}
	return found, nil
}

// nearest are up to three names of scenarios, those that take the fewest edits
// first.
func nearest(name string, all []Scenario) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(spelling.Distance(name, a), spelling.Distance(name, b)) })
	return names[:min(3, len(names))]
}
