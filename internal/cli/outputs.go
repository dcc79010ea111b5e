package cli

import (
	"maps"

	cliagent "ferry/internal/cli/agent"
	cliaudit "ferry/internal/cli/audit"
	clicontent "ferry/internal/cli/content"
	"ferry/internal/cli/follow"
	cliidentity "ferry/internal/cli/identity"
	"ferry/internal/cli/qm"
	clitransfer "ferry/internal/cli/transfer"
	"ferry/internal/node/config"
)

// outputs returns the lines of --json, by the names that the schema in docs has for them. Fields may be added, never
// renamed.
func outputs() map[string]any {
	all := map[string]any{"setting": config.Effective{}}
	for _, of := range []map[string]any{
		cliagent.Outputs(),
		cliaudit.Outputs(),
		outputsOfCall(),
		clicontent.Outputs(),
		follow.Outputs(),
		cliidentity.Outputs(),
		outputsOfJob(),
		outputsOfMft(),
		outputsOfMonitor(),
		qm.Outputs(),
		outputsOfSchedule(),
		outputsOfTemplate(),
		clitransfer.Outputs(),
	} {
		maps.Copy(all, of)
	}
	return all
}
