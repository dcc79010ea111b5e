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
