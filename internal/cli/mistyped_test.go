package cli

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/client/view"
	"ferry/internal/content/codepage"
	"ferry/internal/transfer"
)

// mistype makes one typing error in a word: two letters in the wrong order, one left out, one twice, or another one.
func mistype(r *rand.Rand, word string) string {
	b := []byte(word)
	for {
		i := r.IntN(len(b))
		var wrong string
		switch r.IntN(4) {
		case 0:
			if i+1 == len(b) {
				continue
			}
			c := bytes.Clone(b)
			c[i], c[i+1] = c[i+1], c[i]
			wrong = string(c)
		case 1:
			wrong = word[:i] + word[i+1:]
		case 2:
			wrong = word[:i+1] + word[i:]
		default:
			wrong = word[:i] + string(rune('a'+r.IntN(26))) + word[i+1:]
		}
		if wrong != word && wrong != "" && wrong[0] != '-' {
			return wrong
		}
	}
}

// A slip is a command line with a mistyped word, and the word that the answer must name.
type slip struct {
	args  []string
	meant string
}

func slips(r *rand.Rand) (all []slip) {
	var commands, flags []slip
	taken := map[string]bool{}
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Name) >= 4 {
				flags = append(flags, slip{append(path[:len(path):len(path)], f.Name), "--" + f.Name})
			}
		})
		for _, sub := range c.Commands() {
			taken[sub.CommandPath()] = true
			own := append(path[:len(path):len(path)], sub.Name())
			if len(sub.Name()) > 3 && sub.IsAvailableCommand() && c.Name() != "completion" {
				commands = append(commands, slip{own, "`" + sub.CommandPath() + "`"})
			}
			walk(sub, own)
		}
	}
	walk(newRoot(), nil)
	add := func(from []slip, n int, prefix string) {
		for range n {
			s := from[r.IntN(len(from))]
			last := len(s.args) - 1
			wrong := mistype(r, s.args[last])
			path := strings.Join(append([]string{"ferry"}, append(s.args[:last:last], wrong)...), " ")
			if !taken[path] {
				all = append(all, slip{append(s.args[:last:last], prefix+wrong), s.meant})
			}
		}
	}
	add(commands, 80, "")
	add(flags, 80, "--")
	for range 40 {
		p := codepage.List()[r.IntN(len(codepage.List()))]
		name := view.CodePageOf(p).Name
		all = append(all, slip{[]string{"send", "--mode", "text", "--to-encoding", name + "x", "a", "b"}, name})
	}
	return all
}

// A mistyped command line ends with 64, names the word that may have been meant, and sends nothing.
func TestMistyped(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	if err := os.WriteFile("a", []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(14, 1))
	tried, near := 0, 0
	for _, s := range slips(r) {
		var out, errs bytes.Buffer
		code := run(s.args, &out, &errs)
		if code == 0 && out.Len() > 0 && strings.Contains(strings.Join(s.args, " "), "-h") {
			continue // it became the flag for help
		}
		tried++
		if code != transfer.CodeUsage || !strings.Contains(errs.String(), "; ") {
			t.Errorf("%q ends with %d: %s", s.args, code, errs.String())
		}
		if strings.Contains(errs.String(), s.meant) {
			near++
		} else {
			t.Logf("%q: %s", s.args, errs.String())
		}
	}
	if tried < 190 || near < tried*19/20 {
		t.Errorf("of %d, %d name the word that was meant", tried, near)
	}
	if names, err := filepath.Glob("*"); err != nil || len(names) != 1 {
		t.Errorf("there is something by now: %v, %v", names, err)
	}
}

// Where no word is similar, no guess is made.
func TestNothingNear(t *testing.T) {
	for _, args := range [][]string{{"frobnicate"}, {"transfer", "xyz"}, {"send", "--frobnicate", "a", "b"},
		{"send", "--mode", "text", "--to-encoding", "frobnicate", "a", "b"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != transfer.CodeUsage || strings.Contains(errs.String(), "did you mean") || strings.Contains(errs.String(), "nearest") {
			t.Errorf("%q: %d, %s", args, code, errs.String())
		}
	}
}
