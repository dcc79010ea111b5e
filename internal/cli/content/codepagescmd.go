package content

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/content/codepage"
)

// codePageRow is a code page as `ferry codepages --json` writes it.
type codePageRow struct {
	Name     string   `json:"name"`
	Aliases  []string `json:"aliases"`
	About    string   `json:"about"`
	EBCDIC   bool     `json:"ebcdic"`
	MinBytes int      `json:"min_bytes"` // of a character
	MaxBytes int      `json:"max_bytes"`
	Shifts   bool     `json:"shifts"`  // shift-out and shift-in around characters of two bytes
	Newline  string   `json:"newline"` // bytes in hexadecimal
	Blank    string   `json:"blank"`
}

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
					r := CodePageOf(p)
					row(r, r.Name, r.width(), r.Newline, r.About, strings.Join(r.Aliases, " "))
				}
				return nil
			})
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return c
}

// CodePageOf returns the row of a code page.
func CodePageOf(p *codepage.Page) *codePageRow {
	r := &codePageRow{Name: p.Name(), Aliases: p.Aliases(), About: p.About(), EBCDIC: p.EBCDIC(), Shifts: p.Shifts(),
		Newline: strings.ToUpper(hex.EncodeToString(p.Newline())), Blank: strings.ToUpper(hex.EncodeToString(p.Blank()))}
	r.MinBytes, r.MaxBytes = p.Width()
	return r
}

// width describes the bytes of a character.
func (r *codePageRow) width() string {
	switch {
	case r.MinBytes == r.MaxBytes:
		return fmt.Sprint(r.MinBytes)
	case r.Shifts:
		return fmt.Sprintf("%d/%d", r.MinBytes, r.MaxBytes)
	}
	return fmt.Sprintf("%d-%d", r.MinBytes, r.MaxBytes)
}

// Outputs returns the lines of --json in this package, by the names that the schema has for them.
func Outputs() map[string]any {
	return map[string]any{"code_page": codePageRow{}, "data_set": datasetEntry{}}
}
