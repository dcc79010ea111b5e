package content

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/client/view"
	"ferry/internal/content/codepage"
)

// NewCodepages makes the command `ferry codepages`.
func NewCodepages() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "codepages [NAME...]", Short: "List the code pages that text can be converted from and to",
		Long: `Lists the code pages that --from-encoding and --to-encoding know, or the ones
that the NAMEs mean. A name is IBM's (IBM-1047), Java's (Cp1047), IANA's
(ISO_8859-1) or a plain number (1047), in large or small letters.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := codepage.List()
			if len(args) > 0 {
				pages = nil
			}
			for _, name := range args {
				p, err := codepage.Lookup(name)
				if err != nil {
					return err
				}
				pages = append(pages, p)
			}
			return output.List(cmd, asJSON, []string{"NAME", "BYTES", "NEWLINE", "FOR", "ALIASES"}, func(row output.Row) error {
				for _, p := range pages {
					r := view.CodePageOf(p)
					row(r, r.Name, widthOf(r), r.Newline, r.About, strings.Join(r.Aliases, " "))
				}
				return nil
			})
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	output.AddForms(c)
	return c
}

// widthOf describes the bytes of a character.
func widthOf(r *view.CodePageRow) string {
	switch {
	case r.MinBytes == r.MaxBytes:
		return fmt.Sprint(r.MinBytes)
	case r.Shifts:
		return fmt.Sprintf("%d/%d", r.MinBytes, r.MaxBytes)
	}
	return fmt.Sprintf("%d-%d", r.MinBytes, r.MaxBytes)
}
