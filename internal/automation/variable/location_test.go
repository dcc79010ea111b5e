package variable_test

import (
	"strings"
	"testing"

	"ferry/internal/automation/variable"
	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// is returns one value for all variables.
func is(value string) variable.Values {
	return func(string, []string) (string, error) { return value, nil }
}

// leads reports whether a name has a component that leads to another directory where '\' separates.
func leads(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// A value is exactly these bytes in a path.
func TestValuesAreLiteral(t *testing.T) {
	for _, name := range transfertest.Hostile() {
		for _, c := range []struct {
			of   transfer.Location
			want transfer.Location
		}{
			{transfer.File("in/${x}"), transfer.File(transfer.Path("in/" + name))},
			{transfer.File("${x}"), transfer.File(transfer.Path(name))},
			{transfer.File("in/${x}/"), transfer.File(transfer.Path("in/" + name + "/"))},
			{transfer.Match("in/${x}/*"), transfer.Match(transfer.Path("in/" + transfer.Literally(name) + "/*"))},
		} {
			got, err := variable.InLocation(c.of, is(name))
			if leads(name) {
				if transfer.KindOf(err) != transfer.KindUsage {
					t.Errorf("%s with %q: %v", c.of, name, err)
				}
			} else if err != nil || got != c.want {
				t.Errorf("%s with %q is %+v, %v", c.of, name, got, err)
			}
		}
		queue := transfer.Location{Place: transfer.Queues, Path: "queue:${x}"}
		if got, err := variable.InLocation(queue, is(name)); err == nil && (got.Place != transfer.Queues || string(got.Path) != "queue:"+name || strings.ContainsAny(name, "?&=* ")) {
			t.Errorf("the queue with %q is %+v", name, got)
		}
		options := transfer.Location{Place: transfer.Queues, Path: "queue:Q?split-delimiter=${x}&keep=before"}
		if got, err := variable.InLocation(options, is(name)); err != nil || strings.ContainsAny(strings.TrimSuffix(strings.TrimPrefix(string(got.Path), "queue:Q?split-delimiter="), "&keep=before"), "&=?#; ") {
			t.Errorf("the options with %q are %+v, %v", name, got, err)
		}
		dataset := transfer.Location{Place: transfer.Datasets, Path: "HLQ.${x}"}
		if got, err := variable.InLocation(dataset, is(name)); err != nil || got.Place != transfer.Datasets || string(got.Path) != "HLQ."+name {
			t.Errorf("the data set with %q is %+v, %v", name, got, err)
		}
	}
}

func TestValuesThatLeadElsewhere(t *testing.T) {
	for _, c := range []struct{ path, value string }{
		{"in/${x}", ".."}, {"in/${x}/y", ".."}, {"in/.${x}", "."}, {"in/${x}.", "."}, {"in/${x}", "../y"}, {"in/${x}", "a/../../y"}, {"in/${x}", `..\y`}, {"in/${x}/y", "."},
		{"${x}/y", ""}, {"in/${x}", "a\x00b"},
	} {
		if got, err := variable.InLocation(transfer.File(transfer.Path(c.path)), is(c.value)); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s with %q is %s, %v", c.path, c.value, got, err)
		}
	}
	for path, want := range map[transfer.Path]transfer.Path{"../${x}": "../a", "./${x}": "./a", "/in/${x}": "/in/a", "in/${x}..": "in/a.."} {
		if got, err := variable.InLocation(transfer.File(path), is("a")); err != nil || got.Path != want {
			t.Errorf("%s is %s, %v", path, got, err)
		}
	}
	for _, l := range []transfer.Location{{Place: transfer.Queues, Path: "queue:${x}"}, {Place: transfer.Datasets, Path: "A.${x}"}} {
		if got, err := variable.InLocation(l, is("B/C")); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s, %v", got, err)
		}
	}
}
