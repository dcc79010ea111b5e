package output

import (
	"fmt"

	"github.com/spf13/cobra"

	"ferry/internal/client/view"
)

// JSON writes one object on a line of stdout.
func JSON(cmd *cobra.Command, v any) {
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n", view.Marshal(v))
}

// Result prints the result of a command: its form as JSON, or a text for people.
func Result(cmd *cobra.Command, asJSON bool, form any, format string, args ...any) {
	if asJSON {
		JSON(cmd, form)
		return
	}
	fmt.Fprintf(cmd.OutOrStdout(), format, args...)
}
