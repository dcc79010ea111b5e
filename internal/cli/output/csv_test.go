package output

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// No value of --csv is a formula, and values with commas are one value.
func TestCSV(t *testing.T) {
	cmd := &cobra.Command{}
	AddForms(cmd)
	var out bytes.Buffer
	cmd.SetOut(&out)
	if err := cmd.Flags().Set("csv", "true"); err != nil {
		t.Fatal(err)
	}
	err := List(cmd, false, []string{"FILE", "SIZE"}, func(row Row) error {
		row(nil, "=cmd|' /C calc'!A0", "-")
		row(nil, "@x", "-1")
		row(nil, "a,b", "+2")
		return nil
	})
	if want := "FILE,SIZE\n'=cmd|' /C calc'!A0,-\n'@x,'-1\n\"a,b\",'+2\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", out.String(), err, want)
	}
	if err := List(cmd, true, []string{"FILE"}, nil); err == nil {
		t.Error("--json and --csv are taken together")
	}
}

// Wide characters take two columns, combining ones none.
func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "größe": 5, "大きさ": 6, "e\u0301": 1, "ＡＢ": 4} {
		if got := Columns(text); got != want {
			t.Errorf("%q: %d columns, want %d", text, got, want)
		}
	}
	if got := Cut("大きさ", 5); got != "大き" {
		t.Errorf("cut to %q", got)
	}
}
