package variable_test

import (
	"slices"
	"strings"
	"testing"

	"ferry/internal/automation/variable"
	"ferry/internal/transfer"
)

func programs(at transfer.CallPoint, args ...string) *transfer.Programs {
	p := &transfer.Programs{}
	p.Set(at, &transfer.Program{Name: "load", Args: args})
	return p
}

func TestArguments(t *testing.T) {
	values := map[string]string{variable.TransferID: "1", variable.State: "partial", variable.Destination: "/in/$(id) \"x\"\ny", variable.JobName: "${State}"}
	meta := map[string]string{"a.b": "${TransferId}"}
	for _, c := range []struct {
		at        transfer.CallPoint
		arg, want string
	}{
		{transfer.PreSource, "a ${transferid} b", "a 1 b"},
		{transfer.PreSource, "$HOME $(id) `id` *", "$HOME $(id) `id` *"},
		{transfer.PreSource, "$${TransferId}", "${TransferId}"},
		{transfer.PreSource, "${Dollar}${TransferId}", "$1"},
		{transfer.PreSource, "${Meta{a.b}}", "${TransferId}"},
		{transfer.PostSource, "${JobName}/${State}", "${State}/partial"},
		{transfer.PostDest, "${Destination}", "/in/$(id) \"x\"\ny"},
		{transfer.PreSource, "${State}", "!there is no variable State for the pre-source program; it has TransferId,"},
		{transfer.PostSource, "${Destination}", "!there is no variable Destination"},
		{transfer.PreDest, "${HOME}", "!there is no variable HOME"},
		{transfer.PreDest, "${Meta{none}}", "!the transfer has no such metadata"},
		{transfer.PreDest, "${Meta}", "!${Meta} is malformed"},
		{transfer.PreDest, "${TransferId{toUpper}}", "!${TransferId} is malformed"},
		{transfer.PreDest, "${TransferId", "!has no }"},
	} {
		got, err := variable.Arguments(programs(c.at, "x", c.arg).At(c.at), c.at, values, meta)
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %q: %q, %v", c.at, c.arg, got, err)
			}
			err = variable.CheckPrograms(&transfer.Request{Programs: programs(c.at, c.arg), Meta: meta})
			if err == nil {
				t.Errorf("%s %q is taken in a request", c.at, c.arg)
			}
			continue
		}
		if err != nil || !slices.Equal(got, []string{"x", c.want}) {
			t.Errorf("%s %q: %q, %v", c.at, c.arg, got, err)
		}
	}
	long := map[string]string{variable.JobName: strings.Repeat("j", 1000)}
	if _, err := variable.Arguments(programs(transfer.PreSource, strings.Repeat("${JobName}", 9)).PreSource, transfer.PreSource, long, nil); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("arguments that become too long: %v", err)
	}
	if _, err := variable.Arguments(programs(transfer.PreSource, "${JobName}").PreSource, transfer.PreSource, map[string]string{variable.JobName: "a\x00b"}, nil); err == nil {
		t.Error("an argument with a NUL is taken")
	}
}

// FuzzInPrograms puts a value into an argument that has variables of a transfer, too. The final text is the same as if
// all of them had been put in at once. No value is taken for a variable, with any text around it.
func FuzzInPrograms(f *testing.F) {
	f.Add("${V}${State}", "a$")
	f.Add("${V}{State}", "$")
	f.Add("$${V}${Dollar}${v}", "$${State}")
	f.Add("x${V}${V}$${State}${state}", "${")
	f.Add("${V{a}}${Meta{k}}", "}\n\"$(id)\"")
	f.Fuzz(func(t *testing.T, text, value string) {
		own := func(name string, _ []string) (string, error) {
			if strings.EqualFold(name, "v") {
				return value, nil
			}
			return "", transfer.Errorf(transfer.KindUsage, "there is no variable %s", name)
		}
		of := func(name string, _ []string) (string, error) {
			switch {
			case strings.EqualFold(name, variable.Dollar):
				return "$", nil
			case variable.OfTransfer(name):
				return "<" + strings.ToLower(name) + "${V}>", nil
			}
			return "", transfer.Errorf(transfer.KindUsage, "there is no variable %s", name)
		}
		want, wantErr := variable.Expand(text, func(name string, forms []string) (string, error) {
			if v, err := own(name, forms); err == nil {
				return v, nil
			}
			return of(name, forms)
		})
		between, err := variable.InPrograms(programs(transfer.PostDest, text), own)
		got := ""
		if err == nil {
			got, err = variable.Expand(between.PostDest.Args[0], of)
		}
		if (err == nil) != (wantErr == nil) && transfer.KindOf(err) != transfer.KindTooLarge && transfer.KindOf(wantErr) != transfer.KindTooLarge || err == nil && wantErr == nil && got != want {
			t.Errorf("%q with %q becomes %q, and in two steps %q, %v", text, value, want, got, err)
		}
	})
}
