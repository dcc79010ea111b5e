package cli

import (
	"maps"

	cliagent "ferry/internal/cli/agent"
	cliaudit "ferry/internal/cli/audit"
	clicall "ferry/internal/cli/call"
	clicontent "ferry/internal/cli/content"
	"ferry/internal/cli/follow"
	cliidentity "ferry/internal/cli/identity"
	clijob "ferry/internal/cli/job"
	climft "ferry/internal/cli/mft"
	climonitor "ferry/internal/cli/monitor"
	"ferry/internal/cli/qm"
	clischedule "ferry/internal/cli/schedule"
	clitemplate "ferry/internal/cli/template"
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
		clicall.Outputs(),
		clicontent.Outputs(),
		follow.Outputs(),
		cliidentity.Outputs(),
		clijob.Outputs(),
		climft.Outputs(),
		climonitor.Outputs(),
		qm.Outputs(),
		clischedule.Outputs(),
		clitemplate.Outputs(),
		clitransfer.Outputs(),
	} {
		maps.Copy(all, of)
	}
	return all
}
