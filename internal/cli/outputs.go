package cli

import (
	"ferry/internal/client/view"
	"ferry/internal/node/config"
)

// outputs returns the lines of --json, by the names that the schema in docs has for them. Fields may be added, never
// renamed.
func outputs() map[string]any {
	all := view.Forms()
	all["setting"] = config.Effective{}
	return all
}
