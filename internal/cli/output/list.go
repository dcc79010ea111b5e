package output

import (
	"encoding/csv"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/transfer"
)

// A Row takes the next object of a list: the value that --json prints, and the cells of the table. A row with a nil
// value is in the table only.
type Row func(object any, cells ...string)

// AddForms adds the flags for the other forms of a table.
func AddForms(c *cobra.Command) {
	c.Flags().Bool("csv", false, "the table as comma-separated values")
	c.Flags().Bool("wide", false, "all columns in full, on a narrow terminal, too")
}

// chosen reports whether a form of AddForms is chosen.
func chosen(cmd *cobra.Command, form string) bool {
	f := cmd.Flags().Lookup(form)
	return f != nil && f.Value.String() == "true"
}

// AsCSV reports whether a list is to be comma-separated values.
func AsCSV(cmd *cobra.Command) bool { return chosen(cmd, "csv") }

// Full reports whether a list is to have the columns that only --csv and --wide show.
func Full(cmd *cobra.Command) bool { return AsCSV(cmd) || chosen(cmd, "wide") }

// None prints that a list has no line, without an object of that noun.
func None(cmd *cobra.Command, noun string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "ferry: there is no %s\n", Printable(noun))
}

// ListOf prints a list as List does. For a list without a line it prints that there is no object of that noun, except
// with --json.
func ListOf(cmd *cobra.Command, asJSON bool, noun string, headings []string, each func(row Row) error) error {
	listed := false
	err := List(cmd, asJSON, headings, func(row Row) error {
		return each(func(object any, cells ...string) {
			listed = true
			row(object, cells...)
		})
	})
	if err == nil && !listed && !asJSON {
		None(cmd, noun)
	}
	return err
}

// List prints a list: a table below the headings, with --csv its values, or with --json one object a line. each calls
// row for each object, in order. If each fails, List prints no table. Lines of JSON are printed at once. The caller
// tells the user that a list has no line; ListOf does so.
func List(cmd *cobra.Command, asJSON bool, headings []string, each func(row Row) error) error {
	if asJSON && AsCSV(cmd) {
		return transfer.Errorf(transfer.KindUsage, "--json and --csv exclude each other")
	}
	rows := [][]string{headings}
	err := each(func(object any, cells ...string) {
		switch {
		case !asJSON:
			rows = append(rows, cells)
		case object != nil:
			JSON(cmd, object)
		}
	})
	switch {
	case err != nil || asJSON:
		return err
	case AsCSV(cmd):
		return writeCSV(cmd, rows)
	}
	s := ScreenOf(cmd.OutOrStdout())
	if chosen(cmd, "wide") {
		s.Width = 0
	}
	s.Table(cmd.OutOrStdout(), rows)
	return nil
}

func writeCSV(cmd *cobra.Command, rows [][]string) error {
	w := csv.NewWriter(cmd.OutOrStdout())
	for _, r := range rows {
		for i := range r {
			r[i] = csvCell(r[i])
		}
		if err := w.Write(r); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// csvCell makes a text a value that no spreadsheet takes for a formula: an apostrophe stands before '=', '+', '-', '@'.
func csvCell(text string) string {
	text = Printable(text)
	if text != "-" && text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
