package cli

import (
	"maps"

	"ferry/internal/cli/follow"
	"ferry/internal/node/config"
)

// outputs returns the lines of --json, by the names that the schema in docs has for them. Fields may be added, never
// renamed.
func outputs() map[string]any {
	all := map[string]any{"setting": config.Effective{}}
	for _, of := range []map[string]any{
		outputsOfAgent(),
		outputsOfAudit(),
		outputsOfCall(),
		outputsOfContent(),
		follow.Outputs(),
		outputsOfIdentity(),
		outputsOfJob(),
		outputsOfMft(),
		outputsOfMonitor(),
		outputsOfQm(),
		outputsOfSchedule(),
		outputsOfTemplate(),
		outputsOfTransfer(),
	} {
		maps.Copy(all, of)
	}
	return all
}
