package output

import (
	"bytes"
	"errors"
	"testing"

	"github.com/spf13/cobra"
)

func TestList(t *testing.T) {
	failed := errors.New("no answer")
	for _, c := range []struct {
		name   string
		asJSON bool
		err    error
		want   string
	}{
		{"table", false, nil, "NAME  SIZE\na     1\n      2\n"},
		{"JSON", true, nil, "{\"name\":\"a\"}\n"},
		{"failed table", false, failed, ""},
		{"failed JSON", true, failed, "{\"name\":\"a\"}\n"},
	} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		err := List(cmd, c.asJSON, []string{"NAME", "SIZE"}, func(row Row) error {
			row(map[string]string{"name": "a"}, "a", "1")
			row(nil, "", "2")
			return c.err
		})
		if err != c.err || out.String() != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, out.String(), err, c.want)
		}
	}
}
