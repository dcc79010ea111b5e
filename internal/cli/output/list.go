package output

import "github.com/spf13/cobra"

// A Row takes the next object of a list: the value that --json prints, and the cells of the table. A row with a nil
// value is in the table only.
type Row func(object any, cells ...string)

// List prints a list: a table below the headings, or with --json one object a line. each calls row for each object, in
// order. If each fails, List prints no table. Lines of JSON are printed at once.
func List(cmd *cobra.Command, asJSON bool, headings []string, each func(row Row) error) error {
	rows := [][]string{headings}
	err := each(func(object any, cells ...string) {
		switch {
		case !asJSON:
			rows = append(rows, cells)
		case object != nil:
			JSON(cmd, object)
		}
	})
	if err == nil && !asJSON {
		Table(cmd.OutOrStdout(), rows)
	}
	return err
}
