package variable_test

import (
	"strings"
	"testing"

	"ferry/internal/automation/variable"
	"ferry/internal/transfer"
)

func values(name string, forms []string) (string, error) {
	switch strings.ToLower(name) {
	case "filename":
		return "pay ${job}.csv" + strings.Join(forms, "+"), nil
	case "empty":
		return "", nil
	}
	return "", transfer.Errorf(transfer.KindUsage, "there is no variable %s", name)
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		"in/a$b{c}":                              "in/a$b{c}",
		"in/${FileName}":                         "in/pay ${job}.csv",
		"${FILENAME}${empty}":                    "pay ${job}.csv",
		"$${FileName}":                           "${FileName}",
		"$$${empty}":                             "$${empty}",
		"${filename{toUpper}{a=}}":               "pay ${job}.csvtoUpper+a=",
		"${other}":                               "!",
		"${}":                                    "!",
		"${a":                                    "!",
		"${a{b}":                                 "!",
		"${a b}":                                 "!",
		"${filename{1}{2}{3}{4}{5}{6}{7}{8}{9}}": "!",
		strings.Repeat("x", 65<<10):              "!",
	} {
		got, err := variable.Expand(text, values)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%.40q becomes %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestInRequest(t *testing.T) {
	q := &transfer.Request{Dest: transfer.File("to/${empty}"), Job: "${FileName}", Meta: map[string]string{"a": "${empty}b"}, Items: transfer.ItemsOf("x${empty}y")}
	r, err := variable.InRequest(q, values)
	if err != nil || r.Dest != transfer.File("to/") || r.Job != "pay ${job}.csv" || r.Meta["a"] != "b" || r.Items[0].Source.Path != "xy" || q.Items[0].Source.Path != "x${empty}y" || q.Meta["a"] != "${empty}b" {
		t.Errorf("%+v, %v; before: %+v", r, err, q)
	}
	q.Items[0].Dest = transfer.File("${who}")
	if _, err := variable.InRequest(q, values); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("unknown variable: %v", err)
	}
}

// Expand fails only with an error, for any text. A text without variables stays as it is.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"a${FileName}b", "$${x}", "${filename{a}{b}}", "${", "$", "${{}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := variable.Expand(s, values)
		if err == nil && !strings.Contains(s, "${") && got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	})
}
