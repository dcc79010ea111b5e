package local

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// TestLinks walks directories, wildcards and literals with links in them, for each option about links, and opens the
// files.
func TestLinks(t *testing.T) {
	dir, outside := realTemp(t), realTemp(t)
	tree(t, dir, "in/a", "in/d/b", "secret/s", "state-of-ferry/ledger")
	tree(t, outside, "x")
	for link, to := range map[string]string{"l": "a", "absolute": dir + "/in/a", "up": "../secret/s", "dir": "d", "none": "nowhere", "out": outside + "/x", "state": "../state-of-ferry/ledger", "second": "l"} {
		must(t, os.Symlink(to, dir+"/in/"+link))
	}
	f := openFS(t, nil, dir)
	may := func(_ transfer.Authority, path string) error {
		if strings.Contains(path, "/secret") {
			return transfer.Errorf(transfer.KindDenied, "not for you")
		}
		return nil
	}
	const (
		skipped  = "a b"
		followed = "a absolute b !dir l !none !out second !state !up"
		failed   = "!absolute a b !dir !l !none !out !second !state !up"
	)
	for _, c := range []struct {
		word, source, want string
		links              int64
	}{
		{"", "in", skipped, 8}, {transfer.LinksSkip, "in/**", skipped, 8}, {transfer.LinksSkip, "in/s*", "!in/s*", 0},
		{transfer.LinksFollow, "in", followed, 0}, {transfer.LinksFollow, "in/**", followed, 0}, {transfer.LinksFollow, "in/l", "l", 0},
		{transfer.LinksError, "in", failed, 0}, {transfer.LinksError, "in/**", failed, 0}, {transfer.LinksError, "in/l", "!l", 0}, {"", "in/l", "!l", 0}, // a failed item, and not skipped, too
	} {
		from := place.WithLinks(f.Place().For(transfer.Files, may), c.word)
		files := from.Files(transfer.Location{})
		var got []string
		source := transfer.File(transfer.Path(dir + "/" + c.source))
		source.Pattern = strings.Contains(c.source, "*")
		links, err := from.Walk(t.Context(), place.WalkRequest{Args: []place.Argument{{Source: source, Recursive: true}}}, func(it transfer.Item) error {
			name := string(it.Name)
			name = name[strings.LastIndexByte(name, '/')+1:]
			switch {
			case it.Err != nil:
				got = append(got, "!"+name)
			case it.Type == transfer.ItemFile:
				got = append(got, name)
				file, err := files.Open(it.Source, false)
				if err != nil {
					return err
				}
				defer file.Close()
				b, err := io.ReadAll(file)
				if want := map[bool]string{true: "content of in/d/b", false: "content of in/a"}[name == "b"]; string(b) != want || int64(len(b)) != it.Size {
					t.Errorf("%q %s: %s has %q, and %d bytes were found", c.word, c.source, it.Source, b, it.Size)
				}
				return err
			}
			return nil
		})
		must(t, err)
		files.Close()
		want := strings.Fields(c.want)
		slices.SortFunc(want, byName)
		slices.SortFunc(got, byName)
		if c.source == "in/s*" {
			if len(got) != 0 || links != 2 {
				t.Errorf("links alone: %q, %d skipped", got, links)
			}
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || links != c.links {
			t.Errorf("%q %s: %q and %d links; want %q and %d", c.word, c.source, got, links, want, c.links)
		}
	}
	if _, err := f.Place().Files(transfer.Location{}).Open(transfer.Path(dir+"/in/l"), false); transfer.KindOf(err) != transfer.KindWrongType {
		t.Errorf("a link is opened without being asked to: %v", err)
	}
	if _, err := place.WithLinks(f.Place().For(transfer.Files, may), transfer.LinksFollow).Files(transfer.Location{}).Open(transfer.Path(dir+"/in/up"), false); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a link to a file that may not be read: %v", err)
	}
}

func byName(a, b string) int {
	return strings.Compare(strings.TrimPrefix(a, "!"), strings.TrimPrefix(b, "!"))
}
